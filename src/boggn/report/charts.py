"""The charts of what happened: outcomes, thresholds, calibration, evidence and scales, trial by trial."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from boggn.report.gathered import Gathered, Row, gain, improvement, value_of
from boggn.report.markup import Markup, markup
from boggn.report.numbers import Scale, percent, robust, short
from boggn.report.plot import Key, Plot, area, bars, dots, figure, level, line, steps

if TYPE_CHECKING:
    from boggn.prequential import Bin, Prequential
    from boggn.report.learnt import Learnt

WINDOW = 15
"""Trials over which the share of good ones is counted."""
EVIDENCE = "log evidence per outcome"
MEANINGS = {
    "log evidence": "The log evidence says how probable the outcomes are under the model, as the logarithm of that: a "
    "model that fits badly has little, and so has one that could have fitted anything. It jumps where the prior scales "
    "are learned anew.",
    "length-scale": "A length-scale is how far one must go along a parameter until the outcome changes much: a long "
    "one means that the parameter matters little.",
    "precision": "A large precision holds the weights of a parameter or layer near zero: the parameter matters little.",
    "output variance": "The output variance is how far the model lets outcomes differ over the space.",
    "noise": "The noise is how much of an outcome is luck, on the model’s scale.",
    "warp offset": "The warp offset is added to how much worse than the best an outcome is, before the logarithm "
    "is taken: where it is small, the model looks closely at differences among the best.",
}
"""What a person may not know, in plain words."""
STYLES = ("c1", "c2", "c3", "c4", "c5", "c6")


def numbers_axis(gathered: Gathered, more: int = 0) -> Scale:
    """Trial numbers, with room for some to come."""
    return Scale(-0.5, max(len(gathered.rows) + more - 0.5, 0.5))


def whole(scale: Scale, most: int = 6) -> list[tuple[float, str]]:
    """The ticks of an axis that counts."""
    return [tick for tick in scale.ticks(most) if "." not in tick[1] and not tick[1].startswith("\N{MINUS SIGN}")]


def progress(gathered: Gathered, learnt: Learnt | None) -> Markup:
    """Outcomes, the best so far, and what the model expected to gain."""
    complete = gathered.complete
    if not complete:
        return markup()
    now = gain(gathered, learnt.next_model) if learnt is not None else None
    x, y = numbers_axis(gathered, 0 if now is None else 1), robust([value_of(row) for row in complete], gathered.sign)
    best = best_so_far(gathered)
    course = steps([(x.at(number), y.at(value)) for number, value in best])
    course.append((1.0, course[-1][1]))
    told = [(row.number, hope) for row in gathered.rows if (hope := improvement(row.model)) is not None]
    at = dict(best_at(gathered))
    hoped = [(x.at(n - 1), y.on(at[n] - gathered.sign * hope)) for n, hope in told if n in at]
    held = [(x.at(n - 1), y.on(at[n])) for n, _ in told if n in at]
    off = " What is hoped for is left out where it lies off the axis." if any(math.isnan(h) for _, h in hoped) else ""
    beyond = sum(not y.low <= value_of(row) <= y.high for row in complete)
    note = f" {beyond} outcomes lie beyond the edge and are drawn on it." if beyond else ""
    upper = Plot(
        label=f"Outcome of each of {len(complete)} trials, and the best so far, which is now {short(best[-1][1])}.",
        layers=[
            area(steps(hoped), steps(held), "f3"),
            dots(_points(complete, x, y), _keys(complete), f"c1 faint {size_of(complete)}"),
            line(course, "c2 strong"),
        ],
        x=whole(x),
        y=y.ticks(),
        y_title="outcome" + (", logarithmic" if y.log else ""),
        height=260,
        legend=[Key("dot c1 faint", "outcome of a trial"), Key("line c2", "best so far")]
        + ([Key("patch f3", "improvement expected of the next trial")] if hoped else []),
    )
    if now is not None:
        told.append((len(gathered.rows), now))
    lower = _improvement(gathered, x, [each for each in told if each[1] > 0.0])
    return figure(f"Each dot is a trial; the line is the best outcome up to then.{note}{off}", upper.html(), lower)


def _improvement(gathered: Gathered, x: Scale, told: Sequence[tuple[int, float]]) -> Markup:
    if len(told) < 2:
        return markup()
    gains = Scale.around((hope for _, hope in told), log=True)
    points = [(x.at(number), gains.at(hope)) for number, hope in told]
    return Plot(
        label=f"Expected improvement at each suggestion, from {short(told[0][1])} to {short(told[-1][1])}.",
        layers=[
            line(points, "c3"),
            dots(points, ["next" if n == len(gathered.rows) else n for n, _ in told], "c3 small"),
        ],
        x=whole(x),
        y=gains.ticks(4),
        x_title="trial",
        y_title="expected improvement on the best, logarithmic",
        height=130,
    ).html()


def best_so_far(gathered: Gathered) -> list[tuple[int, float]]:
    """The trials that were better than all before, with their outcomes."""
    found: list[tuple[int, float]] = []
    for row in gathered.complete:
        if not found or gathered.sign * value_of(row) < gathered.sign * found[-1][1]:
            found.append((row.number, value_of(row)))
    return found


def best_at(gathered: Gathered) -> Iterable[tuple[int, float]]:
    """For each trial that some outcome came before: its number, and the best of those."""
    best = None
    for row in gathered.rows:
        if best is not None:
            yield row.number, best
        if row.value is not None and (best is None or gathered.sign * row.value < gathered.sign * best):
            best = row.value


def labels(gathered: Gathered) -> Markup:
    """The gamma-threshold over time, which trials were at it or better when they came, and how often."""
    judged = [row for row in gathered.complete if row.threshold is not None]
    if not judged:
        return markup()
    x, y = numbers_axis(gathered), robust([value_of(row) for row in gathered.complete], gathered.sign)
    good, bad = [row for row in judged if row.good], [row for row in judged if not row.good]
    bar = [(x.at(row.number), y.at(row.threshold)) for row in judged if row.threshold is not None]
    above = Plot(
        label=f"Threshold over time; {len(good)} of {len(judged)} trials were at it or better when they came.",
        layers=[
            line(steps(bar), "c4 strong"),
            dots(_points(bad, x, y), _keys(bad), f"muted hollow {size_of(judged)}"),
            dots(_points(good, x, y), _keys(good), f"c1 {size_of(judged)}"),
        ],
        x=whole(x),
        y=y.ticks(),
        y_title="outcome" + (", logarithmic" if y.log else ""),
        height=230,
        legend=[Key("line c4", "threshold"), Key("dot c1", "good when it came"), Key("dot muted hollow", "not good")],
    )
    shares = [
        (x.at(row.number), sum(bool(each.good) for each in judged[max(0, i - WINDOW + 1) : i + 1]) / min(i + 1, WINDOW))
        for i, row in enumerate(judged)
    ]
    below = Plot(
        label=f"Share of good trials among the latest {WINDOW}.",
        layers=[level(gathered.gamma, "muted dash"), line(shares[min(4, len(shares) - 1) :], "c1")],
        x=whole(x),
        y=[(0.0, "0"), (gathered.gamma, "γ"), (1.0, "1")],
        x_title="trial",
        y_title=f"share of good ones among the latest {WINDOW}",
        height=110,
    )
    caption = (
        f"A trial is good if it is among the best {percent(gathered.gamma)} (γ) of those before it. "
        "A sampler that learns nothing is good about that often."
    )
    return figure(caption, above.html(), below.html())


def calibration(gathered: Gathered, told: Prequential) -> Markup:
    """What the model foretold against what came."""
    if not told.predictions:
        return markup()
    caption = (
        f"{len(told.predictions)} predictions, each made before its trial ran. Smaller is better: the log-loss, the "
        f"mean surprise at what came, is {told.log_loss:.3f} (a coin: 0.693); the Brier score, the mean squared "
        f"distance of a prediction from 1 where it came true and from 0 where not, {told.brier:.3f} (a coin: 0.250); "
        f"the calibration error, the mean distance of the dots from the dashed line, {told.calibration_error:.3f}."
    )
    return figure(caption, _reliability(told), _predictions(gathered, told), style="panels")


def bins_of(told: Prequential) -> list[Bin]:
    """At most five, of at least six predictions each."""
    return told.reliability(min(5, max(1, len(told.predictions) // 6)))


def _reliability(told: Prequential) -> Markup:
    bins = bins_of(told)
    spans = [wilson(round(b.frequency * b.size), b.size) for b in bins]
    ends = [
        ((b.class_probability, low), (b.class_probability, high)) for b, (low, high) in zip(bins, spans, strict=True)
    ]
    said = (f"{percent(b.class_probability)} predicted, {percent(b.frequency)} came true" for b in bins)
    return Plot(
        label="Predicted against observed share of good trials: " + "; ".join(said) + ".",
        layers=[
            line([(0.0, 0.0), (1.0, 1.0)], "muted dash"),
            bars(ends, (), "c1 whisker"),
            dots([(b.class_probability, b.frequency) for b in bins], [f"bin{i}" for i in range(len(bins))], "c1 large"),
        ],
        x=_shares(),
        y=_shares(),
        x_title="predicted probability to be good",
        y_title="share that came true",
        height=280,
        legend=[Key("dot c1", "trials of like probability, 90% interval"), Key("line muted dc2", "perfect")],
    ).html()


def _predictions(gathered: Gathered, told: Prequential) -> Markup:
    x = numbers_axis(gathered)
    layers = []
    for good, style in ((False, "muted hollow"), (True, "c1")):
        these = [p for p in told.predictions if p.good == good]
        points = [(x.at(p.trial_number), p.class_probability) for p in these]
        layers.append(dots(points, [p.trial_number for p in these], style))
    return Plot(
        label="Predicted probability of each trial, and whether it came true.",
        layers=layers,
        x=whole(x, 5),
        y=_shares(),
        x_title="trial",
        y_title="predicted probability to be good",
        height=280,
        legend=[Key("dot c1", "it was good"), Key("dot muted hollow", "it was not")],
    ).html()


def calibration_tips(told: Prequential) -> dict[str, str]:
    """The tooltips of its bins."""
    return {
        f"bin{i}": f"{b.size} trials\npredicted {percent(b.class_probability)}\ncame true {percent(b.frequency)}"
        for i, b in enumerate(bins_of(told))
    }


def wilson(successes: int, size: int, end: float = 1.6449) -> tuple[float, float]:
    """The Wilson interval of a share, of 90 percent."""
    share, room = successes / size, end**2 / size
    middle = (share + room / 2) / (1 + room)
    half = end / (1 + room) * math.sqrt(share * (1 - share) / size + room / (4 * size))
    return max(0.0, middle - half), min(1.0, middle + half)


def evidence(gathered: Gathered) -> Markup:
    """How well the model explained the outcomes, and the prior scales it learned."""
    told = [(row.number, row.model) for row in gathered.rows if row.model is not None]
    if not told:
        return markup()
    lines: dict[str, dict[str, list[tuple[int, float]]]] = {
        EVIDENCE: {
            "log evidence": [(n, m.log_evidence / m.observations) for n, m in told if m.log_evidence is not None]
        }
    }
    for number, model in told:
        for name, value in model.scales.items():
            parts = value if isinstance(value, Mapping) else {name: value}
            title = name if isinstance(value, Mapping) else "other scales"
            for part, each in parts.items():
                if isinstance(each, (int, float)) and math.isfinite(each):
                    lines.setdefault(title, {}).setdefault(str(part), []).append((number, float(each)))
    lines = {title: courses for title, courses in lines.items() if any(courses.values())}
    plots = [_courses(gathered, title, courses) for title, courses in lines.items()]
    if not plots:
        return markup()
    shown = [name.partition(" of ")[0] for title, courses in lines.items() for name in (title, *courses)]
    return figure(" ".join(text for name, text in MEANINGS.items() if name in shown), *plots, style="panels")


def _courses(gathered: Gathered, title: str, courses: Mapping[str, Sequence[tuple[int, float]]]) -> Markup:
    shown = dict(sorted(courses.items(), key=lambda item: item[1][-1][1])[: len(STYLES)])
    x = numbers_axis(gathered)
    values = [value for course in shown.values() for _, value in course]
    y = Scale.around(values, log=title != EVIDENCE)
    layers = []
    for style, course in zip(STYLES, shown.values(), strict=False):
        points = [(x.at(number), y.at(value)) for number, value in course]
        layers += [
            line(points, f"{style} d{style}"),
            dots(points, [n for n, _ in course], f"{style} {'small' if len(course) == 1 else 'unseen'}"),
        ]
    ends = "; ".join(f"{name} is now {short(course[-1][1])}" for name, course in shown.items())
    rest = f" (the {len(shown)} smallest of {len(courses)})" if len(courses) > len(shown) else ""
    return Plot(
        label=f"{title} over the trials: {ends}.",
        layers=layers,
        x=whole(x, 5),
        y=y.ticks(5),
        x_title="trial",
        y_title=title + rest + (", logarithmic" if y.log else ""),
        height=190,
        legend=[Key(f"line {style} d{style}", name) for style, name in zip(STYLES, shown, strict=False)]
        if len(shown) > 1
        else [],
    ).html()


def size_of(rows: Sequence[Row]) -> str:
    """Many dots are small ones."""
    return "tiny" if len(rows) > 800 else "small" if len(rows) > 200 else ""


def _points(rows: Sequence[Row], x: Scale, y: Scale) -> list[tuple[float, float]]:
    return [(x.at(row.number), y.at(value_of(row))) for row in rows]


def _keys(rows: Sequence[Row]) -> list[int]:
    return [row.number for row in rows]


def _shares() -> list[tuple[float, str]]:
    return [(share, percent(share)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
