"""What a trial's process says: values on the way, further metrics, and in the end the outcome, or why there is none."""

from __future__ import annotations

import json
import math
import re
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from boggn.product.plan import Plan
from boggn.product.process import Ended

MOST_STEPS = 10_000
"""Every value on the way is written to the storage: so many, and no more."""
MOST_BYTES = 1 << 24
_RETURNED = "returned"
_SHORT = 80
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class NoOutcomeError(ValueError):
    """Why a trial has no outcome."""


@final
@dataclass
class Listener:
    """Reads the lines as they are printed."""

    plan: Plan
    report: Callable[[int, float], None]
    metrics: dict[str, float] = field(default_factory=dict)
    matched: list[str] = field(default_factory=list)
    _steps: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        result = self.plan.file.result
        self._intermediate = _compiled(result.intermediate)
        self._metrics = {name: _compiled(pattern) for name, pattern in result.metrics.items()}
        self._pattern = None if result.pattern is None else _compiled(result.pattern)
        self._all = [self._intermediate, *self._metrics.values(), *([self._pattern] if self._pattern else [])]

    def __call__(self, text: str) -> None:
        """Some lines of the standard output."""
        if any(pattern.search(text) for pattern in self._all):  # nearly always there is nothing in many lines
            for line in text.splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        if self._pattern is not None and (found := list(self._pattern.finditer(line))):
            self.matched = list(found[-1].groups())
        for name, pattern in self._metrics.items():
            if (match := pattern.search(line)) and (number := _number(match.group(1))) is not None:
                self.metrics[name] = number
        if len(self._steps) < MOST_STEPS and (match := self._intermediate.search(line)):
            step, value = _number(match["step"]), _number(match["value"])
            if step is None or value is None or not step.is_integer() or step < 0 or step in self._steps:
                return
            self._steps.add(int(step))
            self.report(int(step), value)


def _compiled(pattern: str) -> re.Pattern[str]:
    """So that ^ and $ are the ends of a line, also where many lines are searched at once."""
    return re.compile(pattern, re.MULTILINE)


def outcome(plan: Plan, ended: Ended, listener: Listener, result: Path) -> list[float]:
    """The values of a trial whose process has ended by itself; or a `NoOutcomeError`."""
    if ended.status != 0:
        raise NoOutcomeError(_how_it_ended(ended))
    if plan.file.objective.function is not None:
        if not result.exists():
            raise NoOutcomeError("its process ended, with status 0, before the function returned")
        words = _look_up(_read_json(result), _RETURNED)
        words = words if isinstance(words, list) else [words]
        return _values(words, plan.directions, "the function returned")
    if plan.file.result.read == "json":
        keys = plan.file.result.key
        content = _read_json(result)
        words = [_look_up(content, key) for key in ([keys] if isinstance(keys, str) else keys)]
        return _values(words, plan.directions, f"{result.name} has")
    if plan.file.result.read == "regex":
        if not listener.matched:
            raise NoOutcomeError("no line it printed matches result.pattern")
        return _values(listener.matched, plan.directions, "result.pattern found")
    if not ended.last_line:
        raise NoOutcomeError("it printed nothing: the last line should be the value")
    return _values(re.split(r"[\s,;]+", ended.last_line.strip(" ,;")), plan.directions, "its last line has")


def _how_it_ended(ended: Ended) -> str:
    said = f": {_short(ended.error_tail)}" if ended.error_tail else ""
    if ended.status > 0:
        return f"exit status {ended.status}{said}"
    name = signal.Signals(-ended.status).name
    perhaps = ", perhaps for want of memory" if name == "SIGKILL" else ""
    return f"killed by {name}{perhaps}{said}"


def _values(words: list[Any], directions: list[str], whose: str) -> list[float]:
    count = len(directions)
    numbers = [_number(word) for word in words]
    for word, number in zip(words, numbers, strict=True):
        if number is None:
            raise NoOutcomeError(f"{whose} {_short(word)}, which is not a number")
    if len(words) != count:
        wanted = "one" if count == 1 else str(count)
        raise NoOutcomeError(
            f"{whose} {len(words)} numbers, but {wanted} is wanted: {_short(' '.join(map(str, words)))}"
        )
    values = [float(number) for number in numbers if number is not None]
    if complaint := not_an_outcome(values, directions):
        raise NoOutcomeError(f"{whose} {complaint}")
    return values


def not_an_outcome(values: Iterable[float], directions: Iterable[str]) -> str | None:
    """Why a trial with these values has failed. The worst that there is may be meant, the best that there is not."""
    for value, direction in zip(values, directions, strict=True):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value) and (value > 0) == (direction == "maximize"):
            return f"{value}, and nothing could be better"
    return None


def _number(word: Any) -> float | None:
    if isinstance(word, bool) or not isinstance(word, str | int | float):
        return None
    try:
        return float(_COLOURS.sub("", word) if isinstance(word, str) else word)
    except (ValueError, OverflowError):
        return None


def _read_json(path: Path) -> Any:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise NoOutcomeError(f"{path.name} is larger than {MOST_BYTES >> 20} MB")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NoOutcomeError(f"{path.name} was not written: {error.strerror}") from error
    except ValueError as error:
        if isinstance(error, NoOutcomeError):
            raise
        raise NoOutcomeError(f"{path.name} is not JSON: {error}") from error


def _look_up(content: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(content, dict) or part not in content:
            raise NoOutcomeError(f"the result has no {key!r}")
        content = content[part]
    return content


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return repr(text if len(text) <= _SHORT else f"{text[:_SHORT]}…")
