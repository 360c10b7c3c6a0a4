"""What a suggestion leaves on its trial: its parameters, for others to see while it runs, and how it was found."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from optuna.distributions import BaseDistribution

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

KEY = "boggn"
RETRY_HISTORY = "retry_history"
"""Where Optuna keeps, on a trial that repeats others, their numbers."""
FAILURE = "failure"
"""A user attribute: why a trial has no value, for people and dashboards to see."""
_CHUNK = 2045
"""Some relational storages hold no longer text in one attribute; Optuna's own samplers keep to this length too."""


def write(
    study: Study,
    trial: FrozenTrial,
    params: Mapping[str, Any],
    space: Mapping[str, BaseDistribution],
    record: Mapping[str, Any],
) -> None:
    """Store the record on the trial, in as many attributes as its length needs."""
    internal = {name: space[name].to_internal_repr(value) for name, value in params.items()}
    text = json.dumps({"params": internal, "record": record}, separators=(",", ":"))
    for part, begin in enumerate(range(0, len(text), _CHUNK)):
        # Optuna offers samplers no public way to write a system attribute; its own use this one.
        study._storage.set_trial_system_attr(trial._trial_id, f"{KEY}:{part}", text[begin : begin + _CHUNK])  # noqa: SLF001


def read(trial: FrozenTrial) -> dict[str, Any] | None:
    """What `write` stored, or None if this package did not suggest the trial."""
    parts: list[str] = []
    while (part := trial.system_attrs.get(f"{KEY}:{len(parts)}")) is not None:
        parts.append(part)
    if not parts:
        return None
    try:
        stored: dict[str, Any] = json.loads("".join(parts))
    except json.JSONDecodeError:
        return None  # a reader came between the parts of a long record; the next one sees it whole
    return stored


def running_params(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """The parameters of a running trial, including those suggested but not yet asked for."""
    stored = read(trial)
    if stored is None:
        return trial.params
    suggested = {}
    for name, value in stored["params"].items():
        distribution = space.get(name)
        if distribution is not None and distribution._contains(value):  # noqa: SLF001  as above
            suggested[name] = distribution.to_external_repr(value)
    fixed: dict[str, Any] = trial.system_attrs.get("fixed_params", {})
    return suggested | fixed | trial.params


def tried_again(trials: Iterable[FrozenTrial]) -> set[int]:
    """The numbers of the trials that later ones repeat, perhaps after a power cut."""
    return {number for trial in trials for number in trial.system_attrs.get(RETRY_HISTORY, ())}
