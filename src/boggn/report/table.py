"""The table of the best trials."""

from __future__ import annotations

from collections.abc import Sequence

from boggn.report.gathered import Gathered, Row, value_of
from boggn.report.learnt import TOP, Learnt, by_importance
from boggn.report.markup import Markup, markup, tag
from boggn.report.numbers import NONE, apart, column, duration, give_or_take, percent, wants_power
from boggn.report.plot import scrolling

Column = tuple[str, list[Markup]]
"""Its head and its cells."""
DIGITS = 3
"""Of a parameter; pointing at it tells all of them."""


def top(gathered: Gathered, learnt: Learnt | None) -> Markup:
    """The best trials: their outcomes, what the model expects of each, their parameters, what each was given."""
    rows = gathered.best_first[:TOP]
    if not rows:
        return markup()
    names = by_importance((name for name in gathered.space if any(name in row.params for row in rows)), learnt)
    columns = [
        ("trial", [_number(row, learnt) for row in rows]),
        *_outcomes(rows, learnt),
        *((name, _parameter(rows, name)) for name in names),
        (
            "chance it was given",
            [tag("td", percent(row.model.class_probability if row.model else None)) for row in rows],
        ),
        ("took, with its suggestion", [tag("td", _took(row)) for row in rows]),
    ]
    heads = [tag("th", tag("span", head, title=head), scope="col") for head, _ in columns]
    body = [tag("tr", *cells) for cells in zip(*(cells for _, cells in columns), strict=True)]
    table = tag(
        "table",
        tag("caption", f"The best {len(rows)} of {len(gathered.complete)} outcomes"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *body),
    )
    return scrolling(table, "Table of the best trials")


def _outcomes(rows: Sequence[Row], learnt: Learnt | None) -> list[Column]:
    """The outcomes and what the model expects, both in one notation."""
    values = [value_of(row) for row in rows]
    expected = [learnt.expected.get(row.number) if learnt else None for row in rows]
    sizes = [max(abs(each[0]), each[2] - each[1]) for each in expected if each is not None]
    powered = wants_power([*values, *sizes])
    columns = [("outcome", [tag("td", text) for text in apart(values, 4, powered=powered)])]
    if sizes:
        columns.append(("expected by the model", [tag("td", _interval(each, powered=powered)) for each in expected]))
    return columns


def _interval(triple: tuple[float, float, float] | None, *, powered: bool) -> str:
    if triple is None:
        return NONE
    middle, low, high = triple
    return give_or_take(middle, max(high - middle, middle - low), powered=powered)


def _parameter(rows: Sequence[Row], name: str) -> list[Markup]:
    texts = column([row.params.get(name) for row in rows], DIGITS)
    return [
        tag("td", text, title=str(row.params[name])) if name in row.params else tag("td", NONE)
        for row, text in zip(rows, texts, strict=True)
    ]


def _number(row: Row, learnt: Learnt | None) -> Markup:
    badge = tag("em", "recommended") if learnt is not None and learnt.anchor == row.number else None
    return tag("th", row.number, badge, scope="row")


def _took(row: Row) -> str:
    return duration(row.end - row.start) if row.start is not None and row.end is not None else NONE
