"""What a study holds, as plain values: trials with their times, outcomes, labels, and what their sampler recorded."""

from __future__ import annotations

import logging
import math
from collections import Counter
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, final

import optuna
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState

from boggn.belief import sampler_of
from boggn.errors import StudyError
from boggn.explain import Model, explain
from boggn.labels import threshold
from boggn.record import FAILURE, running_params, tried_again

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

NEGLIGIBLE = 0.01
"""A gain below this share of the spread of the outcomes is next to nothing."""

State = Literal["complete", "pruned", "failed", "running", "waiting"]
_STATES: dict[TrialState, State] = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "running",
    TrialState.WAITING: "waiting",
}


@final
@dataclass(frozen=True)
class Row:
    """One trial. Times are seconds since the first trial began; `threshold` and `good` are of the moment it began.

    `failure` says why a failed one has no outcome, as far as that was recorded, and `again` whether it was tried again.
    """

    number: int
    state: State
    value: float | None
    params: dict[str, Any]
    start: float | None
    end: float | None
    model: Model | None
    threshold: float | None
    good: bool | None
    failure: str | None
    again: bool


@final
@dataclass(frozen=True)
class Gathered:
    """A study at one moment. `sign` is 1 where outcomes are minimised and -1 where they are maximised."""

    name: str
    sign: float
    rows: tuple[Row, ...]
    space: dict[str, BaseDistribution]
    gamma: float
    now: float
    last: str | None

    @property
    def complete(self) -> list[Row]:
        """The trials with an outcome, in their order."""
        return [row for row in self.rows if row.value is not None]

    @property
    def best_first(self) -> list[Row]:
        """The trials with an outcome, the best first; of equals the earlier."""
        return sorted(self.complete, key=lambda row: (self.sign * value_of(row), row.number))

    def count(self, state: State) -> int:
        """How many trials are in a state."""
        return sum(row.state == state for row in self.rows)


def value_of(row: Row) -> float:
    """The outcome of a trial that has one."""
    return math.nan if row.value is None else row.value


@final
@dataclass(frozen=True)
class Reason:
    """Why trials failed: in words, as far as that was recorded; of how many; how many of these were tried again."""

    text: str | None
    count: int
    again: int


def reasons(gathered: Gathered) -> list[Reason]:
    """Why trials failed, the most frequent reason first."""
    failed = [row for row in gathered.rows if row.state == "failed"]
    again = Counter(row.failure for row in failed if row.again)
    counts = Counter(row.failure for row in failed)
    return [Reason(text, count, again[text]) for text, count in counts.most_common()]


def gain(gathered: Gathered, model: Model | None) -> float | None:
    """What the next trial is expected to improve the best outcome by; None where that cannot be improved on."""
    best = gathered.best_first[:1]
    return improvement(model) if best and math.isfinite(value_of(best[0])) else None


def relative_gain(gathered: Gathered, model: Model | None) -> float | None:
    """The same as a share of the spread between the better and the worse trials, where there is any."""
    hoped = gain(gathered, model)
    values = sorted(value_of(row) for row in gathered.complete if math.isfinite(value_of(row)))
    if hoped is None or not values:
        return None
    spread = values[(3 * len(values)) // 4] - values[len(values) // 4]
    return hoped / spread if 0.0 < spread < math.inf else None


def negligible(gathered: Gathered, model: Model | None) -> bool:
    """Whether the next trial is expected to gain next to nothing."""
    share = relative_gain(gathered, model)
    return share is not None and share < NEGLIGIBLE


def improvement(model: Model | None) -> float | None:
    """On the best, if a record tells of it; that of a classifier in the network's place is one on the threshold."""
    return None if model is None or model.log_evidence is None else model.expected_improvement


class Snapshot(NamedTuple):
    """A copy of a study in memory: a report of a study that is still running sees one moment of it.

    Enqueued trials are failed ones there, so that the copy can be asked for a suggestion of the sampler's own. What
    they are to try is beside it: a failure that tells of no point is evidence of nothing.
    """

    study: Study
    waiting: dict[int, dict[str, Any]]


def snapshot(study: Study) -> Snapshot:
    """The study as it is now."""
    if len(study.directions) > 1:
        raise StudyError(
            f"A report is of one objective, but this study has {len(study.directions)}. "
            "See its Pareto front with optuna.visualization.plot_pareto_front."
        )
    storage = InMemoryStorage()
    number = _created(storage, study)
    waiting = {}
    for trial in study.get_trials(deepcopy=False):
        if trial.state == TrialState.WAITING:
            waiting[trial.number] = trial.params
            trial = copy(trial)  # noqa: PLW2901  theirs must not change
            trial.state, trial.params, trial.distributions = TrialState.FAIL, {}, {}
        storage.create_new_trial(number, template_trial=trial)
    loaded = optuna.load_study(study_name=study.study_name, storage=storage, sampler=sampler_of(study))
    return Snapshot(loaded, waiting)


def _created(storage: InMemoryStorage, study: Study) -> int:
    """Make the copy without Optuna's word of a new study, which would mislead: nothing was made that anyone can see."""
    logger = logging.getLogger(InMemoryStorage.__module__)

    def silent(_: logging.LogRecord) -> bool:
        return False

    logger.addFilter(silent)
    try:
        return storage.create_new_study(study.directions, study.study_name)
    finally:
        logger.removeFilter(silent)


def gather(taken: Snapshot) -> Gathered:
    """Read a snapshot."""
    study = taken.study
    trials = study.get_trials(deepcopy=False)
    sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
    times = [time for trial in trials for time in (trial.datetime_start, trial.datetime_complete) if time]
    zero = min(times).timestamp() if times else 0.0
    config = sampler_of(study).config
    space = {name: d for trial in trials for name, d in trial.distributions.items()}
    again = tried_again(trials)
    rows: list[Row] = []
    seen: list[float] = []
    for trial in trials:
        row = _row(taken, trial, zero, space)
        bar = None
        if row.model is not None:
            bar = row.model.threshold
        elif seen:
            bar = sign * threshold([sign * value for value in seen], config.proportion(len(seen)))
        good = None if bar is None or row.value is None else sign * row.value <= sign * bar
        rows.append(replace(row, threshold=bar, good=good, again=row.number in again))
        if row.value is not None:
            seen.append(row.value)
    return Gathered(
        name=study.study_name,
        sign=sign,
        rows=tuple(rows),
        space=dict(sorted(space.items())),
        gamma=next((row.model.gamma for row in reversed(rows) if row.model), config.proportion(len(seen))),
        now=max(times).timestamp() - zero if times else 0.0,
        last=f"{max(times):%Y-%m-%d %H:%M}" if times else None,
    )


def _row(taken: Snapshot, trial: FrozenTrial, zero: float, space: dict[str, BaseDistribution]) -> Row:
    state: State = "waiting" if trial.number in taken.waiting else _STATES[trial.state]
    value = trial.value if state == "complete" else None
    params = running_params(trial, space) if state == "running" else trial.params
    failure = trial.user_attrs.get(FAILURE)
    return Row(
        number=trial.number,
        state=state,
        value=None if value is None or math.isnan(value) else value,
        params=taken.waiting.get(trial.number, params),
        start=None if trial.datetime_start is None else trial.datetime_start.timestamp() - zero,
        end=None if trial.datetime_complete is None else trial.datetime_complete.timestamp() - zero,
        model=explain(taken.study, trial.number).model,
        threshold=None,
        good=None,
        failure=None if failure is None else " ".join(str(failure).split()),
        again=False,
    )
