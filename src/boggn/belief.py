r"""What a sampler believes of a study, to be asked at any parameters: class probability, ratio, improvement, outcome.

The bands are those of the posterior: the quantiles of the Gaussian latent, pushed through what is asked for. Another
classifier in the network's place has no posterior: the ends of its bands are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from boggn.bore import ClassifierSurrogate
from boggn.errors import ConfigurationError, EncodingError, StudyError, UnfittedError
from boggn.sampler import BOGGNSampler, Fitted

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from optuna.study import Study

    from boggn.engine import Report
    from boggn.surrogate import Surrogate

    Floats = NDArray[np.float64]

Points = Sequence[Mapping[str, Any]]
LEVEL = 0.9


class Band(NamedTuple):
    """A mean (for outcomes: a median) and the ends of an interval of the posterior, (B,) each."""

    mean: Floats
    low: Floats
    high: Floats


@final
@dataclass(frozen=True)
class Belief:
    """A model fitted to the trials of a study; `belief` makes it. Points are dictionaries of parameters."""

    _fitted: Fitted

    @property
    def params(self) -> tuple[str, ...]:
        """The parameters the model knows: those that all finished trials have, but for constants."""
        return self._fitted.encoding.names

    @property
    def gamma(self) -> float:
        """The proportion of trials called good."""
        gamma: float = self._record["gamma"]
        return gamma

    @property
    def threshold(self) -> float:
        """The gamma-threshold, in the units of the outcome."""
        threshold: float = self._fitted.sign * self._record["threshold"]
        return threshold

    @property
    def log_evidence(self) -> float:
        """Of the trials, under the model."""
        evidence: float = self._network("evidence").record["log_evidence"]
        return evidence

    def class_probability(self, points: Points, *, level: float = LEVEL) -> Band:
        r"""pi(x): the probability that an outcome is at the threshold or better (PAPER.md 4)."""
        ends, surrogate = self._ends(level), self._fitted.surrogate
        if isinstance(surrogate, ClassifierSurrogate):
            probability = surrogate.class_probability(self._rows(points))
            return Band(probability, *np.full((2, len(probability)), np.nan))
        if "pi" not in surrogate.knows:
            raise StudyError("A model of weighted labels knows no class probability: use acquisition='pi'.")
        report, acquisition = self._report(points), surrogate.conditioned.acquisition
        head = acquisition.head
        sides = []
        for end in ends:
            latent = report.mean + end * np.sqrt(report.variance)
            logit = latent if head.warp is None else (float(acquisition.cut) - latent) / float(head.scale)
            sides.append(_link(head.link, logit))
        return Band(np.exp(report.log_pi), np.minimum(*sides), np.maximum(*sides))

    def ratio(self, points: Points, *, level: float = LEVEL) -> Band:
        """The relative density ratio pi(x) / gamma (PAPER.md 2)."""
        return Band(*(column / self.gamma for column in self.class_probability(points, level=level)))

    def outcome(self, points: Points, *, level: float = LEVEL) -> Band:
        """What is behind the outcomes, without their noise: its median and an interval."""
        surrogate = self._network("outcomes")
        warp = surrogate.conditioned.acquisition.head.warp
        if warp is None:
            raise StudyError("A model of one threshold knows no outcomes: use thresholds='all'.")
        report = self._report(points)
        latents = [report.mean + end * np.sqrt(report.variance) for end in (0.0, *self._ends(level))]
        offset = math.exp(float(warp.log_offset))
        logs = [float(warp.center) + float(warp.spread) * latent for latent in latents]
        values = [self._fitted.sign * surrogate.scale.value(np.exp(log) - offset) for log in logs]
        return Band(values[0], np.minimum(*values[1:]), np.maximum(*values[1:]))

    def expected_improvement(self, points: Points) -> Floats:
        """On the best point so far, in the units of the outcome; by another classifier, on the threshold."""
        if isinstance(self._fitted.surrogate, ClassifierSurrogate):
            return self._fitted.surrogate.expected_improvement(self._rows(points))
        if "ei" not in self._fitted.surrogate.knows:
            raise StudyError("A model of one threshold knows no improvement: use thresholds='all'.")
        improvement: Floats = np.exp(self._report(points).log_ei) * self._fitted.surrogate.scale.span
        return improvement

    def acquisition(self, points: Points) -> Floats:
        """What the sampler maximises: in logarithms, where it is a network's improvement or probability."""
        if isinstance(self._fitted.surrogate, ClassifierSurrogate):
            return self._fitted.surrogate.probability(self._rows(points))
        return self._report(points).value

    def ranking(self) -> tuple[int, ...]:
        """The numbers of the trials it was fitted to, the best expected outcome first.

        Another classifier ranks by its probability; where that is the same, as on the steps of a forest, by outcome.
        """
        means, history = self._fitted.surrogate.means, self._fitted.history
        return tuple(history.numbers[index] for index in np.lexsort((history.values, means)))

    @property
    def _record(self) -> dict[str, Any]:
        return self._fitted.surrogate.record

    def _report(self, points: Points) -> Report[Floats]:
        from boggn import engine

        return engine.report(self._network("moments"), self._rows(points))

    def _rows(self, points: Points) -> Floats:
        return self._fitted.encoding.encode(self._units(points))

    def _network(self, asked: str) -> Surrogate:
        """The network; a classifier in its place has nothing to say of what is asked."""
        surrogate = self._fitted.surrogate
        if isinstance(surrogate, ClassifierSurrogate):
            raise StudyError(f"A classifier in the network's place knows no {asked}: use classifier=None.")
        return surrogate

    def _ends(self, level: float) -> tuple[float, float]:
        """The standard normal's quantiles that hold a share between them."""
        if isinstance(level, bool) or not 0.0 < level < 1.0:
            raise ConfigurationError.invalid("level", level, "a number strictly between 0 and 1")
        end = NormalDist().inv_cdf(0.5 + 0.5 * level)
        return -end, end

    def _units(self, points: Points) -> Floats:
        if isinstance(points, Mapping) or not all(isinstance(point, Mapping) for point in points):
            raise ConfigurationError.invalid("points", points, "a list of dictionaries of parameters")
        for point in points:
            if missing := [name for name in self.params if name not in point]:
                raise EncodingError(f"A point needs parameters {self.params}, but {missing[0]!r} is not in {point!r}.")
        return self._fitted.encoding.to_units(points)


def belief(study: Study, *, trials: int | None = None, sampler: BOGGNSampler | None = None) -> Belief:
    """The belief of the study's sampler, if it is one of ours, or of the one given, after so many trials (all of them).

    The trials are fitted anew, with the sampler as it is set now: what it thought when it suggested a trial is kept on
    that trial, and `explain` tells it.
    """
    chosen = sampler_of(study) if sampler is None else sampler
    if not isinstance(chosen, BOGGNSampler):
        raise ConfigurationError.invalid("sampler", sampler, "a BOGGNSampler or None")
    count = len(study.get_trials(deepcopy=False))
    if trials is not None and (type(trials) is not int or not 1 <= trials <= count):
        raise ConfigurationError.invalid("trials", trials, f"None or a whole number from 1 to {count}")
    fitted = chosen.fit(study, trials)
    if isinstance(fitted, str):
        raise UnfittedError(f"There is no model of this study yet: {fitted}.")
    return Belief(fitted)


def sampler_of(study: Study) -> BOGGNSampler:
    """The study's own sampler, or the default one where it is none of ours."""
    return study.sampler if isinstance(study.sampler, BOGGNSampler) else BOGGNSampler(seed=0)


def _link(link: str, logit: Floats) -> Floats:
    from scipy.special import expit, ndtr

    probability: Floats = (expit if link == "logit" else ndtr)(logit)
    return probability
