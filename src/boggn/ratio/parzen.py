r"""Two Parzen estimates, divided: the ratio that the tree-structured Parzen estimator maximises (PAPER.md 9).

Each density is (1 / N) sum_n N(x; x_n, h^2 I) with a width of its own: that of the largest leave-one-out likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from boggn.ratio import kernels
from boggn.ratio.base import DensityRatio

Floats = NDArray[np.float64]
BLOCK = 2**21
"""Distances in memory at once."""


@final
class KDE(DensityRatio):
    """Kernel density estimates of both samples, divided.

    `width` is in standard deviations of a column, for both densities; None: each is chosen by leave-one-out likelihood.
    """

    def __init__(self, width: float | None = None, *, gamma: float = 0.0) -> None:
        self.width = width
        self.gamma = gamma

    def _fit(self, numerator: Floats, denominator: Floats) -> None:
        candidates = kernels.widths(self.width, numerator.shape[1])
        self.samples_ = (numerator, denominator)
        self.widths_ = tuple(_best_width(rows, candidates) for rows in self.samples_)

    def _log_plain_ratio(self, rows: Floats) -> Floats:
        above, below = (
            _log_density(rows, sample, width) for sample, width in zip(self.samples_, self.widths_, strict=True)
        )
        return above - below


def _blocks(rows: Floats, sample: Floats) -> Iterator[tuple[int, Floats]]:
    """Squared distances to the sample, some rows at a time, and where these begin."""
    step = max(1, BLOCK // len(sample))
    for begin in range(0, len(rows), step):
        yield begin, kernels.square_distances(rows[begin : begin + step], sample)


def _log_mean_kernel(square: Floats, width: float, columns: int, count: int) -> Floats:
    """Log density of one Parzen estimate of `count` rows."""
    found: Floats = logsumexp(-0.5 * square / width**2, axis=1)
    return found - math.log(count) - columns * (math.log(width) + 0.5 * math.log(2.0 * math.pi))


def _log_density(rows: Floats, sample: Floats, width: float) -> Floats:
    parts = [_log_mean_kernel(square, width, sample.shape[1], len(sample)) for _, square in _blocks(rows, sample)]
    return np.concatenate(parts)


def _best_width(sample: Floats, candidates: Floats) -> float:
    """That under which each row is most likely given the others."""
    if len(candidates) == 1:
        return float(candidates[0])
    likelihood = np.zeros(len(candidates))
    for begin, square in _blocks(sample, sample):
        here = np.arange(len(square))
        square[here, begin + here] = np.inf
        likelihood += [_log_mean_kernel(square, width, sample.shape[1], len(sample) - 1).sum() for width in candidates]
    return float(candidates[np.argmax(likelihood)])
