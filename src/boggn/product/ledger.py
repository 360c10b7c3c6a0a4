"""The books of a study: which process holds which trial, which trials count, and what becomes of those left behind.

A process claims a trial before it works on it. If the process dies, the next one that looks gives up its trial and
queues the same parameters anew, so that a study loses at most the work in progress. A trial that was queued anew is
not counted: its successor is.
"""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from boggn.product.owner import Owner
from boggn.product.process import kill_strays
from boggn.record import FAILURE, KEY, RETRY_HISTORY

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study

OWNER = "boggn:owner"
BEAT = "boggn:beat"
MARK = "boggn:mark"
"""What the processes of a trial carry in their environment, so that they are found when their worker has died."""
ASKED = "boggn:asked"
SUPERSEDED = "boggn:superseded"

BEAT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
"""A trial of another machine is given up when it has not been heard of for so long."""

INTERRUPTIONS = 5
"""A trial that was interrupted so often may be what kills its workers: it is then a failure."""

FAILED_TRIAL = "failed_trial"
"""Where Optuna keeps the first trial of a retry: `RetryHeartbeatStaleTrialCallback` reads it."""

WAITING, RUNNING, FAILED = (TrialState.WAITING,), (TrialState.RUNNING,), (TrialState.FAIL,)


def storage_of(study: Study) -> BaseStorage:
    """Optuna offers no public way to a study's storage, nor to a trial's system attributes."""
    return study._storage  # noqa: SLF001


def frozen(study: Study, trial: Trial) -> FrozenTrial:
    """What the storage holds of a trial."""
    return storage_of(study).get_trial(id_of(trial))


def id_of(trial: FrozenTrial | Trial) -> int:
    """What a storage calls a trial."""
    return trial._trial_id  # noqa: SLF001


def claim(study: Study, owner: Owner | None) -> Trial:
    """A trial of this owner's: the first in the queue, or a new one. It is never seen running without its owner.

    No owner means that somebody has asked for the trial and will tell its outcome, whenever that may be.
    """
    storage = storage_of(study)
    whose = None if owner is None else asdict(owner)
    marks: dict[str, Any] = {OWNER: whose, ASKED: owner is None, BEAT: time.time(), MARK: uuid.uuid4().hex}
    for waiting in study.get_trials(deepcopy=False, states=WAITING):
        try:
            for key, value in marks.items():
                storage.set_trial_system_attr(id_of(waiting), key, value)
            taken = storage.set_trial_state_values(id_of(waiting), state=TrialState.RUNNING)
        except UpdateFinishedTrialError:
            continue
        if taken:
            return Trial(study, id_of(waiting))
    template = create_trial(state=TrialState.RUNNING, system_attrs=marks)
    return Trial(study, storage.create_new_trial(study._study_id, template_trial=template))  # noqa: SLF001


def sign(study: Study, trial: Trial, owner: Owner) -> None:
    """Write the owner on a trial that was not claimed. It has no beat, so that its silence says nothing."""
    storage_of(study).set_trial_system_attr(id_of(trial), OWNER, asdict(owner))


def beat(study: Study, trial: Trial) -> None:
    """Say that the trial is still worked on."""
    storage_of(study).set_trial_system_attr(id_of(trial), BEAT, time.time())


def give_up(study: Study, trial: FrozenTrial, reason: str) -> bool:
    """End a running trial as failed; whether it was still there to end."""
    storage = storage_of(study)
    try:
        storage.set_trial_user_attr(id_of(trial), FAILURE, reason)
        return storage.set_trial_state_values(id_of(trial), state=TrialState.FAIL)
    except UpdateFinishedTrialError:
        return False


def queue_anew(study: Study, trial: FrozenTrial, reason: str) -> bool:
    """End a running trial that is not to count, and queue its parameters for another try; whether it was still there.

    The mark comes before the end, after which a trial takes none. Whoever dies between the end and the queueing loses
    the parameters, not the count.
    """
    try:
        supersede(study, trial)
    except UpdateFinishedTrialError:
        return False
    ended = give_up(study, trial, reason)
    if ended:
        add_successor(study, trial)
    return ended


def take_back(study: Study, trial: Trial, error: Exception) -> None:
    """End a trial for which there is no suggestion, as if it had not been."""
    claimed = frozen(study, trial)
    supersede(study, claimed)
    give_up(study, claimed, f"no suggestion: {error}")


def supersede(study: Study, trial: FrozenTrial) -> None:
    """Mark a running trial as one that is not to count."""
    storage_of(study).set_trial_system_attr(id_of(trial), SUPERSEDED, value=True)


def add_successor(study: Study, trial: FrozenTrial) -> None:
    """Queue the parameters of a trial for another try."""
    if trial.params:
        study.add_trial(_successor(trial))


def recover(study: Study) -> list[FrozenTrial]:
    """Give up the running trials whose process has died, queue them anew, and return them."""
    lost = []
    for trial in study.get_trials(deepcopy=False, states=RUNNING):
        if (reason := _abandoned(trial)) is not None:
            kill_strays(trial.system_attrs.get(MARK, ""))
            end = queue_anew if len(attempts(trial)) + 1 < INTERRUPTIONS else give_up
            if end(study, trial, reason):
                lost.append(trial)
    return lost


def attempts(trial: FrozenTrial) -> list[int]:
    """The numbers of the trials before this one with the same parameters, of which it is the retry."""
    history: list[int] = trial.system_attrs.get(RETRY_HISTORY, [])
    return history


def counts(trial: FrozenTrial) -> bool:
    """Whether a trial uses up budget: it has ended and was not queued anew."""
    return trial.state.is_finished() and not trial.system_attrs.get(SUPERSEDED, False)


def counted(trials: Iterable[FrozenTrial]) -> int:
    """The number of trials that use up budget."""
    return sum(map(counts, trials))


def owned(trials: Iterable[FrozenTrial]) -> int:
    """The number of trials that some process works on."""
    return sum(trial.state == TrialState.RUNNING and bool(trial.system_attrs.get(OWNER)) for trial in trials)


def failures_in_a_row(trials: Iterable[FrozenTrial]) -> list[FrozenTrial]:
    """The latest trials, by the time of their end, if all of them failed on their own account."""
    ended = [trial for trial in trials if counts(trial) and trial.datetime_complete is not None]
    ended.sort(key=lambda trial: (trial.datetime_complete, trial.number))
    row: list[FrozenTrial] = []
    while ended and ended[-1].state == TrialState.FAIL:
        row.insert(0, ended.pop())
    return row


def _successor(trial: FrozenTrial) -> FrozenTrial:
    kept: dict[str, Any] = {
        key: value for key, value in trial.system_attrs.items() if key.rpartition(":")[0] == KEY and key[-1].isdigit()
    }
    history = [*attempts(trial), trial.number]
    return create_trial(
        state=TrialState.WAITING,
        params=trial.params,
        distributions=trial.distributions,
        system_attrs=kept | {FAILED_TRIAL: history[0], RETRY_HISTORY: history},
    )


def _abandoned(trial: FrozenTrial) -> str | None:
    owner = Owner.read(trial.system_attrs.get(OWNER))
    if owner is None:
        return None
    dead = owner.is_dead()
    if dead:
        return f"interrupted: process {owner.pid} on {owner.host} has died"
    silence = time.time() - float(trial.system_attrs.get(BEAT, math.inf))
    if dead is None and silence > SILENCE_SECONDS:
        return f"interrupted: nothing was heard from {owner.host} for {silence:.0f} seconds"
    return None
