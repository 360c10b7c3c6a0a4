r"""What all estimators of a density ratio share: the rows they take, the relative ratio, the score (PAPER.md 2).

| here        | meaning                                                                              |
|-------------|--------------------------------------------------------------------------------------|
| numerator   | a sample of l, (N, D)                                                                  |
| denominator | a sample of g, (M, D)                                                                  |
| `gamma`     | r_gamma = l / (gamma l + (1 - gamma) g), never above 1 / gamma; zero: the plain l / g  |

An estimator knows log l(x) / g(x), and every relative ratio follows from it:
log r_gamma = -log(gamma + (1 - gamma) g / l).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from boggn.errors import BoggnError, ConfigurationError, DataError, MissingPackageError

try:
    from sklearn import exceptions
    from sklearn.base import BaseEstimator
except ImportError as error:
    raise MissingPackageError.of("scikit-learn", "Density ratios", "boggn[classifiers]") from error

Floats = NDArray[np.float64]
LEAST_ROWS = 2
"""Of each sample: of one row there is nothing left to choose a width by."""


class NotFittedError(BoggnError, exceptions.NotFittedError):  # type: ignore[misc]
    """An estimator was asked before it was fitted."""


class DensityRatio(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator of a density ratio.

    Columns are standardised, both samples counting for half: a change of units changes nothing. `gamma` is read when
    the ratio is asked for: `set_params(gamma=...)` needs no second fit, though `RULSIF` also fits with it.
    """

    gamma: float

    def fit(self, x_numerator: ArrayLike, x_denominator: ArrayLike) -> Self:
        """Learn l / g from a sample of l, (N, D), and one of g, (M, D); one column may be given flat."""
        self._checked_gamma()
        numerator, denominator = rows_of("x_numerator", x_numerator), rows_of("x_denominator", x_denominator)
        if numerator.shape[1] != denominator.shape[1]:
            raise DataError(
                f"Both samples must have the same columns, but x_numerator has {numerator.shape[1]} and x_denominator "
                f"has {denominator.shape[1]}."
            )
        for name, rows in {"x_numerator": numerator, "x_denominator": denominator}.items():
            if len(rows) < LEAST_ROWS:
                raise DataError(f"`{name}` must have {LEAST_ROWS} rows or more, but has {len(rows)}.")
        self.center_ = 0.5 * (numerator.mean(axis=0) + denominator.mean(axis=0))
        squares = [((rows - self.center_) ** 2).mean(axis=0) for rows in (numerator, denominator)]
        self.spread_ = np.sqrt(0.5 * (squares[0] + squares[1]))
        self.spread_[self.spread_ == 0] = 1.0
        self._fit((numerator - self.center_) / self.spread_, (denominator - self.center_) / self.spread_)
        self.n_features_in_ = numerator.shape[1]
        return self

    def ratio(self, x: ArrayLike) -> Floats:
        """r_gamma at rows (B, D) -> (B,)."""
        return self._bounded(self.log_ratio(x))

    def log_ratio(self, x: ArrayLike) -> Floats:
        """log r_gamma at rows (B, D) -> (B,); minus infinity where the ratio is zero."""
        return log_relative(self._log_plain_ratio(self._standard(x)), self._checked_gamma())

    def score(self, x_numerator: ArrayLike, x_denominator: ArrayLike) -> float:
        """How good the ratio is on two further samples, by `pearson`; larger is better."""
        return pearson(self.ratio(x_numerator), self.ratio(x_denominator), self._checked_gamma())

    @abstractmethod
    def _fit(self, numerator: Floats, denominator: Floats) -> None:
        """Learn from standardised rows."""

    @abstractmethod
    def _log_plain_ratio(self, rows: Floats) -> Floats:
        """log l / g at standardised rows (B, D) -> (B,); it may be infinite."""

    def _standard(self, x: ArrayLike) -> Floats:
        name = type(self).__name__
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"This {name} is not fitted yet: call `fit(x_numerator, x_denominator)` first.")
        rows = rows_of("x", x)
        if rows.shape[1] != self.n_features_in_:
            raise DataError(
                f"`x` has {rows.shape[1]} columns, but this {name} was fitted to rows of {self.n_features_in_}."
            )
        standard: Floats = (rows - self.center_) / self.spread_
        return standard

    def _bounded(self, log_ratio: Floats) -> Floats:
        """The exponential, and no rounding error above the bound."""
        with np.errstate(over="ignore"):  # a plain ratio may be too large for a number
            found: Floats = np.exp(log_ratio)
        return np.minimum(found, 1.0 / self.gamma) if self.gamma > 0 else found

    def _checked_gamma(self) -> float:
        check_real("gamma", self.gamma, 0.0, 1.0, "a number in [0, 1)", closed=True)
        return float(self.gamma)


def log_relative(log_ratio: Floats, gamma: float) -> Floats:
    r"""log r_gamma of log l / g; infinities are meant: where l is zero, where g is."""
    with np.errstate(divide="ignore"):
        found: Floats = -np.logaddexp(np.log(gamma), np.log1p(-gamma) - log_ratio)
    return found


def pearson(on_numerator: Floats, on_denominator: Floats, gamma: float) -> float:
    r"""E_l[r] - 1/2 E_m[r^2] - 1/2, m = gamma l + (1 - gamma) g, of a relative ratio on a sample of l and one of g.

    The true ratio reaches the Pearson divergence of l from m; any other falls short of it by half its mean squared
    error under m. An infinite ratio has the score minus infinity.
    """
    if not (np.all(np.isfinite(on_numerator)) and np.all(np.isfinite(on_denominator))):
        return -np.inf
    square = gamma * np.mean(on_numerator**2) + (1.0 - gamma) * np.mean(on_denominator**2)
    return float(np.mean(on_numerator) - 0.5 * square - 0.5)


def rows_of(name: str, given: ArrayLike) -> Floats:
    """Finite numbers in a table (N, D); what is flat is one column."""
    try:
        rows = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"`{name}` must be a table of real numbers: {error}.") from error
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2:
        raise DataError(f"`{name}` must have rows and columns, but its shape is {rows.shape}.")
    if rows.size == 0:
        raise DataError(f"`{name}` is empty: its shape is {rows.shape}.")
    if not np.all(np.isfinite(rows)):
        row, column = np.argwhere(~np.isfinite(rows))[0]
        raise DataError(f"`{name}` must be finite, but row {row}, column {column} is {rows[row, column]}.")
    return rows


def check_real(field: str, value: Any, low: float, high: float, allowed: str, *, closed: bool = False) -> None:
    """Raise unless a setting is a number from `low` (taken in where `closed`) to below `high`."""
    real = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not real or not (low < value < high or (closed and value == low)):
        raise ConfigurationError.invalid(field, value, allowed)


def check_count(field: str, value: Any, least: int = 1, most: float = math.inf) -> None:
    """Raise unless a setting is a whole number in a range."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        allowed = f"{least} or more" if most == math.inf else f"from {least} to {most}"
        raise ConfigurationError.invalid(field, value, f"a whole number, {allowed}")
