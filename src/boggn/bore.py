r"""A history -> a scikit-learn classifier of its good points: BORE, and with weighted labels LFBO (PAPER.md 1, 2).

| here          | meaning                                                                                     |
|---------------|---------------------------------------------------------------------------------------------|
| `probability` | the classifier's own, P(z = 1 | x); what is maximised, with either labels                      |
| "pi"          | z_n = 1[y_n <= tau], so the probability is pi(x) = P(y <= tau | x)                            |
| "ei"          | positives weigh w_n = (tau - y_n) / c, so the odds are E[w | x] and EI on tau is c times them  |
| running       | a point without an outcome yet counts as one that is not good, which keeps others away        |
| failed        | so does one that failed: its outcome is above every threshold                                  |

There is no posterior: a classifier is asked for its probabilities alone, never for gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from boggn.config import Config
from boggn.encoding import Encoding
from boggn.errors import ClassifierError, StudyError
from boggn.labels import Labels, label, utilities

if TYPE_CHECKING:
    from boggn.observed import History

Floats = NDArray[np.float64]
SLACK = 1e-6
"""Rounding by which a probability may leave [0, 1]; some classifiers reckon in single precision."""


@dataclass(frozen=True)
class ClassifierSurrogate:
    """A fitted classifier, and how to read it."""

    classifier: Any
    weighted: bool
    """Whether its labels have the weights of expected improvement."""
    unit: float | None
    """c, the improvement in units of the outcome that odds of one stand for; None where it is not known."""
    means: Floats
    """Minus the probability at each observation of the history; smaller is better."""
    width: int
    record: dict[str, Any]

    def probability(self, rows: Floats) -> Floats:
        """The classifier's at encoded rows (B, W): (B,)."""
        return _probability(self.classifier, rows)

    def class_probability(self, rows: Floats) -> Floats:
        """pi(x), (B,), which only labels of one weight tell."""
        if self.weighted:
            raise StudyError("A classifier of weighted labels knows no class probability: use acquisition='pi'.")
        return self.probability(rows)

    def expected_improvement(self, rows: Floats) -> Floats:
        """On the threshold, in the units of the outcome, (B,); infinite where the classifier is certain."""
        if not self.weighted:
            raise StudyError("A classifier of labels of one weight knows no improvement: use acquisition='ei'.")
        if self.unit is None:
            raise StudyError("No outcome is better than the threshold, so improvements on it have no size yet.")
        probability = self.probability(rows)
        with np.errstate(divide="ignore", over="ignore"):
            return probability / (1.0 - probability) * self.unit

    def judged(self, rows: Floats) -> dict[str, float]:
        """What the record says of one encoded row (1, W)."""
        probability = float(self.probability(rows)[0])
        found = {"acquisition": probability}
        if not self.weighted:
            found |= {"pi": probability, "ratio": probability / self.record["gamma"]}
        elif self.unit is not None and math.isfinite(improvement := float(self.expected_improvement(rows)[0])):
            found["ei"] = improvement
        return found


def fit(config: Config, encoding: Encoding, history: History, seed: list[int]) -> ClassifierSurrogate | str:
    """Fit the configured classifier, or say why it cannot be fitted."""
    from boggn.classifiers import make

    values = utilities(history.values)
    if len(values) == 0 or values.min() == values.max():
        return "all outcomes are equal"
    gamma, weighted = config.proportion(len(values)), config.acquisition == "ei"
    labels = label(values, gamma, weighting="ei" if weighted else "pi")
    if labels.z.min() == labels.z.max():
        return "all outcomes are of one class"
    observed, running = encoding.encode(history.units), encoding.encode(history.running)
    bad = np.vstack([running, encoding.encode(history.failed)])
    rows = np.vstack([observed[labels.row], bad])
    z = np.concatenate([labels.z, np.zeros(len(bad))]).astype(np.intp)
    weight = {"sample_weight": np.concatenate([labels.weight, np.ones(len(bad))])} if weighted else {}
    classifier = make(config.classifier, seed[0] >> 1)  # some take a random state of 31 bits only
    with _blamed(classifier):
        classifier.fit(rows, z, **weight)
    record = {
        "model": _name(config),
        "gamma": gamma,
        "threshold": labels.threshold,
        "observations": len(values),
        "running": len(running),
    }
    unit = _unit(values, labels) if weighted else None
    means = -_probability(classifier, observed)
    return ClassifierSurrogate(classifier, weighted, unit, means, encoding.width, record)


def _name(config: Config) -> str:
    name = config.classifier if isinstance(config.classifier, str) else type(config.classifier).__name__
    return f"{name} classifier, one threshold" + (", labels weighted by improvement" * (config.acquisition == "ei"))


def _unit(values: Floats, labels: Labels) -> float | None:
    """The improvement (tau - y_n) that a weight of one stands for."""
    improvement = labels.threshold - values.min()
    return float(improvement / labels.weight[labels.z == 1].max()) if improvement > 0 else None


def _probability(classifier: Any, rows: Floats) -> Floats:
    if len(rows) == 0:  # which scikit-learn refuses
        return np.zeros(0)
    with _blamed(classifier):
        found = np.asarray(classifier.predict_proba(rows), dtype=np.float64)
        good: Floats = found[:, list(classifier.classes_).index(1)]
    wrong = ~((good >= -SLACK) & (good <= 1.0 + SLACK))
    if wrong.any():
        name = type(classifier).__name__
        raise ClassifierError(f"{name}.predict_proba gave {good[wrong][0]}, which is no probability")
    return np.clip(good, 0.0, 1.0)


@contextmanager
def _blamed(classifier: Any) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever a foreign classifier raises costs one suggestion, never the study
        raise ClassifierError(f"{type(classifier).__name__}: {type(error).__name__}: {error}") from error
