"""A plot that is as wide as its place: lines in an SVG that stretches, texts in HTML that do not.

The SVG has 1000 units each way and no aspect ratio; strokes keep their width, and a dot is a stroke of no length with
round ends, so it stays round. All marks of one kind are one path, with the keys of their tooltips beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, final

from boggn.report.markup import Markup, markup, tag

Places = Sequence[tuple[float, float]]
"""Points between (0, 0), bottom left, and (1, 1)."""
Ticks = Sequence[tuple[float, str]]


class Key(NamedTuple):
    """One entry of a legend: the class of the mark, and what it stands for."""

    style: str
    text: str


@final
@dataclass(frozen=True)
class Plot:
    """Layers between two axes. `label` is what a person hears who cannot see it; `notes` are texts at places inside."""

    label: str
    layers: Sequence[Markup]
    x: Ticks
    y: Ticks
    x_title: str = ""
    y_title: str = ""
    right: Ticks = ()
    right_title: str = ""
    height: int = 220
    legend: Sequence[Key] = ()
    notes: Sequence[tuple[float, float, str]] = ()
    style: str = ""

    def html(self) -> Markup:
        """The plot with its axes, titles and legend."""
        drawing = tag(
            "svg",
            grid([place for place, _ in self.x], [place for place, _ in self.y]),
            *self.layers,
            viewBox="0 0 1000 1000",
            preserveAspectRatio="none",
            role="img",
            aria_label=self.label,
            tabindex="0",
        )
        notes = [
            tag("span", text, class_="note", style=f"left:{100 * x:.2f}%;bottom:{100 * y:.2f}%", title=text)
            for x, y, text in self.notes
        ]
        return tag(
            "div",
            _legend(self.legend),
            tag("div", tag("span", self.y_title, title=self.y_title), tag("span", self.right_title), class_="titles")
            if self.y_title
            else None,
            tag(
                "div",
                _labels("y", self.y),
                tag("div", drawing, *notes, class_="frame"),
                _labels("right", self.right) if self.right else None,
                _labels("x", self.x),
                class_="axes",
            ),
            tag("div", self.x_title, title=self.x_title, class_="x-title") if self.x_title else None,
            class_=f"plot {self.style}".strip(),
            style=f"--height:{self.height}px",
        )


def dots(points: Places, keys: Iterable[object], style: str) -> Markup:
    """A round mark at each point; `hollow` in the style makes rings of them."""
    return _marks([f"M{_at(point)}h0" for point in points], keys, style)


def bars(ends: Sequence[tuple[tuple[float, float], tuple[float, float]]], keys: Iterable[object], style: str) -> Markup:
    """A straight mark between each pair of points."""
    return _marks([f"M{_at(a)}L{_at(b)}" for a, b in ends], keys, style)


def threads(courses: Sequence[Places], keys: Iterable[object], style: str) -> Markup:
    """A line through several points for each key."""
    return _marks([_course(points) for points in courses], keys, style)


def line(points: Places, style: str) -> Markup:
    """A line without tooltips; where a coordinate is NaN it has a gap."""
    text = "".join(_course([*run]) for known, run in groupby(points, key=lambda point: _drawn([point])) if known)
    return tag("path", d=text, class_=f"line {style}") if text else Markup("")


def steps(points: Places) -> list[tuple[float, float]]:
    """The points of a line that keeps each value until the next."""
    course: list[tuple[float, float]] = []
    for x, y in points:
        if course:
            course.append((x, course[-1][1]))
        course.append((x, y))
    return course


def area(upper: Places, lower: Places, style: str) -> Markup:
    """What lies between two lines over the same places; where a coordinate is NaN it has a gap."""
    pairs = zip(upper, lower, strict=True)
    runs = [list(run) for known, run in groupby(pairs, key=_drawn) if known]
    return region([[*(u for u, _ in run), *(v for _, v in reversed(run))] for run in runs], style)


def region(loops: Sequence[Places], style: str) -> Markup:
    """What closed loops enclose, by the even-odd rule."""
    if not loops:
        return Markup("")
    return tag("path", d="".join(_course(loop) + "Z" for loop in loops), class_=f"area {style}")


def box(low: tuple[float, float], high: tuple[float, float], style: str) -> Markup:
    """A filled rectangle."""
    (left, bottom), (right, top) = low, high
    return region([[(left, bottom), (right, bottom), (right, top), (left, top)]], style)


def level(y: float, style: str) -> Markup:
    """A line across."""
    return line([(0.0, y), (1.0, y)], style)


def upright(x: float, style: str) -> Markup:
    """A line from bottom to top."""
    return line([(x, 0.0), (x, 1.0)], style)


def grid(x: Iterable[float], y: Iterable[float]) -> Markup:
    """Thin lines at ticks."""
    text = "".join(f"M{_number(place)} 0V1000" for place in x)
    text += "".join(f"M0 {_number(1 - place)}H1000" for place in y)
    return tag("path", d=text, class_="grid", aria_hidden="true")


def figure(caption: object, *plots: Markup, style: str = "", legend: Sequence[Key] = ()) -> Markup:
    """Plots with a sentence or two, and the legend they share."""
    return tag(
        "figure",
        tag("figcaption", tag("p", caption), _legend(legend)),
        tag("div", *plots, class_=style or None),
    )


def scrolling(content: Markup, label: str, style: str | None = None) -> Markup:
    """What may be wider than its place: it scrolls sideways, shows that there is more, and the keyboard reaches it."""
    return tag(
        "div",
        content,
        class_="scrolls",
        style=style,
        tabindex="0",
        role="group",
        aria_label=f"{label}; scrolls sideways",
    )


def _marks(paths: Sequence[str], keys: Iterable[object], style: str) -> Markup:
    if not paths:
        return Markup("")
    named = " ".join(str(key) for key in keys)
    shape = tag("path", d="".join(paths), class_=f"marks {style}", data_keys=named)
    if "hollow" not in style:
        return shape
    return markup(shape, tag("path", d="".join(paths), class_="marks core"))


def _legend(keys: Sequence[Key]) -> Markup | None:
    if not keys:
        return None
    entries = (tag("li", tag("i", class_=f"key {key.style}", aria_hidden="true"), key.text) for key in keys)
    return tag("ul", *entries, class_="legend")


def _labels(side: str, ticks: Ticks) -> Markup:
    """Texts at their places. An unseen copy of the longest one gives a column of labels its width."""
    longest = max((text for _, text in ticks), key=len, default="")
    across = side == "x"
    spans = [
        tag(
            "span",
            text,
            style=f"left:{100 * place:.2f}%" if across else f"bottom:{100 * place:.2f}%",
            title=text if len(text) > 8 else None,
        )
        for place, text in ticks
    ]
    ghost = None if across else tag("b", longest)
    share = f"--share:{100 / max(len(ticks), 1):.1f}%" if across else None
    return tag("div", ghost, *spans, class_=f"labels {side}", aria_hidden="true", style=share)


def _drawn(points: Places) -> bool:
    return not any(math.isnan(coordinate) for point in points for coordinate in point)


def _course(points: Places) -> str:
    return "M" + "L".join(_at(point) for point in points)


def _at(point: tuple[float, float]) -> str:
    return f"{_number(point[0])} {_number(1.0 - point[1])}"


def _number(share: float) -> str:
    return f"{1000 * share:.1f}".removesuffix(".0")
