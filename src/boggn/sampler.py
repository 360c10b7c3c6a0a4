"""Optuna's sampler contract around the engine: trials become the history that it sees."""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, TPESampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from boggn.config import (
    NETWORK_OPTIONS,
    PAPER,
    AcquisitionName,
    Config,
    Link,
    PosteriorName,
    SearchName,
    Thresholds,
    Training,
)
from boggn.errors import ConfigurationError, StudyError
from boggn.network.spec import Network
from boggn.record import running_params, tried_again
from boggn.record import write as write_record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from optuna.study import Study

    from boggn.encoding import Encoding
    from boggn.engine import AnySurrogate, Suggestion
    from boggn.observed import History
    from boggn.surrogate import Memory

    Floats = NDArray[np.float64]

_logger = logging.getLogger(__name__)

_SEED_LIMIT = 2**63
_RESEEDED = 1
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)
_STREAMS = {"suggest": 0, "startup": 1, "independent": 2}


class Fitted(NamedTuple):
    """A model and what it was fitted to. It minimises: the outcomes of the study are `sign` times its own."""

    encoding: Encoding
    history: History
    surrogate: AnySurrogate
    sign: float


class BOGGNSampler(BaseSampler):
    """Suggests where a Bayesian neural network, classifying at every threshold, expects the most improvement.

    The next suggestion is a function of the seed, the number of the trial and the visible history, and of nothing
    else: the same in any process, thread or restart.
    """

    def __init__(
        self,
        *,
        seed: int | None = None,
        n_startup_trials: int = 10,
        gamma: float | Literal["sqrt"] = 1.0 / 3.0,
        thresholds: Thresholds = "all",
        link: Link = "probit",
        network: str | Network = "wide",
        posterior: PosteriorName = "function",
        classifier: Any = None,
        epsilon: float | None = None,
        acquisition: AcquisitionName = "ei",
        prior_precision: float | Literal["evidence"] = "evidence",
        training: Training = "gauss-newton",
        patience: int | None = None,
        warm_start: bool = False,
        search: SearchName | None = None,
        deterministic_objective: bool = False,
        independent_sampler: BaseSampler | None = None,
        warn_independent_sampling: bool = True,
    ) -> None:
        """Options are described in `boggn.config.Config` and checked here, once.

        Beside them, `seed` repeats the suggestions, and `independent_sampler` (None: Optuna's TPE) draws the parameters
        that not all trials have, with a warning unless `warn_independent_sampling` is False.
        """
        self.config = Config(
            thresholds=thresholds,
            link=link,
            network=network,  # type: ignore[arg-type]  # Config parses the text forms
            posterior=posterior,
            classifier=classifier,
            gamma=gamma,
            acquisition=acquisition,
            epsilon=epsilon,
            prior_precision=prior_precision,
            training=training,
            patience=patience,
            warm_start=warm_start,
            search=search,
            n_startup_trials=n_startup_trials,
            deterministic_objective=deterministic_objective,
        )
        if classifier is not None:
            from boggn.classifiers import check

            check(classifier, weighted=self.config.acquisition == "ei")
        if independent_sampler is not None and not isinstance(independent_sampler, BaseSampler):
            raise ConfigurationError.invalid("independent_sampler", independent_sampler, "an Optuna sampler or None")
        if not isinstance(warn_independent_sampling, bool):
            raise ConfigurationError.invalid("warn_independent_sampling", warn_independent_sampling, "True or False")
        self._seed = _checked_seed(seed)
        self._stream = 0
        self._independent = independent_sampler
        self._warn_independent = warn_independent_sampling
        self._memory: Memory | None = None
        self._rows = _Rows()

    @classmethod
    def paper(cls, **options: Any) -> Self:
        """Algorithm 1 to the letter; any option given replaces the paper's, and a classifier its network.

        Of trials that fail the paper says nothing: they are learned from here too.
        """
        replaced = NETWORK_OPTIONS if options.get("classifier") is not None else ()
        preset = {name: getattr(PAPER, name) for name in PAPER.__dataclass_fields__ if name not in replaced}
        return cls(**(preset | options))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_memory": None, "_rows": _Rows()}

    def reseed_rng(self) -> None:
        """Move to the second stream of random numbers, as Optuna asks before running in parallel.

        Doing so twice changes nothing: suggestions differ by the number of their trial, so that parallel threads
        never need a stream each, and a parallel run stays reproducible.
        """
        self._stream = _RESEEDED
        if self._independent is not None:
            self._independent.reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Nothing of our own to prepare."""
        if self._independent is not None:
            self._independent.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Nothing of our own to conclude."""
        if self._independent is not None:
            self._independent.after_trial(study, trial, state, values)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that every finished trial has, with the ranges of the latest of them."""
        _single_objective(study)
        return _common_space(study.get_trials(deepcopy=False, states=_FINISHED))

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The next point, recorded on the trial together with how it was found."""
        _single_objective(study)
        if not search_space:
            return {}
        from boggn.encoding import Encoding

        encoding = Encoding.of(search_space)
        suggestion = self._suggest(study, trial, encoding)
        params = encoding.from_unit(suggestion.unit)
        record = suggestion.record
        if "threshold" in record:
            record = record | {"threshold": _sign(study) * record["threshold"]}
        write_record(study, trial, params, search_space, record)
        return params

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """One parameter that is not shared by all trials: Optuna's TPE, unless another sampler was given."""
        _single_objective(study)
        self._warn(study, trial, param_name)
        sampler = self._independent
        if sampler is None:
            seed = int.from_bytes(self._digest("independent", trial.number, param_name)[:4], "big")
            sampler = TPESampler(seed=seed)
        try:
            return sampler.sample_independent(study, trial, param_name, param_distribution)
        except OverflowError:  # Optuna's samplers cannot span a range beyond 1.8e308; the encoding can
            from boggn import engine
            from boggn.encoding import Encoding

            encoding = Encoding.of({param_name: param_distribution})
            entropy = self._entropy("independent", trial.number, param_name)
            return encoding.from_unit(engine.random_suggestion(encoding, entropy, "").unit)[param_name]

    def fit(self, study: Study, trials: int | None = None) -> Fitted | str:
        """The model after so many trials of a study, all of them if None; or why there is none."""
        from boggn import engine
        from boggn.encoding import Encoding

        _single_objective(study)
        seen = study.get_trials(deepcopy=False)[:trials]
        space = _common_space([trial for trial in seen if trial.state in _FINISHED])
        if not space:
            return "the finished trials have no parameter in common"
        encoding = Encoding.of(space)
        history = _history(seen, _sign(study), encoding, self._rows)
        surrogate = engine.fit(self.config, encoding, history, self._entropy("suggest", -1), self._remembered())
        return surrogate if isinstance(surrogate, str) else Fitted(encoding, history, surrogate, _sign(study))

    def _suggest(self, study: Study, trial: FrozenTrial, encoding: Encoding) -> Suggestion:
        from boggn import engine

        others = [other for other in study.get_trials(deepcopy=False) if other.number != trial.number]
        history = _history(others, _sign(study), encoding, self._rows)
        if history.tried < self.config.n_startup_trials:
            return engine.startup_point(encoding, self._entropy("startup"), trial.number)
        seed = self._entropy("suggest", trial.number)
        try:
            return engine.suggest(self.config, encoding, history, seed, self._remembered())
        except (ArithmeticError, RuntimeError) as error:
            # A numerical failure costs one suggestion, never the study.
            _logger.warning("Trial %d gets a random point: the model failed (%s).", trial.number, error)
            return engine.random_suggestion(encoding, seed, f"model failed: {error}"[:200])

    def _remembered(self) -> Memory:
        from boggn.surrogate import Memory

        if self._memory is None:
            self._memory = Memory()
        return self._memory

    def _digest(self, stream: str, *parts: object) -> bytes:
        text = repr((self._seed, self._stream, _STREAMS[stream], *parts))
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def _entropy(self, stream: str, *parts: object) -> list[int]:
        digest = self._digest(stream, *parts)
        return [int.from_bytes(digest[begin : begin + 4], "big") for begin in range(0, 16, 4)]

    def _warn(self, study: Study, trial: FrozenTrial, name: str) -> None:
        if not self._warn_independent:
            return
        finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if len(finished) >= self.config.n_startup_trials:
            _logger.warning(
                "Trial %d samples parameter %r on its own, without the model: not every finished trial has it. "
                "Set warn_independent_sampling=False to silence this.",
                trial.number,
                name,
            )


def _checked_seed(seed: int | None) -> int:
    if seed is None:
        return secrets.randbelow(_SEED_LIMIT)
    if type(seed) is not int or not 0 <= seed < _SEED_LIMIT:
        raise ConfigurationError.invalid("seed", seed, "None or a whole number from 0 to 2^63 - 1")
    return seed


def _sign(study: Study) -> float:
    """Outcomes are minimised below this module."""
    return -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0


def _single_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise StudyError(
            f"BOGGNSampler optimises one objective, but this study has {len(study.directions)}. "
            "Use optuna.samplers.NSGAIISampler or GPSampler, or optimise one of them."
        )


def _common_space(trials: Sequence[FrozenTrial]) -> dict[str, BaseDistribution]:
    """Parameters of every trial; where a range moved, the latest one. Single values need no model."""
    if not trials:
        return {}
    names = set(trials[0].distributions)
    for trial in trials:
        names &= trial.distributions.keys()
    latest = max(trials, key=lambda trial: trial.number).distributions
    return {name: latest[name] for name in sorted(names) if not latest[name].single()}


class _Rows:
    """Unit rows of finished trials, which never change: encoded once for as long as the space stays the same."""

    def __init__(self) -> None:
        self._known: tuple[Encoding | None, dict[tuple[int, datetime | None], Floats | None]] = (None, {})

    def of(self, trials: Sequence[FrozenTrial], encoding: Encoding) -> list[Floats | None]:
        """The unit rows of finished trials; None for those that lie outside the space as it is now."""
        # Another thread may be asking about another space: encoding and rows are only ever replaced together.
        known, rows = self._known
        if known != encoding:
            rows = {}
            self._known = (encoding, rows)
        found = []
        for trial in trials:
            key = (trial._trial_id, trial.datetime_complete)  # noqa: SLF001  numbers repeat between studies
            if key not in rows:
                rows[key] = encoding.to_unit(trial.params) if encoding.contains(trial.params) else None
            found.append(rows[key])
        return found


def _history(trials: Sequence[FrozenTrial], sign: float, encoding: Encoding, rows: _Rows) -> History:
    """What some trials tell. A pruned trial counts as no better than half of the completed ones."""
    import numpy as np

    from boggn.observed import History

    space = dict(zip(encoding.names, encoding.distributions, strict=True))
    complete = [sign * trial.values[0] for trial in trials if trial.state == TrialState.COMPLETE]
    middle = sorted(complete)[len(complete) // 2] if complete else None  # np.median would add up infinities
    told = [(trial, value) for trial in trials if (value := _outcome(trial, sign, middle)) is not None]
    kept = [
        (row, value, trial.number)
        for row, (trial, value) in zip(rows.of([trial for trial, _ in told], encoding), told, strict=True)
        if row is not None
    ]
    waiting = [running_params(trial, space) for trial in trials if trial.state == TrialState.RUNNING]
    running = [encoding.to_unit(params) for params in waiting if encoding.contains(params)]
    failures = _failures(trials)
    failed = [
        (row, trial.number) for row, trial in zip(rows.of(failures, encoding), failures, strict=True) if row is not None
    ]
    units, values, numbers = zip(*kept, strict=True) if kept else ((), (), ())
    failed_units, failed_numbers = zip(*failed, strict=True) if failed else ((), ())
    shape = (-1, encoding.n_parameters)
    return History(
        units=np.reshape(units, shape),
        values=np.array(values, dtype=np.float64),
        running=np.reshape(running, shape),
        numbers=numbers,
        failed=np.reshape(failed_units, shape),
        failed_numbers=failed_numbers,
    )


def _failures(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Trials that failed for good: what was tried again says nothing of its point."""
    failed = [trial for trial in trials if trial.state == TrialState.FAIL]
    again = tried_again(trials) if failed else ()
    return [trial for trial in failed if trial.number not in again]


def _outcome(trial: FrozenTrial, sign: float, middle: float | None) -> float | None:
    if trial.state == TrialState.COMPLETE:
        return sign * float(trial.values[0])
    if trial.state != TrialState.PRUNED or trial.last_step is None or middle is None:
        return None
    last = sign * trial.intermediate_values[trial.last_step]
    return None if math.isnan(last) else max(last, middle)
