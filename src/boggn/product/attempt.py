"""One trial's process: its words, its environment, its folder, and what ends it early."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from optuna.trial import Trial

from boggn.product import ledger
from boggn.product.outcome import Listener
from boggn.product.placeholders import as_text, fill, quoted
from boggn.product.plan import Plan
from boggn.product.process import MARK, Ended, run

if TYPE_CHECKING:
    from optuna.study import Study

FOLDER = "folder"
"""A user attribute: where the trial's logs are."""
PRUNED, GIVEN_UP = "pruned", "given up"


@final
@dataclass(frozen=True)
class Attempt:
    """A trial and what is to be run for it. `environ` is what the process inherits."""

    plan: Plan
    study: Study
    trial: Trial
    parameters: dict[str, Any]
    environ: Mapping[str, str]

    @property
    def folder(self) -> Path:
        """Of this trial."""
        return self.plan.folder / f"{self.trial.number:04d}"

    @property
    def result(self) -> Path:
        """Where the process may leave its result."""
        return self.folder / self.plan.file.result.file

    def run(self, given_up: Callable[[], bool]) -> tuple[Ended, Listener]:
        """Run it to its end; `given_up` is asked often."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.trial.set_user_attr(FOLDER, str(self.folder))
        self.result.unlink(missing_ok=True)  # of an earlier study in the same place
        given = self.folder / "parameters.json"
        given.write_text(json.dumps(self.parameters), encoding="utf-8")
        values = self._values(given)
        objective = self.plan.file.objective
        words = [fill(word, values, quoted if objective.shell else str) for word in self.plan.words]
        watch = _Watch(self, given_up)
        listener = Listener(self.plan, watch.report)
        cwd = self.folder if objective.cwd == "trial" else self.plan.base
        env = self._environment(values)
        ended = run(words, cwd=cwd, env=env, logs=self.folder, on_lines=listener, should_stop=watch.should_stop)
        for name, value in listener.metrics.items():
            self.trial.set_user_attr(name, value)
        return ended, listener

    def _values(self, given: Path) -> dict[str, Any]:
        paths = {"folder": self.folder, "result": self.result, "parameters": given, "python": self.plan.python}
        return {**self.parameters, "trial": self.trial.number, **paths}

    def _environment(self, values: Mapping[str, Any]) -> dict[str, str]:
        told = {f"BOGGN_{name.upper()}": str(values[name]) for name in ("trial", "folder", "result", "parameters")}
        each = {f"BOGGN_PARAM_{name}": as_text(value) for name, value in self.parameters.items()}
        asked = {name: fill(text, values) for name, text in self.plan.file.objective.env.items()}
        mark = str(ledger.frozen(self.study, self.trial).system_attrs.get(ledger.MARK, ""))
        return {**self.environ, "PYTHONUNBUFFERED": "1", **told, **each, **asked, MARK: mark}


@final
class _Watch:
    """What ends a process early: its time, its pruner, or whoever asks for it."""

    def __init__(self, attempt: Attempt, given_up: Callable[[], bool]) -> None:
        self._attempt, self._given_up = attempt, given_up
        self._timeout = attempt.plan.file.objective.timeout
        self._prunes = attempt.plan.file.pruner.name != "none"
        self._pruned = False
        self._beat = time.monotonic()

    def report(self, step: int, value: float) -> None:
        """A value on the way."""
        self._attempt.trial.report(value, step)
        self._pruned = self._pruned or (self._prunes and self._attempt.trial.should_prune())

    def should_stop(self, seconds: float) -> str | None:
        """Why to end it now."""
        if self._given_up():
            return GIVEN_UP
        if self._pruned:
            return PRUNED
        if time.monotonic() - self._beat > ledger.BEAT_SECONDS:
            self._beat = time.monotonic()
            ledger.beat(self._attempt.study, self._attempt.trial)
        if self._timeout is not None and seconds > self._timeout:
            return f"not finished after {self._timeout:g} seconds (objective.timeout)"
        return None
