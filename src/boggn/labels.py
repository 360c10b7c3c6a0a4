r"""Outcomes -> the class labels of PAPER.md 1 and 2; outcomes are minimised.

| name      | paper | meaning                                            |
|-----------|-------|----------------------------------------------------|
| values    | y_n   | outcomes, (N,); +inf is a failure                  |
| gamma     | gamma | fraction of the observations that is to be good    |
| threshold | tau   | the ceil(gamma N)-th smallest outcome              |
| z         | z_n   | 1[y_n <= tau]                                      |
| weight    | u_n   | weight of a row in the log-loss                    |
| cuts      |       | several thresholds, increasing and distinct        |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boggn.errors import ConfigurationError, EncodingError

Weighting = Literal["pi", "ei"]
Floats = NDArray[np.float64]

# Half the largest float64, so that a difference of two outcomes never overflows.
LARGEST_UTILITY = float(np.finfo(np.float64).max) / 2


@dataclass(frozen=True, eq=False)
class Labels:
    r"""The auxiliary data set: N' rows, each about the observation `row`, with class `z` (0. or 1.) and `weight`."""

    threshold: float
    z: Floats
    weight: Floats
    row: NDArray[np.intp]


def threshold(values: ArrayLike, gamma: float) -> float:
    r"""The generalised inverse of the ECDF at gamma: the ceil(gamma N)-th smallest value (PAPER.md 1)."""
    y = _outcomes(values)
    if not 0.0 < gamma < 1.0:
        raise ConfigurationError.invalid("gamma", gamma, "a number strictly between 0 and 1")
    if y.size == 0:
        raise EncodingError("A threshold needs at least one outcome, but there are none.")
    rank = min(max(_ceiling(gamma * y.size), 1), y.size)
    return float(np.partition(y, rank - 1)[rank - 1])


def cuts(values: ArrayLike, count: int, gamma: float) -> Floats:
    r"""So many thresholds, or fewer where outcomes are tied: one is that of `threshold`, more are quantiles.

    Their levels are (k / (K + 1))^e, e = log gamma / log 1/2, so that they gather where outcomes are good and the
    middle one is at gamma. The n-th smallest outcome has level (n - 1/2) / N and levels between are interpolated, so
    that ever more thresholds close in on every outcome from both sides.
    """
    if count == 1:
        return np.array([threshold(values, gamma)])
    y = np.sort(_outcomes(values))
    if y.size < 2:
        return y
    levels = (np.arange(1, count + 1) / (count + 1)) ** (math.log(gamma) / math.log(0.5))
    beyond = np.concatenate([[2 * y[0] - y[1]], y, [2 * y[-1] - y[-2]]])
    return np.unique(np.interp(levels * y.size + 0.5, np.arange(y.size + 2), beyond))


def intervals(values: ArrayLike, cuts: Floats) -> Floats:
    r"""The last threshold below each outcome and the first that is not, (N, 2); infinite where there is none."""
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    above = np.searchsorted(cuts, _outcomes(values), side="left")
    return np.stack([ends[above], ends[above + 1]], axis=1)


def label(values: ArrayLike, gamma: float, *, weighting: Weighting = "pi") -> Labels:
    r"""Labels at the gamma-threshold, for the probability of improvement ("pi") or its expectation ("ei").

    "pi": every observation once, z_n = 1[y_n <= tau], weight 1 (Algorithm 1, line 3).
    "ei": every observation once as a negative with weight 1, those with y_n < tau again as positives with weight
    proportional to tau - y_n and summing to their number (PAPER.md 2), so that the odds are proportional to EI.
    """
    if weighting not in get_args(Weighting):
        raise ConfigurationError.invalid("weighting", weighting, 'either "pi" or "ei"')
    y = _outcomes(values)
    tau = threshold(y, gamma)
    everyone = np.arange(y.size)
    if weighting == "pi":
        return Labels(tau, (y <= tau).astype(np.float64), np.ones(y.size), everyone)
    row, improvement = _improvements(y, tau)
    return Labels(
        threshold=tau,
        z=np.concatenate([np.zeros(y.size), np.ones(row.size)]),
        weight=np.concatenate([np.ones(y.size), improvement]),
        row=np.concatenate([everyone, row]),
    )


def utilities(values: ArrayLike) -> Floats:
    r"""Outcomes as finite numbers with finite differences: +inf becomes the worst finite one, -inf the best.

    Values beyond half the largest float64 are clipped to it. With no finite outcome at all, -inf is 0 and +inf is 1.
    """
    y = _outcomes(values)
    finite = y[np.isfinite(y)]
    smallest, largest = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    return np.clip(np.clip(y, smallest, largest), -LARGEST_UTILITY, LARGEST_UTILITY)


def _improvements(y: Floats, tau: float) -> tuple[NDArray[np.intp], Floats]:
    r"""The observations below tau and their weights (tau - y_n)^eta, eta = 1, scaled to sum to their number.

    Where improvements do not differ in size (all tied at tau, an infinite tau) eta = 0: all weights are 1.
    """
    row = np.flatnonzero(y < tau)
    if row.size == 0:
        row = np.flatnonzero(y <= tau)
        return row, np.ones(row.size)
    if math.isinf(tau):
        return row, np.ones(row.size)
    improvement = np.maximum(np.clip(tau, -LARGEST_UTILITY, LARGEST_UTILITY) - utilities(y)[row], 0.0)
    largest = improvement.max()
    if largest == 0.0:
        return row, np.ones(row.size)
    # Dividing by the largest first keeps the sum of huge improvements finite.
    share = improvement / largest
    return row, share * (row.size / share.sum())


def _ceiling(x: float) -> int:
    r"""Ceiling that takes 0.07 * 100 = 7.000000000000001 for 7."""
    nearest = round(x)
    return nearest if abs(x - nearest) <= 1e-12 * max(x, 1.0) else math.ceil(x)


def _outcomes(values: ArrayLike) -> Floats:
    y = np.asarray(values, dtype=np.float64)
    if y.ndim != 1:
        raise EncodingError(f"Outcomes have shape (N,), but got {y.shape}.")
    if np.isnan(y).any():
        index = int(np.argmax(np.isnan(y)))
        raise EncodingError(f"Outcome {index} is NaN. Report a failed evaluation as +inf, or leave it out.")
    return y
