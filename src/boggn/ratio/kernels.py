r"""Gaussian kernels at rows of the numerator's sample, their widths, and the folds these are chosen by.

| here      | meaning                                                                      |
|-----------|------------------------------------------------------------------------------|
| `centers` | c_j, rows of the numerator's sample: that is where the ratio is large           |
| `width`   | sigma of exp(-|x - c_j|^2 / (2 sigma^2)), in standard deviations of a column    |
| `square`  | |x - c_j|^2, (B, C)                                                             |
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from boggn.ratio.base import check_count, check_real

Floats = NDArray[np.float64]
FOLDS = 5
WIDTHS = np.geomspace(0.05, 3.0, 13)
"""Tried by cross-validation, times the square root of the number of columns, as distances grow."""


def widths(given: float | None, columns: int) -> Floats:
    """The one given, or those to be tried."""
    if given is None:
        return WIDTHS * math.sqrt(columns)
    check_real("width", given, 0.0, math.inf, "None or a positive number")
    return np.array([float(given)])


def choose_centers(rows: Floats, count: int, rng: np.random.Generator) -> Floats:
    """So many rows at random, or all of them, in their order."""
    check_count("n_centers", count)
    chosen = np.sort(rng.choice(len(rows), size=min(count, len(rows)), replace=False))
    found: Floats = rows[chosen]
    return found


def square_distances(rows: Floats, centers: Floats) -> Floats:
    """|x - c|^2 of all pairs, (B, C)."""
    found: Floats = cdist(rows, centers, "sqeuclidean")
    return found


def folds(count: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """For every row the fold that it is held out in; as many folds as there are rows, where these are few."""
    fold: NDArray[np.intp] = rng.permutation(count) % min(FOLDS, count)
    return fold
