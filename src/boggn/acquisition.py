r"""What a point is worth, from the moments of its latent alone.

| here        | meaning                                                                                    |
|-------------|--------------------------------------------------------------------------------------------|
| `Moments`   | mean and variance of the latent at x, and its covariance with the latent at the incumbent    |
| `incumbent` | x*, the observed point with the smallest posterior mean: mean and variance of its latent      |
| `cut`       | T(tau), the warped gamma-threshold                                                           |
| R(z)        | Phi(z) / phi(z), Mills' ratio                                                                |

Expected improvement in the units of y is the integral over all thresholds t of P(g(x) <= t < g(x*)) (PAPER.md 2,
first line of eq:full_bayes_ei, the incumbent's outcome being uncertain too). With U = log(u + c) jointly Gaussian at
x* and x, of moments (M*, V*) and (M, V), and S^2 the variance of their difference, it is

    EI = E[(exp U* - exp U)+] = F phi(z) [R(z) - R(z - S)],   F = exp(M* + V*/2),
    z = (log F - (M + V/2) + S^2/2) / S,

a log-normal exchange. Without noise V* = 0 and it is the expected improvement on the best outcome. With noise it is
the improvement of what is behind the outcomes, never the noise's, and nothing where x is the incumbent itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

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


class _Switch(NamedTuple):
    """Where one form of the logarithm of EI hands over to the next: each is used where it is the most exact."""

    far_left: float
    far_right: float
    short: float


_DOUBLE, _SINGLE = _Switch(-30.0, 25.0, 1e-4), _Switch(-8.0, 8.0, 0.03)
"""In float64 the forms agree to 1e-6 of EI where they meet, in float32, where R(13) overflows, to 1e-2."""


def _switch(dtype: jnp.dtype) -> _Switch:
    return _DOUBLE if dtype == jnp.float64 else _SINGLE


def _log_mills_difference(z: Array, step: Array) -> Array:
    """log(R(z) - R(z - step)), step > 0, without cancellation."""
    far, _, shortest = _switch(z.dtype)
    # Far left R(z) = -1/z + 1/z^3 - 3/z^5 + ..., so the difference is taken of the series there; for short steps the
    # difference is step * R'(z - step / 2), with R'(x) = 1 + x R(x).
    low = jnp.minimum(z, far)
    product = low * (low - step)
    ratio = step**2 / product
    second = (3.0 + ratio) / product
    third = 3.0 * (5.0 + 5.0 * ratio + ratio**2) / product / product
    tail = jnp.log(step) - jnp.log(product) + jnp.log1p(third - second)
    near = jnp.maximum(z, far)
    middle = near - 0.5 * step
    short = jnp.log(step) + jnp.log(jnp.maximum(1.0 + middle * _mills(middle), jnp.finfo(z.dtype).tiny))
    safe = jnp.where(step < shortest, 1.0, step)
    long = jnp.log(_mills(near) - _mills(near - safe))
    return jnp.where(z < far, tail, jnp.where(step < shortest, short, long))


class Moments(NamedTuple):
    """Of the latent at each point: mean, variance, and covariance with the latent at the incumbent."""

    mean: Array
    variance: Array
    covariance: Array


class Incumbent(NamedTuple):
    """Mean and variance of the latent at the point that is to be improved on."""

    mean: Array
    variance: Array


def log_expected_improvement(point: Moments, incumbent: Incumbent, warp: Warp) -> Array:
    """log EI of the latent, in units of the utility u."""
    square = warp.spread**2
    floor = jnp.finfo(point.mean.dtype).eps * (point.variance + incumbent.variance)
    difference = jnp.maximum(point.variance + incumbent.variance - 2.0 * point.covariance, floor)
    step = warp.spread * jnp.sqrt(difference)
    level = warp.log_utility(incumbent.mean) + 0.5 * square * incumbent.variance
    forward = warp.log_utility(point.mean) + 0.5 * square * point.variance
    z = (level - forward + 0.5 * step**2) / step
    # Far right phi(z) R(z) is Phi(z) = 1 and the product form overflows: EI is F - exp(forward) Phi(z - S) there.
    far = _switch(z.dtype).far_right
    near = jnp.minimum(z, far)
    inner = level + norm.logpdf(near) + _log_mills_difference(near, step)
    kept = forward - level + norm.logcdf(jnp.maximum(z, far) - step)
    certain = level + jnp.log(-jnp.expm1(jnp.minimum(kept, -jnp.finfo(z.dtype).tiny)))
    return jnp.where(z > far, certain, inner)


def log_probability_of_improvement(mean: Array, variance: Array, cut: Array, head: Head) -> Array:
    r"""log E[pi(x)] at the gamma-threshold: up to a constant the log density ratio (PAPER.md 2)."""
    return log_probability(head.link, *head.logit(mean, variance, cut))


@partial(jax.tree_util.register_dataclass, data_fields=["head", "incumbent", "cut"], meta_fields=["kind"])
@dataclass(frozen=True)
class Acquisition:
    """One acquisition with all it needs to know besides the moments."""

    head: Head
    incumbent: Incumbent
    cut: Array
    kind: Kind

    def __call__(self, point: Moments) -> Array:
        """Value of each point; larger is better."""
        if self.kind in {"ucb", "thompson"}:
            # For Thompson sampling the latent is one draw, which hopes for itself.
            hope = UCB_WIDTH * jnp.sqrt(point.variance) if self.kind == "ucb" else 0.0
            return point.mean + hope if self.head.warp is None else hope - point.mean
        if self.kind == "pi" or self.head.warp is None:
            return log_probability_of_improvement(point.mean, point.variance, self.cut, self.head)
        return log_expected_improvement(point, self.incumbent, self.head.warp)
