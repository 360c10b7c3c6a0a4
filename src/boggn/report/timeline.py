"""The timeline: when each trial ran, side by side where several ran at once, how it ended, and why some failed."""

from __future__ import annotations

from collections.abc import Sequence

from boggn.report.gathered import Gathered, Reason, Row, reasons
from boggn.report.markup import Markup, markup, tag
from boggn.report.numbers import Scale, duration, short, unit_of
from boggn.report.plot import Key, Plot, bars, dots, figure

SHORTEST = 0.002
"""Of the width of the timeline, so that a trial that took no time is seen."""
MOST_LANES = 32
MOST_REASONS = 5
STATES = {"complete": "c1", "pruned": "c5", "failed": "c2 dashed", "running": "c3", "waiting": "muted"}


def timeline(gathered: Gathered) -> Markup:
    """When each trial ran, side by side where several ran at once, and how it ended."""
    timed = [row for row in gathered.rows if row.start is not None]
    if not timed:
        return markup()
    end = max(gathered.now, 1e-9)
    x = Scale(0.0, end)
    spans = [(row, _start(row), row.end if row.end is not None else end) for row in timed]
    least = SHORTEST * end
    lanes = _lanes([(start, stop) for _, start, stop in spans])
    count = max(lanes) + 1
    layers, legend = [], []
    for state, style in STATES.items():
        these = [
            (row, start, stop, lane)
            for (row, start, stop), lane in zip(spans, lanes, strict=True)
            if row.state == state
        ]
        if not these:
            continue
        heights = [1.0 - (lane + 0.5) / count for *_, lane in these]
        ends = [
            ((x.at(start), h), (x.at(max(stop, start + least)), h))
            for (_, start, stop, _), h in zip(these, heights, strict=True)
        ]
        layers.append(bars(ends, [row.number for row, *_ in these], f"{style} bar"))
        if state == "failed":
            layers.append(dots([b for _, b in ends], [row.number for row, *_ in these], "c2"))
        legend.append(Key(f"line {style} wide", f"{state} ({len(these)})"))
    unit, size = unit_of(end)
    plot = Plot(
        label=f"Timeline of {len(timed)} trials over {duration(end)}: " + ", ".join(key.text for key in legend) + ".",
        layers=layers,
        x=Scale(0.0, end / size).ticks(),
        y=[],
        x_title=f"time since the first trial began, {unit}",
        height=min(max(60, 26 * count), 26 * MOST_LANES),
        legend=legend,
        style="" if count <= MOST_LANES else "crowded",
    )
    together = "One trial at a time." if count == 1 else f"Up to {count} trials at a time."
    failed = gathered.count("failed")
    caption = together + (f" {failed} failed; a dot marks where." if failed else " None failed.")
    return figure(caption, plot.html(), _failures(reasons(gathered)))


def _failures(found: Sequence[Reason]) -> Markup:
    """Why trials failed, the most frequent reasons."""
    if not found:
        return markup()
    entries = [
        tag("li", tag("b", f"{each.count}\N{NO-BREAK SPACE}×"), " ", reason_of(each.text), _retried(each))
        for each in found[:MOST_REASONS]
    ]
    rest = len(found) - MOST_REASONS
    more = tag("li", f"and {rest} other reason{'s' if rest > 1 else ''}") if rest > 0 else None
    return tag("div", tag("h3", "Why trials failed"), tag("ul", *entries, more), class_="reasons")


def _retried(reason: Reason) -> str | None:
    if not reason.again:
        return None
    return " (tried again)" if reason.again == reason.count else f" ({reason.again} tried again)"


def reason_of(text: str | None) -> str:
    """Why a trial failed, cut to what can be read at a glance."""
    return "for a reason that was not recorded" if not text else short(text)


def _lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """For each span the first lane that is free when it begins."""
    free: list[float] = []
    lanes = [0] * len(spans)
    for index in sorted(range(len(spans)), key=lambda i: spans[i]):
        start, stop = spans[index]
        lane = next((i for i, until in enumerate(free) if until <= start), len(free))
        free[lane:] = [stop, *free[lane + 1 :]]
        lanes[index] = lane
    return lanes


def _start(row: Row) -> float:
    return 0.0 if row.start is None else row.start
