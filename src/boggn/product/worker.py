"""A worker: takes a trial, runs its process, tells how it ended, until there is nothing left to do.

    python -m boggn.product.worker FILE      with `Orders` as JSON on its standard input

SIGINT lets it finish its trial, SIGTERM makes it give up its trial; so does the death of the process that started it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, final

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial, TrialState

from boggn.errors import BoggnError
from boggn.product import ledger
from boggn.product.attempt import GIVEN_UP, PRUNED, Attempt
from boggn.product.outcome import NoOutcomeError, outcome
from boggn.product.owner import Owner
from boggn.product.plan import Plan
from boggn.product.space import suggest
from boggn.product.storage import locked, open_storage
from boggn.product.study import OURS, make_pruner, make_sampler, open_study, seed_of
from boggn.product.studyfile import resolve
from boggn.product.terminator import note_if_enough, was_enough
from boggn.record import FAILURE

if TYPE_CHECKING:
    from optuna.study import Study

_CACHE = "JAX_COMPILATION_CACHE_DIR"
IDLE_SECONDS = 0.2
KNOWN_FAILURE = 2
"""The exit status of a worker that has said in one line what is wrong: another one would say the same."""


@final
@dataclass(frozen=True)
class Orders:
    """What a worker is told: the study file, its own number, and when the run began (Unix time)."""

    path: str
    data: dict[str, Any]
    index: int
    began: float

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))


def study_of(plan: Plan) -> Study:
    """The study of a plan in its storage, not yet with its sampler."""
    return open_study(open_storage(plan.storage), plan.name, plan.directions, plan.space)


def prepare(study: Study, plan: Plan, index: int = 0) -> None:
    """Give a study the plan's sampler and pruner.

    Our workers share a seed, and differ by their trials' numbers. Samplers of Optuna with one seed would all draw the
    same, and once more after a restart.
    """
    seed, table = seed_of(study, plan.file.study.seed), plan.file.sampler
    if table.name != OURS:
        seed = (seed + 1_000_003 * index + 7919 * len(study.get_trials(deepcopy=False))) % 2**32
    study.sampler = make_sampler(table.name, table.model_extra or {}, plan.space, seed)
    study.pruner = make_pruner(plan.file.pruner.name, plan.file.pruner.model_extra or {})


def lock_of(plan: Plan) -> Path:
    """The file that is locked while trials are counted and claimed."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    return plan.folder / ".lock"


def is_done(study: Study, plan: Plan, began: float) -> str | None:
    """Why no trial is to begin any more, or None."""
    budget = plan.file.budget
    if budget.trials is not None and ledger.counted(study.get_trials(deepcopy=False)) >= budget.trials:
        return f"{budget.trials} trials have finished"
    if budget.time is not None and time.time() - began > budget.time:
        return f"{budget.time:g} seconds are over"
    return is_hopeless(study, plan, began) or was_enough(study, budget.regret)


def is_hopeless(study: Study, plan: Plan, began: float) -> str | None:
    """What failed, if too many trials of this run have failed in a row."""
    row, limit = ledger.failures_in_a_row(study.get_trials(deepcopy=False)), plan.file.budget.failures
    latest = row[-1].datetime_complete if row else None
    if limit is None or len(row) < limit or latest is None or latest.timestamp() < began:
        return None
    reason = row[-1].user_attrs.get(FAILURE, "for an unknown reason")
    return f"the last {len(row)} trials all failed (budget.failures); trial {row[-1].number}: {reason}"


@final
class Worker:
    """One process's work on a study. `environ` is what the trials' processes inherit."""

    def __init__(self, plan: Plan, index: int, began: float, environ: dict[str, str]) -> None:
        self._plan, self._began, self._environ = plan, began, environ
        self._study, self._owner = study_of(plan), Owner.current()
        prepare(self._study, plan, index)
        self._parent = os.getppid()
        self._finish = self._give_up = False

    def work(self) -> None:
        """Trial after trial."""
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        while not self._stopping():
            claimed = self._next()
            if claimed is not None:
                self._do(claimed)
            elif is_done(self._study, self._plan, self._began) is not None:
                return
            else:
                time.sleep(IDLE_SECONDS)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._finish = True
        self._give_up = self._give_up or number == signal.SIGTERM

    def _stopping(self) -> bool:
        if os.getppid() != self._parent:  # nobody watches any more
            self._finish = self._give_up = True
        return self._finish

    def _next(self) -> Attempt | None:
        """A trial with its parameters, if the budget has room for one. One worker at a time, so that each sees all."""
        with locked(lock_of(self._plan)):
            ledger.recover(self._study)
            if is_done(self._study, self._plan, self._began) is not None:
                return None
            trials, most = self._study.get_trials(deepcopy=False), self._plan.file.budget.trials
            if most is not None and ledger.counted(trials) + ledger.owned(trials) >= most:
                return None
            trial = ledger.claim(self._study, self._owner)
            try:
                parameters = suggest(trial, self._plan.space)
            except Exception as error:
                ledger.take_back(self._study, trial, error)
                raise
        return Attempt(self._plan, self._study, trial, parameters, self._environ)

    def _do(self, attempt: Attempt) -> None:
        study, trial = self._study, attempt.trial
        try:
            ended, listener = attempt.run(lambda: self._stopping() and self._give_up)
            if ended.stopped == GIVEN_UP:
                ledger.queue_anew(study, ledger.frozen(study, trial), "interrupted")
            elif ended.stopped == PRUNED:
                study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
            elif ended.stopped is not None:
                self._failed(trial, ended.stopped)
            else:
                values = outcome(self._plan, ended, listener, attempt.result)
                study.tell(trial, values, skip_if_finished=True)
                note_if_enough(study, self._plan.file.budget.regret)
        except (NoOutcomeError, OSError) as error:
            self._failed(trial, str(error))
        except UpdateFinishedTrialError:
            pass  # another machine had not heard of this one for long, and gave its trial up

    def _failed(self, trial: Trial, reason: str) -> None:
        frozen = ledger.frozen(self._study, trial)
        again = len(ledger.attempts(frozen)) < self._plan.file.objective.retries
        (ledger.queue_anew if again else ledger.give_up)(self._study, frozen, reason)


def keep_compiled() -> None:
    """Have JAX, which is not yet imported, keep what it compiles for the next process, unless the user decides."""
    if _CACHE not in os.environ:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        os.environ[_CACHE] = str(home / "boggn" / "jax")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def main() -> None:
    """Work as told on the standard input."""
    environ = dict(os.environ)
    keep_compiled()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    orders = Orders(**json.loads(sys.stdin.read()))
    try:
        plan = resolve(Path(orders.path), orders.data)
        Worker(plan, orders.index, orders.began, environ).work()
    except BoggnError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(KNOWN_FAILURE)


if __name__ == "__main__":
    main()
