r"""What a point is worth, from the moments of its latent alone.

| here        | meaning                                                                                    |
|-------------|--------------------------------------------------------------------------------------------|
| `incumbent` | T*, the latent that is to be improved on: the smallest posterior mean over the observations |
| `cut`       | T(tau), the warped gamma-threshold                                                           |
| z           | (T* - m) / sqrt v, in the units of log(u + c)                                                |
| R(z)        | Phi(z) / phi(z), Mills' ratio                                                                |

Expected improvement in the units of y is the integral over all thresholds below the incumbent of the probability
that the latent stays below them (PAPER.md 2, first line of eq:full_bayes_ei). The latent g is Gaussian and
u + c = exp(center + spread g), so the integral is that of a log-normal distribution and has the closed form

    EI = exp(L) phi(z) [R(z) - R(z - S)],   L = log(u* + c),  S = spread sqrt v.

It holds from no noise to much: the latent's own improvement is what counts, never the noise's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm

from boggn.predictive import Head, log_probability
from boggn.warp import Warp

Kind = Literal["ei", "pi", "ucb", "thompson"]

UCB_WIDTH = 2.0
"""Posterior standard deviations by which the upper confidence bound is hopeful."""


def _mills(z: Array) -> Array:
    return jnp.exp(norm.logcdf(z) - norm.logpdf(z))


def _log_mills_difference(z: Array, step: Array) -> Array:
    """log(R(z) - R(z - step)), step > 0, without cancellation."""
    # Far left R(z) = -1/z + 1/z^3 - ..., so the difference is taken of the series there; for short steps the
    # difference is step * R'(z - step / 2), with R'(x) = 1 + x R(x).
    far = -30.0
    low = jnp.minimum(z, far)
    product = low * (low - step)
    second = (3.0 * product + step**2) / product**2
    tail = jnp.log(step) - jnp.log(product) + jnp.log1p(-second)
    near = jnp.maximum(z, far)
    middle = near - 0.5 * step
    short = jnp.log(step) + jnp.log(jnp.maximum(1.0 + middle * _mills(middle), jnp.finfo(z.dtype).tiny))
    safe = jnp.where(step < 1e-3, 1.0, step)
    long = jnp.log(_mills(near) - _mills(near - safe))
    return jnp.where(z < far, tail, jnp.where(step < 1e-3, short, long))


def log_expected_improvement(mean: Array, variance: Array, incumbent: Array, warp: Warp) -> Array:
    """log EI of the latent, in units of the utility u."""
    deviation = jnp.sqrt(variance)
    z = (incumbent - mean) / deviation
    step, level = warp.spread * deviation, warp.log_utility(incumbent)
    # Far right phi(z) R(z) is Phi(z) = 1 and the product form overflows: there the expectation is that of a
    # certain improvement.
    far = 25.0
    inner = level + norm.logpdf(jnp.minimum(z, far)) + _log_mills_difference(jnp.minimum(z, far), step)
    certain = level + jnp.log(-jnp.expm1(jnp.minimum(-step * jnp.maximum(z, far) + 0.5 * step**2, -1e-300)))
    return jnp.where(z > far, certain, inner)


def log_probability_of_improvement(mean: Array, variance: Array, cut: Array, head: Head) -> Array:
    r"""log E[pi(x)] at the gamma-threshold: up to a constant the log density ratio (PAPER.md 2)."""
    return log_probability(head.link, *head.logit(mean, variance, cut))


@partial(jax.tree_util.register_dataclass, data_fields=["head", "incumbent", "cut"], meta_fields=["kind"])
@dataclass(frozen=True)
class Acquisition:
    """One acquisition with all it needs to know besides the moments."""

    head: Head
    incumbent: Array
    cut: Array
    kind: Kind

    def __call__(self, mean: Array, variance: Array) -> Array:
        """Value of each point; larger is better."""
        if self.kind == "ucb":
            hope = UCB_WIDTH * jnp.sqrt(variance)
            return mean + hope if self.head.warp is None else hope - mean
        if self.kind == "pi" or self.head.warp is None:
            return log_probability_of_improvement(mean, variance, self.cut, self.head)
        return log_expected_improvement(mean, variance, self.incumbent, self.head.warp)
