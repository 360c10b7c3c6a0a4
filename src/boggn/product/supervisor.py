"""A run of a study file: starts its workers, replaces those that die, stops them when asked, tells how it goes."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, final

from boggn.errors import StudyError
from boggn.product import ledger
from boggn.product.plan import Plan
from boggn.product.progress import Show, Standing, showing
from boggn.product.storage import locked
from boggn.product.study import standing
from boggn.product.worker import KNOWN_FAILURE, Orders, is_done, is_hopeless, lock_of, study_of

if TYPE_CHECKING:
    from optuna.study import Study

LOOK_SECONDS = 0.25
LAST_SECONDS = 10.0
"""So long a worker may take to give up its trial."""
DEATHS = 20
"""So many workers may die without a trial finished in between."""


class WorkerError(StudyError):
    r"""The workers of a study do not live."""


@final
@dataclass(frozen=True)
class Run:
    """How a run ended: why, whether the user stopped it, and whether its trials fail: too many in a row, or all."""

    study: Study
    end: Standing
    reason: str
    interrupted: bool
    failing: bool


def run(plan: Plan, progress: bool | None) -> Run:
    """Bring a study to its end, or to where it is stopped."""
    study = study_of(plan)
    with locked(lock_of(plan)):
        ledger.recover(study)
    team = _Team(plan, study)
    with showing(progress, standing(study, plan.file.budget.trials)) as show, _signals(team):
        try:
            if is_done(study, plan, team.began) is None:
                team.work(show)
        finally:
            team.disband()
        end = standing(study, plan.file.budget.trials)
        show(end)
    reason = is_done(study, plan, team.began) or "it was stopped"
    failing = is_hopeless(study, plan, team.began) is not None or 0 < end.done == end.failed
    return Run(study, end, reason, team.asked_to_stop > 0, failing)


@final
class _Team:
    """The workers."""

    def __init__(self, plan: Plan, study: Study) -> None:
        self._plan, self._study = plan, study
        self.began = time.time()
        self.asked_to_stop = 0
        self._asked: signal.Signals | None = None
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._deaths = 0
        self._done = 0

    def work(self, show: Show) -> None:
        """Keep the workers at work until all have gone home."""
        for index in range(self._plan.file.study.workers):
            self._start(index)
        while self._workers:
            time.sleep(LOOK_SECONDS)
            for index, worker in list(self._workers.items()):
                if worker.poll() is not None:
                    self._replace(index, worker.returncode)
            self._ask_to_stop()
            show(standing(self._study, self._plan.file.budget.trials))

    def stop(self, number: signal.Signals) -> None:
        """Ask the workers to finish (SIGINT) or to give up (SIGTERM)."""
        self._asked = number
        self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        """Again at every look: a worker that was still starting did not hear it."""
        if self._asked is None:
            return
        for worker in self._workers.values():
            with suppress(ProcessLookupError):
                worker.send_signal(self._asked)

    def disband(self) -> None:
        """See that no worker is left, and give up what they had."""
        self.stop(signal.SIGTERM)
        deadline = time.monotonic() + LAST_SECONDS
        for worker in self._workers.values():
            try:
                worker.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()
        self._workers.clear()
        self._recover()

    def _start(self, index: int) -> None:
        orders = Orders(str(self._plan.path), self._plan.data, index, self.began)
        with self._log(index).open("ab") as log:
            worker = subprocess.Popen(  # noqa: S603 - our own module; the path is there for who reads `ps`
                [sys.executable, "-m", "boggn.product.worker", str(self._plan.path)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a key pressed on the terminal is for us to pass on
            )
        self._workers[index] = worker
        if worker.stdin is not None:
            with suppress(BrokenPipeError):  # it has died already, and is found so
                worker.stdin.write(orders.to_json().encode())
                worker.stdin.close()

    def _replace(self, index: int, status: int) -> None:
        del self._workers[index]
        if status == 0:
            return
        if status == KNOWN_FAILURE:
            raise WorkerError(self._last_words(index))
        self._recover()
        done = ledger.counted(self._study.get_trials(deepcopy=False))
        self._deaths = 1 if done > self._done else self._deaths + 1
        self._done = done
        if status > 0 or self._deaths > DEATHS:
            how = f"ended with status {status}" if status > 0 else f"was killed, as {DEATHS} before it"
            raise WorkerError(f"A worker {how}: {self._last_words(index)} (all of it is in {self._log(index)})")
        if not self.asked_to_stop and is_done(self._study, self._plan, self.began) is None:
            self._start(index)

    def _recover(self) -> None:
        with locked(lock_of(self._plan)):
            ledger.recover(self._study)

    def _log(self, index: int) -> Path:
        self._plan.folder.mkdir(parents=True, exist_ok=True)
        return self._plan.folder / f"worker-{index}.log"

    def _last_words(self, index: int) -> str:
        with suppress(OSError):
            lines = self._log(index).read_text(encoding="utf-8", errors="replace").strip().splitlines()
            if lines:
                return lines[-1]
        return "it said nothing"


@contextmanager
def _signals(team: _Team) -> Iterator[None]:
    """The first Ctrl-C lets running trials finish, the second one and SIGTERM do not."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        del frame
        team.asked_to_stop += 1
        gentle = number == signal.SIGINT and team.asked_to_stop == 1
        if gentle:
            sys.stderr.write("\nStopping when the running trials have finished. Ctrl-C again gives them up for now.\n")
        team.stop(signal.SIGINT if gentle else signal.SIGTERM)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
