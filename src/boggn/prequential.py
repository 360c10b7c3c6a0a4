r"""How well class probabilities foretold what came: the proper score by which any two models compare on one study.

Before trial n + 1 the model says pi(x_{n+1}), the probability that its outcome is at the gamma-threshold of the first n
trials or better. Afterwards it is known whether it was, z. The prequential log-loss is the mean of
-z log pi - (1 - z) log(1 - pi). Smaller is better; who always says one half has 0.69.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from optuna.study import StudyDirection
from optuna.trial import TrialState

from boggn.belief import belief
from boggn.errors import ConfigurationError, UnfittedError
from boggn.explain import explain
from boggn.sampler import BOGGNSampler

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial

LEAST = 1e-12
"""A probability of nothing that happened after all costs as much as this one."""
FIRST = 10
"""Trials a model is fitted to before its first prediction counts."""


class Prediction(NamedTuple):
    """What was said of a trial before it ran, and whether it came true."""

    trial_number: int
    class_probability: float
    good: bool


class Bin(NamedTuple):
    """Predictions of about the same probability: their mean, how often they came true, and how many they are."""

    class_probability: float
    frequency: float
    size: int


@dataclass(frozen=True)
class Prequential:
    """A model's predictions, in the order of the trials."""

    predictions: tuple[Prediction, ...]

    @property
    def log_loss(self) -> float:
        """The mean logarithmic loss; smaller is better. NaN without predictions."""
        losses = [
            -math.log(max(probability if good else 1.0 - probability, LEAST))
            for _, probability, good in self.predictions
        ]
        return sum(losses) / len(losses) if losses else math.nan

    @property
    def brier(self) -> float:
        """The mean squared error of the probability; smaller is better. NaN without predictions."""
        errors = [(probability - good) ** 2 for _, probability, good in self.predictions]
        return sum(errors) / len(errors) if errors else math.nan

    @property
    def calibration_error(self) -> float:
        """The mean distance between probability and frequency over the bins. NaN without predictions."""
        bins = self.reliability()
        return sum(b.size * abs(b.class_probability - b.frequency) for b in bins) / (sum(b.size for b in bins) or 1)

    def reliability(self, bins: int = 5) -> list[Bin]:
        """Probability against frequency, in bins that hold equally many predictions."""
        if type(bins) is not int or bins < 1:
            raise ConfigurationError.invalid("bins", bins, "a whole number, 1 or more")
        ordered = sorted(self.predictions, key=lambda prediction: prediction.class_probability)
        edges = [round(part * len(ordered) / bins) for part in range(bins + 1)]
        parts = [ordered[low:high] for low, high in itertools.pairwise(edges) if high > low]
        return [
            Bin(
                sum(p.class_probability for p in part) / len(part),
                sum(p.good for p in part) / len(part),
                len(part),
            )
            for part in parts
        ]

    def __str__(self) -> str:
        if not self.predictions:
            return "no predictions yet"
        return (
            f"{len(self.predictions)} predictions: log-loss {self.log_loss:.3f}, Brier score {self.brier:.3f}, "
            f"calibration error {self.calibration_error:.3f}"
        )


def prequential(
    study: Study, *, sampler: BOGGNSampler | None = None, first: int = FIRST, every: int = 1
) -> Prequential:
    """Score the predictions that the study's sampler recorded; or those that another sampler would have made.

    With `sampler`, its model is fitted anew before each trial from number `first` on, or every so many.
    """
    for name, count in {"first": first, "every": every}.items():
        if type(count) is not int or count < 1:
            raise ConfigurationError.invalid(name, count, "a whole number, 1 or more")
    told = _recorded(study) if sampler is None else _refitted(study, sampler, first, every)
    return Prequential(tuple(told))


def _recorded(study: Study) -> Iterator[Prediction]:
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        model = explain(study, trial.number).model
        if model is not None and model.class_probability is not None:
            yield Prediction(trial.number, model.class_probability, _good(study, trial, model.threshold))


def _refitted(study: Study, sampler: BOGGNSampler, first: int, every: int) -> Iterator[Prediction]:
    for number, trial in enumerate(study.get_trials(deepcopy=False)):
        if number < first or (number - first) % every or trial.state != TrialState.COMPLETE:
            continue
        try:
            believed = belief(study, trials=number, sampler=sampler)
        except UnfittedError:
            continue
        if all(name in trial.params for name in believed.params):
            probability = float(believed.class_probability([trial.params]).mean[0])
            yield Prediction(trial.number, probability, _good(study, trial, believed.threshold))


def _good(study: Study, trial: FrozenTrial, threshold: float) -> bool:
    value = float(trial.values[0])
    return value >= threshold if study.direction == StudyDirection.MAXIMIZE else value <= threshold
