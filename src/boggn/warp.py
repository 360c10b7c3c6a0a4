r"""The increasing warp T of the outcomes, learned with the network (ENGINE.md "Default engine", 2).

| here     | meaning                                                                        |
|----------|--------------------------------------------------------------------------------|
| `utility`| u_n = (y_n - anchor) / span: zero at the best outcome, one at the median        |
| `offset` | c > 0: how far below the best outcome the logarithm has its pole                |
| target   | T_n = (log(u_n + c) - center) / spread, of mean zero and standard deviation one |

A small offset stretches the neighbourhood of the optimum; a large one makes T linear in y. Evidence chooses.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

CAP = 1e6
"""Outcomes further than this many spans above the best say no more than that they are bad."""


FIRST = 10
"""Outcomes, in the order of the history, whose median sets the span."""


class Scale(NamedTuple):
    """The affine map from outcomes to utilities."""

    anchor: float
    span: float

    def utility(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """u = (y - anchor) / span, capped."""
        with np.errstate(over="ignore"):
            return np.minimum((values - self.anchor) / self.span, CAP)

    def value(self, utility: NDArray[np.float64]) -> NDArray[np.float64]:
        """y = anchor + span u."""
        return self.anchor + self.span * utility


def scale_of(values: NDArray[np.float64]) -> Scale | None:
    """Anchor at the best outcome, one span to the median of the first few; None if all outcomes are equal.

    Later outcomes gather at the optimum, so that their median would shrink the span trial by trial.
    """
    best = float(np.min(values))
    above = values - best
    # A sum of outcomes near the largest float64 overflows; a power of two brings them below one without rounding.
    exponent = np.frexp(np.max(above))[1]
    shrunk = np.ldexp(above, -exponent)
    for average in (np.median(shrunk[:FIRST]), np.mean(shrunk)):
        span = float(np.ldexp(average, exponent))
        if span > np.finfo(np.float64).tiny:
            return Scale(best, span)
    return None


class Warp(NamedTuple):
    """T and its inverse, for one offset."""

    log_offset: Array
    center: Array
    spread: Array

    def log_utility(self, latent: Array) -> Array:
        """log(u + c) at a latent on the scale of the targets."""
        return self.center + self.spread * latent

    def target(self, utility: Array) -> Array:
        """T(u)."""
        return (jnp.log(utility + jnp.exp(self.log_offset)) - self.center) / self.spread


def fit_warp(utility: Array, weight: Array, log_offset: Array) -> tuple[Warp, Array, Array]:
    """Warp, targets and log-Jacobian; rows of weight zero have target zero and no say."""
    count = jnp.sum(weight)
    logs = jnp.where(weight > 0, jnp.log(utility + jnp.exp(log_offset)), 0.0)
    center = jnp.sum(weight * logs) / count
    spread = jnp.sqrt(jnp.sum(weight * (logs - center) ** 2) / count)
    warp = Warp(log_offset, center, spread)
    target = jnp.where(weight > 0, (logs - center) / spread, 0.0)
    log_jacobian = -jnp.sum(weight * logs) - count * jnp.log(spread)
    return warp, target, log_jacobian
