"""One call from a function and a space to a study."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import optuna
from optuna.trial import FrozenTrial, Trial

from boggn.errors import ConfigurationError, StudyError
from boggn.product import ledger
from boggn.product.outcome import not_an_outcome
from boggn.product.owner import Owner
from boggn.product.progress import showing
from boggn.product.space import Space, parse_space, suggest
from boggn.product.storage import open_storage
from boggn.product.study import directions_of, open_study, parse_directions, sampler_for, standing
from boggn.record import FAILURE

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.study import Study

Objective = Callable[[dict[str, Any]], float | Sequence[float]]
Callback = Callable[["Study", FrozenTrial], None]

FAILURE_LIMIT = 20
STUDY_NAME = "boggn"


def minimize(
    objective: Objective,
    space: Mapping[str, Any],
    n_trials: int = 100,
    *,
    seed: int | None = None,
    storage: str | BaseStorage | None = None,
    study_name: str | None = None,
    direction: str | None = None,
    directions: Sequence[str] | None = None,
    timeout: float | None = None,
    n_jobs: int = 1,
    callbacks: Iterable[Callback] = (),
    progress: bool | None = None,
    failure_limit: int | None = FAILURE_LIMIT,
    sampler: BaseSampler | None = None,
    **options: Any,
) -> Study:
    """Find the parameters at which an objective is smallest; or largest, with `direction="maximize"`.

    The objective receives its parameters as one dictionary and returns a number, or several if there are `directions`.
    Several objectives need a `sampler` that is made for them, such as `optuna.samplers.NSGAIISampler()`.
    The space gives each parameter's name its range or choices: `(0.0, 1.0)`, `(1, 8)` for whole numbers,
    `(1e-5, 1e-1, "log")`, `(32, 256, 32)` in steps, `["adam", "sgd"]`, or any Optuna distribution.

    The study of that name in the storage is continued: `n_trials` is the number of finished trials it shall have in
    all, those of earlier calls and those that failed included. A second call therefore adds nothing, and one that was
    interrupted goes on; a trial whose process had died is tried again and counted once. The storage is a file that
    ends in .db or .journal, any address of Optuna's, or a storage; None keeps the study in memory.

    An exception, or a value that is no number or infinitely good, fails its trial and not the study: the reason is the
    trial's user attribute "failure". After `failure_limit` failures in a row the study stops with an error (None:
    never). `timeout` ends the call after so many seconds, `n_jobs` is the number of threads, and `callbacks` are
    Optuna's. `progress` shows a bar on a terminal; True, plain lines elsewhere too. Every other option is one of
    `BOGGNSampler`, unless a `sampler` is given.
    """
    if not callable(objective):
        raise ConfigurationError.invalid("objective", objective, "a function of a dictionary of parameters")
    _whole("n_trials", n_trials)
    if failure_limit is not None:
        _whole("failure_limit", failure_limit)
    if timeout is not None and (type(timeout) not in {int, float} or not timeout > 0):
        raise ConfigurationError.invalid("timeout", timeout, "a number of seconds above 0, or None")
    if type(n_jobs) is not int or (n_jobs < 1 and n_jobs != -1):
        raise ConfigurationError.invalid("n_jobs", n_jobs, "a whole number of threads, or -1 for one per processor")
    parsed = parse_space(space)
    opened = open_storage(storage) if isinstance(storage, str) else storage
    name = STUDY_NAME if study_name is None and storage is not None else study_name
    study = open_study(opened, name, parse_directions(direction, directions), parsed)
    study.sampler = sampler_for(study, parsed, seed, options, sampler)
    run = _Run(study, objective, parsed, n_trials, failure_limit)
    ledger.recover(study)
    missing = n_trials - ledger.counted(study.get_trials(deepcopy=False))
    if missing > 0:
        with (
            showing(progress, standing(study, n_trials)) as show,
            _quiet_if(progress or (progress is None and sys.stderr.isatty())),
        ):
            told = [*callbacks, lambda *_: show(standing(study, n_trials)), run.stop_if_hopeless]
            study.optimize(run, missing, timeout, n_jobs, catch=(Exception,), callbacks=told)
    run.complain_if_hopeless()
    return study


@final
@dataclass(frozen=True)
class _Run:
    """An objective of Optuna's around the user's: it says whose the trial is, and why it failed."""

    study: Study
    objective: Objective
    space: Space
    n_trials: int
    failure_limit: int | None

    def __call__(self, trial: Trial) -> float | Sequence[float]:
        ledger.sign(self.study, trial, Owner.current())
        try:
            value = self.objective(suggest(trial, self.space))
            return _checked(value, directions_of(self.study))
        except optuna.TrialPruned:
            raise
        except SystemExit as error:  # of a script's main, perhaps: it ends its trial, not the study
            trial.set_user_attr(FAILURE, f"SystemExit: {error}")
            raise RuntimeError(f"the objective left with {error!r}") from error
        except Exception as error:
            trial.set_user_attr(FAILURE, f"{type(error).__name__}: {error}")
            raise
        except BaseException:  # a key was pressed: Optuna ends the trial, and it is to be tried again
            frozen = self.study.get_trials(deepcopy=False)[trial.number]
            trial.set_user_attr(FAILURE, "interrupted")
            ledger.supersede(self.study, frozen)
            ledger.add_successor(self.study, frozen)
            raise

    def stop_if_hopeless(self, study: Study, trial: FrozenTrial) -> None:
        """Ask Optuna to stop after too many failures in a row."""
        del trial
        if self._hopeless():
            study.stop()

    def complain_if_hopeless(self) -> None:
        """Raise what `stop_if_hopeless` stopped for."""
        row = self._hopeless()
        if row and ledger.counted(self.study.get_trials(deepcopy=False)) < self.n_trials:
            raise StudyError(
                f"The last {len(row)} trials of the study all failed, the latest, trial {row[-1].number}, with "
                f"{row[-1].user_attrs.get(FAILURE, 'no word')!r}. Put the objective right and call again: what "
                "has finished is kept. `failure_limit` says after how many to stop."
            )

    def _hopeless(self) -> list[FrozenTrial]:
        row = ledger.failures_in_a_row(self.study.get_trials(deepcopy=False))
        return row if self.failure_limit is not None and len(row) >= self.failure_limit else []


def _checked(value: Any, directions: list[str]) -> float | list[float]:
    """What the objective returned, if it is an outcome: as many numbers, and none that nothing could be better than."""
    values = [value] if isinstance(value, Real) else value
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        values = [value.item()]  # a scalar of NumPy, JAX or PyTorch
    if not isinstance(values, Sequence) or isinstance(values, str | bytes):
        raise ObjectiveValueError(f"the objective returned {value!r}, which is not a number")
    if len(values) != len(directions):
        raise ObjectiveValueError(f"the objective returned {len(values)} values where the study has {len(directions)}")
    for each in values:
        if isinstance(each, bool) or not isinstance(each, Real):
            raise ObjectiveValueError(f"the objective returned {each!r}, which is not a number")
    numbers = [float(each) for each in values]
    if complaint := not_an_outcome(numbers, directions):
        raise ObjectiveValueError(f"the objective returned {complaint}")
    return numbers[0] if len(numbers) == 1 else numbers


class ObjectiveValueError(ValueError):
    """An objective returned what is no outcome."""


def _whole(name: str, value: object) -> None:
    if type(value) is not int or value < 1:
        raise ConfigurationError.invalid(name, value, "a whole number, 1 or more")


@contextmanager
def _quiet_if(wanted: bool) -> Iterator[None]:
    """Without Optuna's line per trial, which would tear the bar apart."""
    before = optuna.logging.get_verbosity()
    if wanted and before == optuna.logging.INFO:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
