r"""The Kullback-Leibler importance estimation procedure (Sugiyama et al. 2008).

r(x) = sum_j a_j k(x, c_j), a >= 0, maximises E_l[log r] subject to E_g[r] = 1. Dropping the constraint and maximising
E_l[log r] - E_g[r] has the same solution, since the best multiple c r of any r has E_g[c r] = 1: so bounds suffice.
With b_j = E_g[k(., c_j)] and beta_j = a_j b_j, E_g[r] is the sum of beta: all variables are of one size.
"""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from boggn.errors import ConfigurationError
from boggn.ratio import kernels
from boggn.ratio.base import DensityRatio

Floats = NDArray[np.float64]
ITERATIONS = 2000
TRIAL_ITERATIONS = 100
"""While widths are compared, digits are not worth waiting for."""
REACH = np.log(1e-12)
"""A kernel whose mean over the denominator's sample is less reaches none of it, and would make the ratio infinite."""


@final
class KLIEP(DensityRatio):
    """A sum of kernels whose log-likelihood on the numerator's sample is largest, and whose mean under g is one.

    `width` (in standard deviations of a column) is chosen by five-fold cross-validated likelihood where it is None;
    `n_centers` is the number of kernels at most.
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
            fold = kernels.folds(len(numerator), rng)
            best = int(np.argmax([_held_out(_log_units(above, below, width), fold) for width in widths]))
        self.width_ = float(widths[best])
        log_mean = _log_mean(below, self.width_)
        if not np.any(log_mean > REACH):
            allowed = "wider: no kernel of the numerator's sample reaches the denominator's"
            raise ConfigurationError.invalid("width", self.width_, allowed)
        beta = _weights(_log_units(above, below, self.width_), ITERATIONS)
        with np.errstate(divide="ignore"):
            self.log_weights_ = np.where(log_mean > REACH, np.log(beta) - log_mean, -np.inf)

    def _log_plain_ratio(self, rows: Floats) -> Floats:
        square = kernels.square_distances(rows, self.centers_)
        return _log_sum(-0.5 * square / self.width_**2 + self.log_weights_)


def _log_sum(terms: Floats) -> Floats:
    with np.errstate(divide="ignore"):  # no kernel at all: the logarithm of zero
        found: Floats = logsumexp(terms, axis=1)
    return found


def _log_mean(below: Floats, width: float) -> Floats:
    """log b_j, (C,)."""
    found: Floats = logsumexp(-0.5 * below / width**2, axis=0) - np.log(len(below))
    return found


def _log_units(above: Floats, below: Floats, width: float) -> Floats:
    """log k(x_n, c_j) / b_j at the numerator's rows, (N, C): kernels of mean one under g."""
    log_mean = _log_mean(below, width)
    return np.where(log_mean > REACH, -0.5 * above / width**2 - log_mean, -np.inf)


def _weights(log_units: Floats, iterations: int) -> Floats:
    """beta, (C,), of the largest mean log sum_j beta_j unit_j - sum_j beta_j."""
    largest = log_units.max(axis=1, keepdims=True)
    # Rows are scaled to a largest entry of one: a constant in the score, and no row is lost to underflow.
    units = np.exp(log_units - np.where(np.isfinite(largest), largest, 0.0))

    def loss(beta: Floats) -> tuple[float, Floats]:
        value = np.maximum(units @ beta, np.finfo(float).tiny)
        slope = units.T @ (1.0 / value) / len(units)
        return float(beta.sum() - np.mean(np.log(value))), 1.0 - slope

    count = units.shape[1]
    result = minimize(
        loss,
        np.full(count, 1.0 / count),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * count,
        options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": 1e-12, "gtol": 1e-8},
    )
    beta: Floats = result.x / result.x.sum()
    return beta


def _held_out(log_units: Floats, fold: NDArray[np.intp]) -> float:
    """The mean log ratio of rows that were left out."""
    if not np.all(np.isfinite(log_units).any(axis=1)):
        return -np.inf
    total = 0.0
    for number in range(int(fold.max()) + 1):
        beta = _weights(log_units[fold != number], TRIAL_ITERATIONS)
        with np.errstate(divide="ignore"):
            total += _log_sum(log_units[fold == number] + np.log(beta)).sum()
    return float(total / len(log_units))
