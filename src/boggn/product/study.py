"""A study with a known space: made or found, checked against what it was, and given its sampler."""

from __future__ import annotations

import difflib
import inspect
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import optuna
from optuna import pruners, samplers
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from boggn.errors import ConfigurationError, StudyError
from boggn.product import ledger
from boggn.product.progress import Standing
from boggn.product.space import Space, check_same, from_json, to_json
from boggn.sampler import BOGGNSampler

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study

SPACE = "boggn:space"
SEED = "boggn:seed"
DIRECTIONS = ("minimize", "maximize")
OURS = "boggn"
_SEED_LIMIT = 2**31

_THEIRS: dict[str, Callable[..., BaseSampler]] = {
    "tpe": samplers.TPESampler,
    "random": samplers.RandomSampler,
    "nsgaii": samplers.NSGAIISampler,
    "qmc": samplers.QMCSampler,
}
_PRUNERS: dict[str, Callable[..., BasePruner]] = {
    "none": pruners.NopPruner,
    "median": pruners.MedianPruner,
    "percentile": pruners.PercentilePruner,
    "successive-halving": pruners.SuccessiveHalvingPruner,
    "hyperband": pruners.HyperbandPruner,
}


class SpaceSampler(BOGGNSampler):
    """The sampler of a study whose space is known before its first trial: even that one is then well placed."""

    def __init__(self, space: Mapping[str, BaseDistribution], **options: Any) -> None:
        super().__init__(**options)
        self._space = {name: space[name] for name in sorted(space) if not space[name].single()}

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The space, whatever the trials have."""
        super().infer_relative_search_space(study, trial)  # refuses a study it cannot work on
        return self._space


def parse_directions(direction: str | None, directions: Sequence[str] | None) -> list[str]:
    """The directions of a study, one if nothing else is said."""
    if direction is not None and directions is not None:
        raise ConfigurationError(
            "`direction` is for one objective and `directions` for several: leave one of them out."
        )
    chosen = [direction or DIRECTIONS[0]] if directions is None else list(directions)
    if not chosen or isinstance(directions, str):
        raise ConfigurationError.invalid("directions", directions, "a list with 'minimize' or 'maximize' per objective")
    for each in chosen:
        if each not in DIRECTIONS:
            raise ConfigurationError.invalid("direction", each, "'minimize' or 'maximize'")
    return chosen


def directions_of(study: Study) -> list[str]:
    """Its directions as they are written."""
    return [each.name.lower() for each in study.directions]


def open_study(storage: BaseStorage | None, name: str | None, directions: Sequence[str], space: Space) -> Study:
    """The study of that name, made if there is none, with this space from now on."""
    wanted = [StudyDirection[each.upper()] for each in directions]
    study = optuna.create_study(storage=storage, study_name=name, directions=wanted, load_if_exists=True)
    known = directions_of(study)
    if known != list(directions):
        raise StudyError(
            f"Study {study.study_name!r} is to {' and '.join(known)}, not to {' and '.join(directions)}: "
            "say so, or give the new study another name."
        )
    stored = study.user_attrs.get(SPACE)
    if stored is not None and study.get_trials(deepcopy=False):
        check_same(from_json(stored), space, study.study_name)
    text = to_json(space)
    if stored != text:
        study.set_user_attr(SPACE, text)
    return study


def sampler_for(
    study: Study, space: Space, seed: int | None, options: Mapping[str, Any], sampler: BaseSampler | None = None
) -> BaseSampler:
    """The sampler given, or ours with these options."""
    if sampler is None:
        made = make_sampler(OURS, options, space, seed_of(study, seed))
        check_objectives(made, study)
        return made
    if not isinstance(sampler, BaseSampler):
        raise ConfigurationError.invalid("sampler", sampler, "an Optuna sampler or None")
    if options:
        name = next(iter(options))
        raise ConfigurationError(f"`{name}` is an option of BOGGNSampler, but another `sampler` is given.")
    return sampler


def seed_of(study: Study, seed: int | None) -> int:
    """The seed given, or the one kept with the study, which all its workers share."""
    if seed is not None:
        return seed
    kept = study.user_attrs.get(SEED)
    if kept is None:
        kept = secrets.randbelow(_SEED_LIMIT)
        study.set_user_attr(SEED, kept)
    return int(kept)


def make_sampler(name: str, options: Mapping[str, Any], space: Space, seed: int) -> BaseSampler:
    """A sampler by its name: ours, or one of Optuna's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # of theirs: the user has asked for it
        try:
            return SpaceSampler(space, seed=seed, **options) if name == OURS else _THEIRS[name](seed=seed, **options)
        except TypeError as error:
            made = BOGGNSampler if name == OURS else _THEIRS[name]
            raise ConfigurationError(f"the sampler {name!r} has no such option: {_argument(error, made)}") from error


def check_objectives(sampler: BaseSampler, study: Study) -> None:
    """Have a sampler refuse a study of more objectives than it knows, before the first trial."""
    sampler.infer_relative_search_space(study, create_trial(state=TrialState.RUNNING))


def make_pruner(name: str, options: Mapping[str, Any]) -> BasePruner:
    """A pruner of Optuna's by its name."""
    try:
        return _PRUNERS[name](**options)
    except TypeError as error:
        said = _argument(error, _PRUNERS[name])
        raise ConfigurationError(f"the pruner {name!r} has not these options: {said}") from error


def _argument(error: TypeError, made: Callable[..., Any]) -> str:
    """What Python says of an argument, without the function's name; and which one was perhaps meant."""
    said = str(error).rpartition("() ")[2].partition(". Did you mean")[0]
    wrong = said.rpartition("argument ")[2].strip("'")
    near = difflib.get_close_matches(wrong, inspect.signature(made).parameters, n=1)
    return f"{said}; did you mean {near[0]!r}?" if near else f"{said}."


def standing(study: Study, total: int | None) -> Standing:
    """Where a study stands that is to have so many trials; None: any number."""
    trials = study.get_trials(deepcopy=False)
    failed = sum(ledger.counts(trial) and trial.state == TrialState.FAIL for trial in trials)
    return Standing(ledger.counted(trials), failed, best_of(study), total)


def best_of(study: Study) -> str:
    """The best value in few digits; of several objectives, how many trials no other one dominates."""
    if len(study.directions) > 1:
        return f"{len(study.best_trials)} on the front"
    if not study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        return "none yet"
    return f"{study.best_value:.6g}"
