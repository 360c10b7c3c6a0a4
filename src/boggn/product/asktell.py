"""Ask for parameters and tell outcomes, as JSON: for experiments that are run by other programs, or by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from optuna.trial import FrozenTrial, TrialState

from boggn.errors import StudyError
from boggn.product import ledger
from boggn.product.outcome import not_an_outcome
from boggn.product.source import Source
from boggn.product.space import suggest
from boggn.product.study import directions_of

if TYPE_CHECKING:
    from optuna.study import Study

_FIELDS = {"trial", "value", "values", "failed", "metrics"}
_FORMS = '{"trial": 3, "value": 0.25}, {"trial": 3, "values": [1, 2]} or {"trial": 3, "failed": "why"}'


def ask(source: Source, count: int) -> list[dict[str, Any]]:
    """So many trials; each knows of those before it, so that they are spread out."""
    with source.alone():
        return [_told(ledger.claim(source.study, None), source) for _ in range(count)]


def asked(source: Source) -> list[dict[str, Any]]:
    """The trials that were asked for and have not been told."""
    running = source.study.get_trials(deepcopy=False, states=ledger.RUNNING)
    return [
        {"trial": trial.number, "parameters": trial.params}
        for trial in running
        if trial.system_attrs.get(ledger.ASKED, False)
    ]


def tell(source: Source, told: Any) -> list[dict[str, Any]]:
    """Tell one outcome or a list of them: all of them, or none where one is wrong. What was told before is no error."""
    study = source.study
    items = told if isinstance(told, list) else [told]
    trials = study.get_trials(deepcopy=False)
    checked = [(item, _checked(item, trials, study)) for item in items]
    for item, values in checked:
        _tell(study, trials[item["trial"]], item, values)
    after = study.get_trials(deepcopy=False)
    return [
        {
            "trial": item["trial"],
            "state": after[item["trial"]].state.name.lower(),
            "new": not trials[item["trial"]].state.is_finished(),
        }
        for item, _ in checked
    ]


def parse(text: str) -> Any:
    """JSON as it was typed or piped."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise StudyError(f"This is not JSON: {error}. Tell {_FORMS}, or a list of them.") from error


def _told(trial: Any, source: Source) -> dict[str, Any]:
    try:
        return {"trial": trial.number, "parameters": suggest(trial, source.space)}
    except Exception as error:
        ledger.take_back(source.study, trial, error)
        raise


def _checked(item: Any, trials: list[FrozenTrial], study: Study) -> list[float] | None:
    """The values of one outcome, None if it failed."""
    if not isinstance(item, dict) or "trial" not in item:
        raise StudyError(f"An outcome is {_FORMS}, but got {item!r}.")
    if unknown := sorted(item.keys() - _FIELDS):
        raise StudyError(f"An outcome has no {unknown[0]!r}: it may have {', '.join(sorted(_FIELDS))}.")
    number = item["trial"]
    if type(number) is not int or not 0 <= number < len(trials):
        there = f"0 to {len(trials) - 1}" if trials else "none yet: ask first"
        raise StudyError(f"There is no trial {number!r}: the study has {there}.")
    if len({"value", "values", "failed"} & item.keys()) != 1:
        raise StudyError(f"Trial {number} needs either a value, values or failed: {_FORMS}.")
    values = None if "failed" in item else _numbers(item, directions_of(study))
    _check_metrics(item)
    _check_state(trials[number], values)
    return values


def _numbers(item: dict[str, Any], directions: list[str]) -> list[float]:
    count = len(directions)
    values = item["values"] if "values" in item else [item["value"]]
    if not isinstance(values, list) or len(values) != count:
        raise StudyError(f"Trial {item['trial']} needs {count} value(s), one per objective, but got {values!r}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise StudyError(f"Trial {item['trial']} has the value {value!r}, which is not a number: has it failed?")
    numbers = [float(value) for value in values]
    if complaint := not_an_outcome(numbers, directions):
        raise StudyError(f"Trial {item['trial']} has the value {complaint}: has it failed?")
    return numbers


def _check_metrics(item: dict[str, Any]) -> None:
    metrics = item.get("metrics", {})
    if not isinstance(metrics, dict):
        raise StudyError(f"The metrics of trial {item['trial']} must be a table of names and values, not {metrics!r}.")


def _check_state(trial: FrozenTrial, values: list[float] | None) -> None:
    if trial.state.is_finished():
        known = trial.values if trial.state == TrialState.COMPLETE else None
        if known != values:
            said = "failed" if known is None else f"was told {known}"
            raise StudyError(f"Trial {trial.number} {said} before; an outcome is not changed afterwards.")
    elif trial.state == TrialState.WAITING:
        raise StudyError(f"Trial {trial.number} is in the queue and nobody has asked for it yet.")
    elif owner := trial.system_attrs.get(ledger.OWNER):
        raise StudyError(
            f"Trial {trial.number} belongs to process {owner['pid']} on {owner['host']}, which will tell it."
        )


def _tell(study: Study, trial: FrozenTrial, item: dict[str, Any], values: list[float] | None) -> None:
    if trial.state.is_finished():
        return
    for name, value in item.get("metrics", {}).items():
        ledger.storage_of(study).set_trial_user_attr(ledger.id_of(trial), name, value)
    if values is None:
        ledger.give_up(study, trial, str(item["failed"]))
    else:
        study.tell(trial.number, values)
