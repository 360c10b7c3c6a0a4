r"""The Kullback-Leibler importance estimation procedure (Sugiyama et al. 2008).

r(x) = sum_j a_j k(x, c_j), a >= 0, maximises E_l[log r] subject to E_g[r] = 1. Dropping the constraint and maximising
E_l[log r] - E_g[r] has the same solution, since the best multiple c r of any r has E_g[c r] = 1: so bounds suffice.
With b_j = E_g[k(., c_j)] and beta_j = a_j b_j, E_g[r] is the sum of beta: all variables are of one size.

The width is that of the largest score on rows of *both* samples left out. Where only the numerator's are, as in the
article, narrow kernels win whose mean under g is small on the one sample that it was taken of.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from boggn.errors import ConfigurationError
from boggn.ratio import kernels
from boggn.ratio.base import DensityRatio

Floats = NDArray[np.float64]
ITERATIONS = 60
"""A dozen or two are enough."""
TOLERANCE = 1e-9
CENTRING = 0.1
"""Share of the gap that a step aims at."""
REACH = np.log(1e-12)
"""A kernel whose mean over the denominator's sample is less reaches none of it, and would make the ratio infinite."""


@final
class KLIEP(DensityRatio):
    """A sum of kernels whose log-likelihood on the numerator's sample is largest, and whose mean under g is one.

    `width` (in standard deviations of a column) is cross-validated where it is None; `n_centers` is the number of
    kernels at most.
    """

    def __init__(
        self,
        width: float | None = None,
        *,
        n_centers: int = 100,
        gamma: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.width = width
        self.n_centers = n_centers
        self.gamma = gamma
        self.random_state = random_state

    def _fit(self, numerator: Floats, denominator: Floats) -> None:
        rng = np.random.default_rng(self.random_state)
        self.centers_ = kernels.choose_centers(numerator, self.n_centers, rng)
        above, below = (kernels.square_distances(rows, self.centers_) for rows in (numerator, denominator))
        widths = kernels.widths(self.width, numerator.shape[1])
        best = 0
        if len(widths) > 1:
            fold = [kernels.folds(len(rows), rng) for rows in (numerator, denominator)]
            best = int(np.argmax([_held_out(above, below, width, fold) for width in widths]))
        self.width_ = float(widths[best])
        self.log_weights_ = _log_weights(above, below, self.width_)
        if not np.any(np.isfinite(self.log_weights_)):
            allowed = "wider: no kernel of the numerator's sample reaches the denominator's"
            raise ConfigurationError.invalid("width", self.width_, allowed)

    def _log_plain_ratio(self, rows: Floats) -> Floats:
        return _log_ratio(kernels.square_distances(rows, self.centers_), self.width_, self.log_weights_)


def _log_mean(below: Floats, width: float) -> Floats:
    """log b_j, (C,)."""
    found: Floats = logsumexp(-0.5 * below / width**2, axis=0) - np.log(len(below))
    return found


def _log_weights(above: Floats, below: Floats, width: float) -> Floats:
    """log a_j of the best sum of kernels, (C,); minus infinity for those that reach no denominator."""
    log_mean = _log_mean(below, width)
    reaching = log_mean > REACH
    log_weights = np.full(len(log_mean), -np.inf)
    if np.any(reaching):
        beta = _weights(-0.5 * above[:, reaching] / width**2 - log_mean[reaching])
        log_weights[reaching] = np.log(beta) - log_mean[reaching]
    return log_weights


def _log_ratio(square: Floats, width: float, log_weights: Floats) -> Floats:
    """log r at rows that are so far from the centers, (B, C) -> (B,)."""
    with np.errstate(divide="ignore"):  # no kernel at all: the logarithm of zero
        found: Floats = logsumexp(-0.5 * square / width**2 + log_weights, axis=1)
    return found


def _weights(log_units: Floats) -> Floats:
    """beta, (C,), of the largest mean log sum_j beta_j unit_j - sum_j beta_j, from log units (N, C).

    By a primal-dual interior-point method: the slack s_j = 1 - d/d beta_j stays positive, and s_j beta_j goes to zero.
    """
    largest = log_units.max(axis=1, keepdims=True)
    # Rows are scaled to a largest entry of one: a constant in the score, and no row is lost to underflow.
    units = np.exp(log_units - largest)
    count = units.shape[1]
    beta, slack = np.full(count, 1.0 / count), np.ones(count)
    for _ in range(ITERATIONS):
        share = units / (units @ beta)[:, None]
        missed = 1.0 - share.mean(axis=0)
        if slack @ beta < TOLERANCE and np.max(np.abs(missed - slack)) < TOLERANCE:
            break
        target = CENTRING * (slack @ beta) / count / beta
        curvature = share.T @ share / len(units) + np.diag(slack / beta)
        step = np.linalg.solve(curvature, target - missed)
        slack_step = target - slack - slack / beta * step
        length = min(_longest(beta, step), _longest(slack, slack_step))
        beta, slack = beta + length * step, slack + length * slack_step
    weights: Floats = beta / beta.sum()
    return weights


def _longest(values: Floats, step: Floats) -> float:
    """How much of a step leaves all values positive, the whole of it at most."""
    falling = step < 0
    return float(min(1.0, 0.99 * np.min(-values[falling] / step[falling], initial=np.inf)))


def _held_out(above: Floats, below: Floats, width: float, fold: Sequence[NDArray[np.intp]]) -> float:
    """The mean over folds of E_l[log r] - E_g[r] + 1 on rows of both samples that were left out."""
    count = min(int(part.max()) for part in fold) + 1
    total = 0.0
    for number in range(count):
        out = [part % count == number for part in fold]
        log_weights = _log_weights(above[~out[0]], below[~out[1]], width)
        on_numerator, on_denominator = (
            _log_ratio(square[left], width, log_weights) for square, left in zip((above, below), out, strict=True)
        )
        with np.errstate(over="ignore"):
            total += on_numerator.mean() - np.exp(on_denominator).mean() + 1.0
    return float(total / count)
