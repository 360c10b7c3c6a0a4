"""The page: its sections in their order, its style and script, and the promise that it loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from boggn.prequential import prequential
from boggn.report import charts, landscape, table, timeline
from boggn.report.axes import axes_of
from boggn.report.gathered import Gathered, Row, gain, gather, snapshot, value_of
from boggn.report.learnt import Learnt, learn
from boggn.report.markup import Markup, embedded, markup, tag
from boggn.report.numbers import NONE, duration, percent, short
from boggn.report.words import summary

if TYPE_CHECKING:
    from optuna.study import Study

MOST_IN_TIP = 10


class Section(NamedTuple):
    """A part of the page. Without content it says why."""

    anchor: str
    title: str
    content: Markup
    why_not: str


def html(study: Study) -> str:
    """The report of a study, as one page."""
    taken = snapshot(study)
    told = prequential(taken.study)
    gathered = gather(taken)
    axes = axes_of(gathered.space)
    found = learn(taken.study, axes, [row.number for row in gathered.best_first])
    learnt = None if isinstance(found, str) else found
    no_model = f"There is no model yet: {found}." if isinstance(found, str) else ""
    no_outcome = "No trial has an outcome yet."
    no_record = (
        "Only boggn’s sampler records what it expects, once it has a model; no trial of this study has such a record."
    )
    fitted_now = f" Fitted now, its log evidence is {short(learnt.log_evidence)}." if learnt else ""
    paragraphs = [tag("p", text) for text in summary(gathered, found, told, axes)]
    sections = [
        Section("learnt", "What was learnt", tag("div", *paragraphs, class_="prose"), ""),
        Section("best", "Top trials", table.top(gathered, learnt), no_outcome),
        Section("progress", "Progress", charts.progress(gathered, learnt), no_outcome),
        Section("importance", "Importance", landscape.importance(learnt) if learnt else markup(), no_model),
        Section("slices", "Slices", landscape.slices(gathered, learnt, axes) if learnt else markup(), no_model),
        Section(
            "planes",
            "Where to go next",
            landscape.planes(gathered, learnt, axes) if learnt else markup(),
            no_model or "It takes two parameters that the model knows.",
        ),
        Section(
            "coordinates",
            "Parallel coordinates",
            landscape.coordinates(gathered, axes, learnt),
            no_outcome if axes or not gathered.complete else "No parameter took more than one value.",
        ),
        Section("labels", "Threshold and labels", charts.labels(gathered), "It takes two outcomes."),
        Section("calibration", "Calibration", charts.calibration(gathered, told), no_record),
        Section("evidence", "Evidence and scales", charts.evidence(gathered), no_record + fitted_now),
        Section("timeline", "Timeline", timeline.timeline(gathered), "No trial has begun yet."),
    ]
    if not gathered.rows:
        sections = sections[:1]
    tips = {str(row.number): _tip(row) for row in gathered.rows} | charts.calibration_tips(told)
    return _document(gathered, learnt, sections, tips)


def _document(gathered: Gathered, learnt: Learnt | None, sections: Sequence[Section], tips: dict[str, str]) -> str:
    style, script = _resource("page.css"), _resource("page.js")
    # Nothing may be loaded, and no script may run but this one, whatever a study's names contain.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{gathered.name}: a report by boggn"),
        tag("style", Markup(style)),
    )
    entries = (tag("li", tag("a", section.title, href=f"#{section.anchor}")) for section in sections)
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#learnt", class_="skip"),
        _header(gathered, learnt),
        tag(
            "div",
            tag("nav", tag("ol", *entries), aria_label="Contents"),
            tag("main", *(_section(section) for section in sections)),
            class_="layout",
        ),
        tag("footer", tag("p", "Made by boggn from the study alone. The page loads nothing.")),
        tag("div", id="tip", role="status", hidden=True),
        tag("script", embedded(tips), type="application/json", id="tips"),
        tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(gathered: Gathered, learnt: Learnt | None) -> Markup:
    best = gathered.best_first[:1]
    aim = "minimised" if gathered.sign > 0 else "maximised"
    hoped = gain(gathered, learnt.next_model) if learnt else None
    facts = [
        ("best outcome", short(value_of(best[0])) if best else NONE, f"trial {best[0].number}" if best else "none yet"),
        ("trials", str(len(gathered.rows)), _states(gathered)),
        (
            "expected gain",
            NONE if hoped is None else short(hoped, 2),
            "of the next trial, on the best",
        ),
        (
            "duration",
            duration(gathered.now) if gathered.now else NONE,
            f"until {gathered.last}" if gathered.last else "none yet",
        ),
    ]
    tiles = (tag("div", tag("dt", name), tag("dd", tag("b", value), tag("span", more))) for name, value, more in facts)
    toggle = tag("button", "Theme: auto", type="button", id="theme", title="Change between automatic, light and dark")
    return tag(
        "header",
        tag("div", tag("p", f"boggn report · one outcome, {aim}", class_="kicker"), toggle, class_="bar"),
        tag("h1", gathered.name),
        tag("dl", *tiles, class_="tiles"),
    )


def _states(gathered: Gathered) -> str:
    counts = [(gathered.count(state), state) for state in ("complete", "pruned", "failed", "running", "waiting")]
    return ", ".join(f"{count} {state}" for count, state in counts if count) or "none yet"


def _section(section: Section) -> Markup:
    content = section.content or tag("p", section.why_not, class_="why")
    return tag("section", tag("h2", section.title), content, id=section.anchor)


def _tip(row: Row) -> str:
    lines = [f"Trial {row.number}, {row.state}" + (" and tried again" if row.again else "")]
    if row.state == "failed":
        lines.append(timeline.reason_of(row.failure))
    if row.value is not None:
        lines.append(f"outcome {short(row.value)}" + (", good when it came" if row.good else ""))
    if row.model is not None:
        lines.append(f"was given a chance of {percent(row.model.class_probability)}")
    lines += [f"{short(name)} = {short(value)}" for name, value in list(row.params.items())[:MOST_IN_TIP]]
    return "\n".join(lines)


def _resource(name: str) -> str:
    return resources.files("boggn.report").joinpath(name).read_text(encoding="utf-8")
