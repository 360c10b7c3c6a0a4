r"""Least-squares fits of the ratio (Kanamori et al. 2009) and of the relative ratio (Yamada et al. 2013).

r_gamma(x) = sum_j theta_j k(x, c_j) minimises 1/2 E_m[r^2] - E_l[r] + lambda/2 |theta|^2, m = gamma l + (1 - gamma) g:

| here     | meaning                                              |
|----------|------------------------------------------------------|
| `gram`   | H = gamma Phi_l' Phi_l / N + (1 - gamma) Phi_g' Phi_g / M |
| `pull`   | h = the mean of Phi_l                                  |
| `theta`  | max(0, (H + lambda I)^-1 h)                            |
| `ridge`  | lambda                                                 |

Width and ridge are those of the best mean score over five folds, which is the criterion above without its penalty.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from boggn.ratio import kernels
from boggn.ratio.base import DensityRatio, check_real, pearson

Floats = NDArray[np.float64]
RIDGES = np.geomspace(1e-4, 10.0, 11)


class _Sides(NamedTuple):
    """The same thing of the numerator's sample and of the denominator's."""

    numerator: Floats
    denominator: Floats


class _LeastSquares(DensityRatio):
    def __init__(
        self,
        width: float | None = None,
        ridge: float | None = None,
        *,
        n_centers: int = 100,
        gamma: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.width = width
        self.ridge = ridge
        self.n_centers = n_centers
        self.gamma = gamma
        self.random_state = random_state

    @abstractmethod
    def _gamma_of_fit(self) -> float:
        """Of the relative ratio that is a sum of kernels."""

    def _fit(self, numerator: Floats, denominator: Floats) -> None:
        rng = np.random.default_rng(self.random_state)
        self.centers_ = kernels.choose_centers(numerator, self.n_centers, rng)
        self.fitted_gamma_ = self._gamma_of_fit()
        widths, ridges = kernels.widths(self.width, numerator.shape[1]), self._ridges()
        square = _Sides(*(kernels.square_distances(rows, self.centers_) for rows in (numerator, denominator)))
        best = (0, 0)
        if len(widths) * len(ridges) > 1:
            fold = [kernels.folds(len(rows), rng) for rows in square]
            scores = [_held_out(_features(square, width), ridges, self.fitted_gamma_, fold) for width in widths]
            best = np.unravel_index(int(np.argmax(scores)), (len(widths), len(ridges)))  # type: ignore[assignment]
        self.width_, self.ridge_ = float(widths[best[0]]), float(ridges[best[1]])
        self.theta_ = _solve(_features(square, self.width_), np.array([self.ridge_]), self.fitted_gamma_)[0]

    def _log_plain_ratio(self, rows: Floats) -> Floats:
        features = np.exp(-0.5 * kernels.square_distances(rows, self.centers_) / self.width_**2)
        share = np.minimum(self.fitted_gamma_ * (features @ self.theta_), 1.0)
        # l / g = (1 - gamma) r / (1 - gamma r), infinite where r has reached its bound.
        with np.errstate(divide="ignore"):
            plain: Floats = np.log(features @ self.theta_) + math.log1p(-self.fitted_gamma_) - np.log1p(-share)
        return plain

    def _ridges(self) -> Floats:
        if self.ridge is None:
            return RIDGES
        check_real("ridge", self.ridge, 0.0, math.inf, "None or a positive number")
        return np.array([float(self.ridge)])


@final
class ULSIF(_LeastSquares):
    """Unconstrained least-squares importance fitting: a sum of kernels for the plain ratio l / g.

    `width` (in standard deviations of a column) and `ridge` are cross-validated where they are None; `n_centers` is the
    number of kernels at most.
    """

    def _gamma_of_fit(self) -> float:
        return 0.0


@final
class RULSIF(_LeastSquares):
    """Relative unconstrained least-squares importance fitting: a sum of kernels for r_gamma itself, cut at 1 / gamma.

    The other parameters are as for `ULSIF`, which it is at gamma = 0.
    """

    def __init__(
        self,
        width: float | None = None,
        ridge: float | None = None,
        *,
        n_centers: int = 100,
        gamma: float = 0.1,
        random_state: int | None = None,
    ) -> None:
        super().__init__(width, ridge, n_centers=n_centers, gamma=gamma, random_state=random_state)

    def _gamma_of_fit(self) -> float:
        return self._checked_gamma()


def _features(square: _Sides, width: float) -> _Sides:
    return _Sides(*(np.exp(-0.5 * part / width**2) for part in square))


def _solve(features: _Sides, ridges: Floats, gamma: float) -> Floats:
    """Theta for every ridge, (R, C), by one eigendecomposition."""
    grams = [part.T @ part / len(part) for part in features]
    level, basis = np.linalg.eigh(gamma * grams[0] + (1.0 - gamma) * grams[1])
    pull = basis.T @ features.numerator.mean(axis=0)
    theta: Floats = (pull / (np.maximum(level, 0.0) + ridges[:, None])) @ basis.T
    return np.maximum(theta, 0.0)


def _held_out(features: _Sides, ridges: Floats, gamma: float, fold: Sequence[NDArray[np.intp]]) -> Floats:
    """The mean score of every ridge on rows that were left out, (R,)."""
    # A small sample has fewer folds than a large one: then some folds leave out rows of the large one alone.
    count = min(int(part.max()) for part in fold) + 1
    total = np.zeros(len(ridges))
    for number in range(count):
        out = [part % count == number for part in fold]
        theta = _solve(_Sides(*(part[~left] for part, left in zip(features, out, strict=True))), ridges, gamma)
        above, below = (theta @ part[left].T for part, left in zip(features, out, strict=True))
        total += [pearson(*ratios, gamma) for ratios in zip(above, below, strict=True)]
    return total / count
