"""The charts of the space: importance, slices, planes of the acquisition, parallel coordinates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from boggn.report.contours import outlines
from boggn.report.gathered import Gathered, Row, negligible, value_of
from boggn.report.learnt import by_importance
from boggn.report.markup import Markup, markup, tag
from boggn.report.numbers import Scale, percent, robust, short
from boggn.report.plot import (
    Key,
    Plot,
    area,
    bars,
    box,
    dots,
    figure,
    level,
    line,
    region,
    scrolling,
    threads,
    upright,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from boggn.belief import Band
    from boggn.report.axes import Axis
    from boggn.report.learnt import Learnt, Plane, Slice

    Floats = NDArray[np.float64]

LEVELS = (0.01, 0.05, 0.15, 0.3, 0.5, 0.7, 0.9)
"""Shares of what the next point promises, where each shade of a plane begins."""
NAMED = (7, 5, 3, 1)
"""Shades in the legend."""
MOST_DOTS = 250
MOST_THREADS = 400
MOST_COLUMNS = 12


def importance(learnt: Learnt) -> Markup:
    """How much each parameter decides about the outcome."""
    if not learnt.shares:
        return markup()
    entries = [
        tag(
            "li",
            tag("span", share.name, class_="name", title=share.name),
            tag(
                "span",
                tag("i", class_="total", style=f"width:{100 * share.total:.1f}%"),
                tag("i", class_="alone", style=f"width:{100 * min(share.alone, share.total):.1f}%"),
                class_="track",
                aria_hidden="true",
            ),
            tag("span", percent(share.total), class_="share"),
            tag("span", f" in all, {percent(min(share.alone, share.total))} alone", class_="heard"),
        )
        for share in learnt.shares
    ]
    caption = markup(
        "How much of the variation of the outcome’s rank, by the model, over the whole space, a parameter explains: ",
        tag("i", class_="key patch b1"),
        " alone, ",
        tag("i", class_="key patch b2"),
        " with its interactions, which count for each parameter that takes part",
        ", so that they overlap and sum to more than 100%."
        if sum(share.total for share in learnt.shares) > 1.005
        else ".",
    )
    return figure(caption, tag("ol", *entries, class_="importance"))


def slices(gathered: Gathered, learnt: Learnt, axes: Mapping[str, Axis]) -> Markup:
    """For each parameter: class probability and ratio, and the outcome, with their bands."""
    anchor = gathered.rows[learnt.anchor]
    shown = sample(gathered)
    y = robust([value_of(row) for row in gathered.complete], gathered.sign)
    panels = [_slice(each, axes[each.name], anchor, learnt, y, shown) for each in learnt.slices]
    rest = len(learnt.params) - len(learnt.slices)
    caption = (
        f"One parameter moves, the others stay as in trial {learnt.anchor} (upright line). Above: the probability that "
        f"an outcome is good, at the threshold {short(learnt.threshold)} or better. The right axis, the density ratio, "
        f"divides it by γ = {learnt.gamma:.2g}, the share of good ones among all trials so far: "
        "above the dashed line a point is more promising than a random trial. Below: the outcome, without its noise. "
        "A band holds 90% of what the model holds possible. What is missing lies beyond the axis."
        + (f" The {rest} least important are left out." if rest else "")
    )
    return figure(caption, *panels, style="panels")


def _slice(each: Slice, axis: Axis, anchor: Row, learnt: Learnt, y: Scale, shown: Sequence[Row]) -> Markup:
    here = axis.place(anchor.params)
    mark = [] if here is None else [upright(here, "here")]
    ratio = Scale(0.0, 1.0 / learnt.gamma)
    unit = Scale(0.0, 1.0)
    best = each.values[int(np.argmax(each.class_probability.mean))]
    upper = Plot(
        label=f"Probability to be good along {each.name}: largest at {short(best)}, "
        f"{percent(float(np.max(each.class_probability.mean)))}.",
        layers=[
            level(learnt.gamma, "muted dash"),
            *mark,
            *_band(axis, each.values, each.class_probability, unit, "c1", "f1"),
        ],
        x=axis.ticks(),
        y=[(share, short(share)) for share in (0.0, 0.5, 1.0)],
        right=[(place, text) for place, text in ratio.ticks(4)],
        y_title="probability to be good",
        right_title="density ratio",
        height=130,
        style="upper",
    ).html()
    placed = [(row, place) for row in shown if (place := axis.place(row.params)) is not None]
    points = [(place, y.at(value_of(row))) for row, place in placed]
    cloud = dots(points, [row.number for row, _ in placed], "c1 faint small")
    outcome = [] if each.outcome is None else _band(axis, each.values, each.outcome, y, "c3", "f3")
    lower = Plot(
        label=f"Outcome along {each.name}, with the trials.",
        layers=[*mark, *outcome, cloud],
        x=axis.ticks(),
        y=y.ticks(4),
        right=[(place, text) for place, text in ratio.ticks(4)],
        x_title=short(each.name),
        y_title="outcome",
        height=130,
        style="lower",
    ).html()
    return tag("div", tag("h4", each.name, title=each.name), upper, lower, class_="panel")


def _band(axis: Axis, values: Sequence[Any], band: Band, y: Scale, stroke: str, fill: str) -> list[Markup]:
    """A line in its band; whiskers where the parameter has levels. What is off the axis is not drawn.

    A band that leaves a linear axis is cut there. What leaves a logarithmic one may go on without end.
    """
    places = axis.places(values)
    mean = [y.on(float(value)) for value in band.mean]
    cut = y.on if y.log else y.at
    low, high = ([cut(float(value)) + 0.0 * middle for value, middle in zip(c, mean, strict=True)] for c in band[1:])
    middle = list(zip(places, mean, strict=True))
    if axis.levels is not None:
        ends = [
            ((x, a), (x, b)) for x, a, b in zip(places, low, high, strict=True) if math.isfinite(a) and math.isfinite(b)
        ]
        there = [point for point in middle if math.isfinite(point[1])]
        return [bars(ends, (), f"{stroke} whisker"), dots(there, (), f"{stroke} large")]
    upper, lower = list(zip(places, high, strict=True)), list(zip(places, low, strict=True))
    return [area(upper, lower, fill), line(middle, f"{stroke} strong")]


def planes(gathered: Gathered, learnt: Learnt, axes: Mapping[str, Axis]) -> Markup:
    """The acquisition over each pair of the most important parameters."""
    if not learnt.planes:
        return markup()
    shown = sample(gathered)
    panels = [_plane(each, axes[each.x], axes[each.y], gathered, learnt, shown) for each in learnt.planes]
    heading = learnt.next_params is not None
    others = (
        "are those of the point where the sampler would go next" if heading else f"stay as in trial {learnt.anchor}"
    )
    little = "Little is left to gain, wherever it goes. " if negligible(gathered, learnt.next_model) else ""
    caption = (
        f"{little}What the sampler maximises, over two parameters; the others {others}. The colour tells how much a "
        f"point promises, as a share of what {'that one' if heading else 'that trial'} does. Trials stand where their "
        "two values are, whatever their others."
    )
    keys = [Key("dot ink", "trial"), Key("dot c2", f"trial {learnt.anchor}, the recommended one")]
    if heading:
        keys.append(Key("dot c3 hollow", "where it would go next"))
    keys += [Key(f"patch s{shade}", f"from {percent(LEVELS[shade - 1])}") for shade in NAMED]
    keys.append(Key("patch s0", "less"))
    return figure(caption, *panels, style="panels", legend=keys)


def _plane(plane: Plane, x: Axis, y: Axis, gathered: Gathered, learnt: Learnt, shown: Sequence[Row]) -> Markup:
    z, xs, ys = plane.worth, x.places(plane.x_values), y.places(plane.y_values)
    paint = _cells if x.levels is not None or y.levels is not None else _shades
    layers = paint(z, xs, ys)
    anchor = [row for row in gathered.rows if row.number == learnt.anchor]
    upcoming = [] if learnt.next_params is None else [learnt.next_params]
    layers += [
        dots([(p, q)], ["next"], "c3 hollow large")
        for params in upcoming
        if (p := x.place(params)) is not None and (q := y.place(params)) is not None
    ]
    for rows, style in (([row for row in shown if row.number != learnt.anchor], "ink small"), (anchor, "c2")):
        found = [
            (p, q, row.number)
            for row in rows
            if (p := x.place(row.params)) is not None and (q := y.place(row.params)) is not None
        ]
        layers.append(dots([(p, q) for p, q, _ in found], [n for *_, n in found], style))
    row, column = np.unravel_index(int(np.argmax(z)), z.shape)
    best = f"{x.name} = {short(plane.x_values[column])}, {y.name} = {short(plane.y_values[row])}"
    plot = Plot(
        label=f"Acquisition over {x.name} and {y.name}: most promising near {best}.",
        layers=layers,
        x=x.ticks(),
        y=y.ticks(),
        x_title=short(x.name),
        y_title=short(y.name),
        height=250,
        style="plane",
    ).html()
    return tag("div", plot, class_="panel")


def _shades(z: Floats, x: Sequence[float], y: Sequence[float]) -> list[Markup]:
    """One region above another, from the least promising."""
    xs, ys = np.array(x), np.array(y)
    found = [box((0.0, 0.0), (1.0, 1.0), "s0")]
    return found + [region(outlines(z, xs, ys, cut), f"s{k}") for k, cut in enumerate(LEVELS, 1)]


def _cells(z: Floats, x: Sequence[float], y: Sequence[float]) -> list[Markup]:
    """A rectangle for each value, where a parameter has levels."""
    columns, rows = _edges(x), _edges(y)
    groups: dict[int, list[list[tuple[float, float]]]] = {}
    for i, (bottom, top) in enumerate(rows):
        for j, (left, right) in enumerate(columns):
            shade = sum(z[i, j] >= cut for cut in LEVELS)
            corners = [(left, bottom), (right, bottom), (right, top), (left, top)]
            groups.setdefault(shade, []).append(corners)
    return [region(loops, f"s{shade} cells") for shade, loops in sorted(groups.items())]


def _edges(places: Sequence[float]) -> list[tuple[float, float]]:
    """The stretch that belongs to each place: half way to its neighbours, and to the ends."""
    middles = [(a + b) / 2 for a, b in pairwise(places)]
    return list(zip([0.0, *middles], [*middles, 1.0], strict=True))


def coordinates(gathered: Gathered, axes: Mapping[str, Axis], learnt: Learnt | None) -> Markup:
    """One thread for each trial through all its parameters to its outcome."""
    names = by_importance(axes, learnt)[:MOST_COLUMNS]
    rows = sample(gathered, MOST_THREADS)
    if not names or not rows:
        return markup()
    y = robust([value_of(row) for row in gathered.complete], gathered.sign)
    places = [(column + 0.5) / (len(names) + 1) for column in range(len(names) + 1)]
    courses = {row.number: _thread(row, names, axes, places, y) for row in rows}
    absent = any(point[1] < _raised(0.0) for course in courses.values() for point in course)
    first, second = max(1, min(20, len(rows) // 10)), max(1, min(80, len(rows) // 3))
    groups = [("muted hair", rows[second:]), ("c1 middling", rows[first:second]), ("c2", rows[:first])]
    ticks = [axes[name].ticks(4) for name in names] + [y.ticks(4)]
    plot = Plot(
        label=f"Parallel coordinates of {len(rows)} trials over {', '.join(names)} and the outcome.",
        layers=[
            *(upright(x, "axis") for x in places),
            *(
                threads([courses[r.number] for r in group[::-1]], [r.number for r in group[::-1]], style)
                for style, group in groups
            ),
        ],
        x=list(zip(places, [*names, "outcome"], strict=True)),
        y=[(_raised(-0.08), "absent")] if absent else [],
        height=330,
        legend=[Key("line c2", f"best {first}"), Key("line c1", f"best {second}"), Key("line muted", "the others")],
        notes=[(x, _raised(place), text) for x, column in zip(places, ticks, strict=True) for place, text in column],
        style="coordinates",
    )
    drawn = (
        ""
        if len(rows) == len(gathered.complete)
        else f" {len(rows)} of {len(gathered.complete)} are drawn: the best, and a spread of the others."
    )
    hidden = len(axes) - len(names)
    left_out = f" {hidden} parameters are left out." if hidden else ""
    wide = scrolling(plot.html(), "Parallel coordinates", style=f"--least:{84 * len(places)}px")
    return figure(f"Each line is a trial.{drawn}{left_out}", wide)


def _thread(
    row: Row, names: Sequence[str], axes: Mapping[str, Axis], places: Sequence[float], y: Scale
) -> list[tuple[float, float]]:
    heights = [axes[name].place(row.params) for name in names]
    raised = [_raised(-0.08 if height is None else height) for height in heights]
    return list(zip(places, [*raised, _raised(y.at(value_of(row)))], strict=True))


def _raised(height: float) -> float:
    """Room below for trials that have no such parameter."""
    return 0.11 + 0.85 * height


def sample(gathered: Gathered, most: int = MOST_DOTS) -> list[Row]:
    """At most so many trials, the best first: the better half of the number, and a spread of the others."""
    ranked = gathered.best_first
    if len(ranked) <= most:
        return ranked
    half = most // 2
    rest = ranked[half:]
    return ranked[:half] + [rest[math.floor(k * len(rest) / half)] for k in range(half)]
