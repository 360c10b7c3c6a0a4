"""What was learnt, in plain sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from boggn.report.charts import best_so_far
from boggn.report.gathered import Gathered, gain, negligible, reasons, relative_gain, value_of
from boggn.report.learnt import by_importance
from boggn.report.numbers import duration, percent, short

if TYPE_CHECKING:
    from boggn.prequential import Prequential
    from boggn.report.axes import Axis
    from boggn.report.learnt import Learnt, Slice

COIN = 0.6931
MUCH = 0.05
"""A gain above this share of the spread of the outcomes is much."""
MOST_NAMED = 6
FEW = 10
"""Fewer predictions than this are not judged."""


def summary(gathered: Gathered, learnt: Learnt | str, told: Prequential, axes: Mapping[str, Axis]) -> list[str]:
    """Paragraphs: what happened, what the model learned, what it expects."""
    if not gathered.rows:
        return ["The study has no trials yet."]
    first = [_happened(gathered), _best(gathered)]
    if isinstance(learnt, str):
        return _paragraphs([*first, _constant(gathered, axes)], [f"There is no model of this study yet: {learnt}."])
    return _paragraphs(
        [*first, _recommended(gathered, learnt), _constant(gathered, axes)],
        [_matters(learnt), _region(learnt, axes)],
        [_remaining(gathered, learnt), _next(learnt), _trusted(told)],
    )


def _paragraphs(*groups: Sequence[str]) -> list[str]:
    return [text for group in groups if (text := " ".join(sentence for sentence in group if sentence))]


def _happened(gathered: Gathered) -> str:
    states = [(gathered.count(state), state) for state in ("complete", "pruned", "failed", "running", "waiting")]
    parts = [f"{count} {state}" for count, state in states if count]
    total = f"{len(gathered.rows)} trial{'s' if len(gathered.rows) != 1 else ''}"
    span = f" within {duration(gathered.now)}" if gathered.now > 0 else ""
    return " ".join([f"The study has {total}{span}: {joined(parts)}.", *_failed(gathered)])


def _failed(gathered: Gathered) -> list[str]:
    found = reasons(gathered)
    count, again = sum(reason.count for reason in found), sum(reason.again for reason in found)
    if count < 2:
        return []
    known = [reason for reason in found if reason.text]
    of_it = f", {known[0].count} of them with “{short(known[0].text)}”" if known else ""
    retried = f"; {again} {'was' if again == 1 else 'were'} tried again" if again else ""
    share = percent(count / len(gathered.rows))
    said = "Every trial failed" if count == len(gathered.rows) else f"The {count} failures are {share} of all trials"
    return [f"{said}{of_it}{retried}."]


def _best(gathered: Gathered) -> str:
    best = best_so_far(gathered)
    if not best:
        return "No trial has an outcome yet."
    number, value = best[-1]
    aim = "smallest" if gathered.sign > 0 else "largest"
    after = gathered.complete.index(gathered.rows[number])
    since = len(gathered.complete) - 1 - after
    when = (
        "it is the latest"
        if since == 0
        else f"{since} outcome{'s have' if since != 1 else ' has'} come since without beating it"
    )
    return f"The {aim} outcome is {short(value)}, of trial {number}; {when}."


def _recommended(gathered: Gathered, learnt: Learnt) -> str:
    best = best_so_far(gathered)
    if not best or learnt.anchor == best[-1][0]:
        return ""
    return (
        f"By the model, which sees through some of the luck in a single outcome, trial {learnt.anchor} "
        f"({short(value_of(gathered.rows[learnt.anchor]))}) is the one to believe in."
    )


def _constant(gathered: Gathered, axes: Mapping[str, Axis]) -> str:
    names = [name for name in gathered.space if name not in axes]
    return f"Only one value was tried of {joined([short(name) for name in names])}." if names else ""


def _matters(learnt: Learnt) -> str:
    if not learnt.shares or learnt.shares[0].total < 0.01:
        return "The model sees no parameter that decides about the outcome."
    first = learnt.shares[0]
    if len(learnt.shares) == 1:
        return f"The model knows one parameter, {short(first.name)}."
    main = [short(share.name) for share in learnt.shares if share.total >= 0.5 * first.total]
    idle = [short(share.name) for share in learnt.shares if share.total < 0.03]
    text = f"What decides most about the outcome is {joined(main[:4])}"
    text += f" ({percent(first.total)} of the variation, with interactions)." if len(main) == 1 else "."
    return text + (f" Hardly anything depends on {joined(idle[:6], 'or')}." if idle else "")


def _region(learnt: Learnt, axes: Mapping[str, Axis]) -> str:
    phrases = [phrase for each in learnt.slices[:3] if (phrase := _promising(each, axes[each.name], learnt.gamma))]
    if not phrases:
        return ""
    return f"Near the recommended trial, points are more promising than a random one where {joined(phrases)}."


def _promising(each: Slice, axis: Axis, gamma: float) -> str:
    """Where the ratio is above one, if that is one stretch and not all of the axis."""
    good = each.class_probability.mean >= gamma
    if not good.any() or good.all():
        return ""
    values = [value for value, is_good in zip(each.values, good, strict=True) if is_good]
    if axis.levels is not None:
        return f"{short(each.name)} is {joined([short(value) for value in values[:5]], 'or')}"
    if np.count_nonzero(np.diff(good.astype(int))) > 2 or (good[0] and good[-1]):
        return ""
    low, high = short(values[0], 3), short(values[-1], 3)
    stretch = f"below {high}" if good[0] else f"above {low}" if good[-1] else f"between {low} and {high}"
    return f"{short(each.name)} is {stretch if low != high else f'near {low}'}"


def _remaining(gathered: Gathered, learnt: Learnt) -> str:
    best = value_of(gathered.best_first[0])
    if not math.isfinite(best):
        return f"Nothing improves on an outcome of {short(best)}. If that is not meant, let such a trial fail instead."
    hoped = gain(gathered, learnt.next_model)
    if hoped is None:
        return ""
    amount = f"to improve the best outcome by {short(hoped, 2)}"
    share = relative_gain(gathered, learnt.next_model)
    if share is None:
        return f"One more trial is expected {amount}."
    amount += f", {percent(share)} of the spread between the better and the worse trials"
    if negligible(gathered, learnt.next_model):
        return f"Little is left to gain, if the model is right: one more trial is expected {amount}."
    verdict = "there is still much to gain" if share > MUCH else "a little is still to gain"
    return f"One more trial is expected {amount}: {verdict}, if the model is right."


def _next(learnt: Learnt) -> str:
    if learnt.next_params is None or learnt.next_model is None:
        return ""
    model, params = learnt.next_model, learnt.next_params
    names = by_importance(params, learnt)
    parts = [f"{short(name)} = {short(params[name], 3)}" for name in names[:MOST_NAMED]]
    where = ", ".join(parts) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    safe = "" if model.success is None else f", and one of {percent(model.success)} not to fail"
    chance = model.class_probability
    text = f"It would go to {where} next, and gives that point a chance of {percent(chance)} to be good{safe}."
    if chance is None or chance >= model.gamma:
        return text
    return (
        f"{text} That is less than the {percent(model.gamma)} of all trials so far that are good: it knows of nothing "
        "better nearby, and explores."
    )


def _trusted(told: Prequential) -> str:
    if len(told.predictions) < FEW:
        return ""
    loss = told.log_loss
    verdict = (
        "useful" if loss < 0.85 * COIN else "a little better than a coin" if loss < COIN else "no better than a coin"
    )
    return f"Its predictions so far were {verdict}: a log-loss of {loss:.2f}, where always saying one half has 0.69."


def joined(parts: Sequence[str], word: str = "and") -> str:
    """A list as one says it."""
    return " ".join([", ".join(parts[:-1]), word, parts[-1]]) if len(parts) > 1 else "".join(parts)
