"""A search space as people write it, and as Optuna knows it: a distribution for each parameter's name.

| written | meaning |
|---|---|
| an Optuna distribution | itself |
| `(low, high)` | a range: of whole numbers if both are written as such, else of numbers |
| `(low, high, "log")` | a range on a logarithmic scale |
| `(low, high, step)` | a range in steps |
| `["a", "b"]` | a choice |
| `{"low": 0, "high": 1}` | a range, with `log`, `step` and `type` ("int" or "float") where wanted |
| `{"choices": ["a", "b"]}` | a choice |
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    check_distribution_compatibility,
    distribution_to_json,
    json_to_distribution,
)
from optuna.trial import Trial

from boggn.errors import ConfigurationError, StudyError

Space = dict[str, BaseDistribution]
FORMS = (
    "an Optuna distribution, (low, high), (low, high, 'log'), (low, high, step), a list of choices, "
    "{'low': …, 'high': …} or {'choices': …}"
)
_FIELDS = {"low", "high", "log", "step", "type"}


def parse_space(space: Any) -> Space:
    """The distributions of a space in any of the forms above."""
    if not isinstance(space, Mapping) or not space:
        allowed = "a dictionary from each parameter's name to its range or choices, with one parameter at least"
        raise ConfigurationError.invalid("space", space, allowed)
    for name in space:
        check_name(name)
    return {name: parse_parameter(name, written) for name, written in space.items()}


def check_name(name: object) -> None:
    """Refuse what nobody could read or write on a line."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise ConfigurationError.invalid("space", name, "a table whose keys are names: printable, and not empty")


def parse_parameter(name: str, written: Any) -> BaseDistribution:
    """The distribution of one parameter."""
    if isinstance(written, BaseDistribution):
        return written
    if isinstance(written, Mapping):
        return _from_table(name, written)
    if isinstance(written, tuple):
        return _from_tuple(name, written)
    if isinstance(written, Sequence) and not isinstance(written, str | bytes):
        return _choice(name, written)
    raise ConfigurationError.invalid(name, written, FORMS)


def suggest(trial: Trial, space: Mapping[str, BaseDistribution]) -> dict[str, Any]:
    """The value of every parameter in a trial."""
    values: dict[str, Any] = {}
    for name, distribution in space.items():
        if isinstance(distribution, FloatDistribution):
            low, high = distribution.low, distribution.high
            values[name] = trial.suggest_float(name, low, high, step=distribution.step, log=distribution.log)
        elif isinstance(distribution, IntDistribution):
            first, last = distribution.low, distribution.high
            values[name] = trial.suggest_int(name, first, last, step=distribution.step, log=distribution.log)
        elif isinstance(distribution, CategoricalDistribution):
            values[name] = trial.suggest_categorical(name, distribution.choices)
        else:
            raise ConfigurationError.invalid(name, distribution, "a float, int or categorical distribution of Optuna")
    return values


def to_json(space: Mapping[str, BaseDistribution]) -> str:
    """The space as text, as it is kept with the study."""
    return json.dumps({name: json.loads(distribution_to_json(each)) for name, each in space.items()})


def from_json(text: str) -> Space:
    """What `to_json` wrote."""
    return {name: json_to_distribution(json.dumps(each)) for name, each in json.loads(text).items()}


def check_same(known: Mapping[str, BaseDistribution], asked: Mapping[str, BaseDistribution], study: str) -> None:
    """Refuse to go on with a study in another space, except for other bounds of the same parameters."""
    for name in sorted(known.keys() ^ asked.keys()):
        change = "is new" if name in asked else "is gone"
        raise StudyError(
            f"Parameter {name!r} {change}, but study {study!r} has trials in the space as it was. "
            "Put it back, or give the new study another name."
        )
    for name, distribution in asked.items():
        try:
            check_distribution_compatibility(known[name], distribution)
        except ValueError as error:
            raise StudyError(
                f"Parameter {name!r} was {known[name]} in study {study!r} and is now {distribution}: its bounds may "
                "move, its kind, its choices and its scale may not. Put it back, or give the new study another name."
            ) from error


def _from_table(name: str, table: Mapping[str, Any]) -> BaseDistribution:
    if "choices" in table:
        if extra := sorted(table.keys() - {"choices"}):
            raise ConfigurationError(f"`{name}` has choices, so it cannot have `{extra[0]}`.")
        return _choice(name, table["choices"])
    if unknown := sorted(table.keys() - _FIELDS):
        allowed = ", ".join(sorted(_FIELDS | {"choices"}))
        raise ConfigurationError(f"`{name}` has no setting `{unknown[0]}`: it may have {allowed}.")
    for bound in ("low", "high"):
        if bound not in table:
            raise ConfigurationError(f"`{name}` needs `{bound}`, or else `choices`.")
    return _range(
        name, table["low"], table["high"], log=table.get("log", False), step=table.get("step"), kind=table.get("type")
    )


def _from_tuple(name: str, written: tuple[Any, ...]) -> BaseDistribution:
    if len(written) == 2:
        return _range(name, *written)
    if len(written) == 3 and written[2] == "log":
        return _range(name, *written[:2], log=True)
    if len(written) == 3 and _is_number(written[2]):
        return _range(name, *written[:2], step=written[2])
    raise ConfigurationError.invalid(
        name, written, "(low, high), (low, high, 'log') or (low, high, step) where it is a tuple; choices are a list"
    )


def _choice(name: str, choices: Any) -> CategoricalDistribution:
    if not isinstance(choices, Sequence) or isinstance(choices, str | bytes) or not choices:
        raise ConfigurationError.invalid(name, choices, "a list of choices with one at least")
    for choice in choices:
        if choice is not None and not isinstance(choice, str | bool | int | float):
            raise ConfigurationError.invalid(name, choice, "a list of texts, numbers, true, false or None")
    if len(set(map(repr, choices))) < len(choices):
        raise ConfigurationError.invalid(name, choices, "a list of choices without a repetition")
    return CategoricalDistribution(tuple(choices))


def _range(
    name: str, low: Any, high: Any, *, log: Any = False, step: Any = None, kind: Any = None
) -> FloatDistribution | IntDistribution:
    _check_range(name, low, high, log)
    if kind not in {None, "int", "float"}:
        raise ConfigurationError.invalid(f"{name}.type", kind, "'int' or 'float'")
    written = (low, high) if step is None else (low, high, step)
    whole = all(isinstance(number, Integral) for number in written)
    if kind == "int" and not whole:
        raise ConfigurationError(f"`{name}` is of type 'int', but {written!r} are not all whole numbers.")
    if step is not None and (not _is_number(step) or step <= 0):
        raise ConfigurationError.invalid(f"{name}.step", step, "a positive number")
    if step is not None and log:
        raise ConfigurationError(f"`{name}` cannot be on a logarithmic scale and in steps: leave one of them out.")
    if step is not None and step > high - low:
        raise ConfigurationError.invalid(f"{name}.step", step, f"at most high - low = {high - low!r}")
    if whole and kind != "float":
        last = int(high) - (int(high) - int(low)) % int(step or 1)  # Optuna would do so too, with a warning
        return IntDistribution(int(low), last, log=log, step=int(step or 1))
    if step is not None:
        count = math.floor((high - low) / step + 1e-9)
        high = high if math.isclose(low + count * step, high) else low + count * step
    return FloatDistribution(float(low), float(high), log=log, step=None if step is None else float(step))


def _check_range(name: str, low: Any, high: Any, log: Any) -> None:
    for bound, number in (("low", low), ("high", high)):
        if not _is_number(number):
            raise ConfigurationError.invalid(f"{name}.{bound}", number, "a finite number")
    if low > high:
        raise ConfigurationError(f"`{name}` is an empty range: low {low!r} is above high {high!r}. Swap them?")
    if not isinstance(log, bool):
        raise ConfigurationError.invalid(f"{name}.log", log, "true or false")
    if log and low <= 0:
        raise ConfigurationError(
            f"`{name}` is on a logarithmic scale, so its low must be above 0, but is {low!r}: "
            "take the smallest value of interest, or leave out log."
        )


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
