r"""Class probability at one threshold, at several and at all, as a function of the network's output.

Notation (PAPER.md 3-5; ENGINE.md "The idea")

| here        | meaning                                                                 |
|-------------|-------------------------------------------------------------------------|
| `latent`    | the network's output at the N observations: f (one threshold), g (else)  |
| `weight`    | w_n; zero marks a padding row, which then changes nothing                |
| `logit`     | the argument of the link F, so that a class probability is F(logit)      |
| `curvature` | Lambda_n = -d^2 log p / d latent^2, never negative: both links are log-concave |

One threshold: P(z=1 | x) = F(f(x)); a large latent is good.
Else: P(y <= t | x) = F((T(t) - g(x)) / s); a small latent is good, as a small y is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.stats import norm

Link = Literal["logit", "probit"]

LOGISTIC_SD = math.pi / math.sqrt(3.0)
"""Standard deviation of the standard logistic distribution."""
OPEN = 1e4
"""Target that stands for an end at infinity: beyond any latent, and finite, so that no derivative is undefined."""
TAIL = 80.0
"""Where z^2 exceeds its least value in an interval by so much, the normal density is exp(-40) of its largest there."""
NODES, NODE_WEIGHTS = (0.5 * part for part in np.polynomial.legendre.leggauss(40))
"""Gauss and Legendre on [-1/2, 1/2]: the normal density between its tails to 1e-13."""


def link_sd(link: Link) -> float:
    """Standard deviation of the distribution whose cumulative function is the link."""
    return LOGISTIC_SD if link == "logit" else 1.0


def link_cdf(link: Link, logit: Array) -> Array:
    """F(logit)."""
    return jax.nn.sigmoid(logit) if link == "logit" else norm.cdf(logit)


def link_log_cdf(link: Link, logit: Array) -> Array:
    """log F(logit), exact far in the tails."""
    return jax.nn.log_sigmoid(logit) if link == "logit" else norm.logcdf(logit)


def _hazard(logit: Array) -> Array:
    """F'(logit) / F(logit) of the normal link, by logarithms so that it survives the tail."""
    return jnp.exp(norm.logpdf(logit) - norm.logcdf(logit))


@partial(jax.tree_util.register_dataclass, data_fields=["z", "weight"], meta_fields=["link"])
@dataclass(frozen=True)
class OneThreshold:
    r"""Weighted Bernoulli likelihood of the labels z_n = 1[y_n <= tau] (PAPER.md 1-3)."""

    z: Array
    weight: Array
    link: Link = "logit"

    @property
    def quadratic(self) -> bool:
        """Whether the log-likelihood is a parabola, so that one Newton step is exact."""
        return False

    def _signed(self, latent: Array) -> tuple[Array, Array]:
        sign = 2.0 * self.z - 1.0
        return sign, sign * latent

    def log_prob(self, latent: Array) -> Array:
        r"""w_n log F(+-f_n)."""
        return self.weight * link_log_cdf(self.link, self._signed(latent)[1])

    def gradient(self, latent: Array) -> Array:
        """Derivative of `log_prob` with respect to the latent."""
        sign, signed = self._signed(latent)
        slope = jax.nn.sigmoid(-signed) if self.link == "logit" else _hazard(signed)
        return self.weight * sign * slope

    def curvature(self, latent: Array) -> Array:
        r"""Lambda_n: w pi (1 - pi) for the logit link."""
        signed = self._signed(latent)[1]
        if self.link == "logit":
            return self.weight * jax.nn.sigmoid(signed) * jax.nn.sigmoid(-signed)
        hazard = _hazard(signed)
        return self.weight * hazard * (hazard + signed)

    def start(self) -> Array:
        """A latent from which Newton's method converges."""
        return jnp.zeros_like(self.weight)


@partial(jax.tree_util.register_dataclass, data_fields=["target", "scale", "weight"], meta_fields=["link"])
@dataclass(frozen=True)
class AllThresholds:
    r"""Proportional-odds likelihood with every observed value its own threshold (ENGINE.md).

    The density of y_n that P(y <= t | x) = F((T(t) - g) / s) implies is F'((T_n - g_n) / s) / s, up to the
    Jacobian of T, which does not depend on the latent and is added by the warp.
    """

    target: Array
    scale: Array
    weight: Array
    link: Link = "probit"

    @property
    def quadratic(self) -> bool:
        """Whether the log-likelihood is a parabola, so that one Newton step is exact."""
        return self.link == "probit"

    def _residual(self, latent: Array) -> Array:
        return (self.target - latent) / self.scale

    def log_prob(self, latent: Array) -> Array:
        """w_n log (F'(r_n) / s)."""
        residual = self._residual(latent)
        if self.link == "logit":
            log_density = jax.nn.log_sigmoid(residual) + jax.nn.log_sigmoid(-residual)
        else:
            log_density = norm.logpdf(residual)
        return self.weight * (log_density - jnp.log(self.scale))

    def gradient(self, latent: Array) -> Array:
        """Derivative of `log_prob` with respect to the latent."""
        residual = self._residual(latent)
        slope = jnp.tanh(0.5 * residual) if self.link == "logit" else residual
        return self.weight * slope / self.scale

    def curvature(self, latent: Array) -> Array:
        r"""Lambda_n: 2 F(r) (1 - F(r)) / s^2 for the logit link, 1 / s^2 for the normal one."""
        residual = self._residual(latent)
        if self.link == "logit":
            bend = 2.0 * jax.nn.sigmoid(residual) * jax.nn.sigmoid(-residual)
        else:
            bend = jnp.ones_like(residual)
        return self.weight * bend / self.scale**2

    def start(self) -> Array:
        """A latent from which Newton's method converges: the targets themselves."""
        return self.target * (self.weight > 0)


class _Truncated(NamedTuple):
    """The standard normal distribution between two ends: log of its mass, its mean and its variance."""

    log_mass: Array
    mean: Array
    variance: Array


def _truncated(low: Array, high: Array, width: Array) -> _Truncated:
    """By quadrature over t = z - p, p the point nearest to zero, with density exp(-p t - t^2 / 2).

    Neither far tails nor narrow intervals cancel, as differences of cumulative functions do. `width` is high - low,
    given because the difference of two large numbers would round.
    """
    nearest = jnp.clip(0.0, low, high)
    reach = TAIL / (jnp.sqrt(nearest**2 + TAIL) + jnp.abs(nearest))
    left, right = jnp.minimum(nearest - low, reach), jnp.minimum(high - nearest, reach)
    span = jnp.where((left < reach) & (right < reach), width, left + right)
    t = (0.5 * (right - left))[..., None] + span[..., None] * jnp.asarray(NODES, low.dtype)
    density = jnp.exp(-t * (nearest[..., None] + 0.5 * t)) * jnp.asarray(NODE_WEIGHTS, low.dtype)
    mass = jnp.sum(density, axis=-1)
    shift = jnp.sum(density * t, axis=-1) / mass
    variance = jnp.sum(density * (t - shift[..., None]) ** 2, axis=-1) / mass
    return _Truncated(norm.logpdf(nearest) + jnp.log(span * mass), nearest + shift, variance)


@partial(jax.tree_util.register_dataclass, data_fields=["lower", "upper", "scale", "weight"], meta_fields=["link"])
@dataclass(frozen=True)
class SeveralThresholds:
    r"""Outcomes of which it is only known between which two of K thresholds they fall: lower < T(y_n) <= upper.

    P(lower < T(y) <= upper | x) = F(b) - F(a) with a = (lower - g) / s and b = (upper - g) / s (cumulative link,
    interval-censored). An end at +-`OPEN` is none. With ever more thresholds it is the density of `AllThresholds`,
    times the width of the interval.
    """

    lower: Array
    upper: Array
    scale: Array
    weight: Array
    link: Link = "probit"

    @property
    def quadratic(self) -> bool:
        """Whether the log-likelihood is a parabola, so that one Newton step is exact."""
        return False

    def _ends(self, latent: Array) -> tuple[Array, Array, Array]:
        # Two thresholds that the warp rounds to one still have a density between them.
        width = jnp.maximum(self.upper - self.lower, jnp.finfo(latent.dtype).eps)
        return (self.lower - latent) / self.scale, (self.upper - latent) / self.scale, width / self.scale

    def log_prob(self, latent: Array) -> Array:
        """w_n log(F(b_n) - F(a_n)); for the logistic link F(b) - F(a) = F(b) F(-a) (1 - exp(a - b))."""
        low, high, width = self._ends(latent)
        if self.link == "logit":
            log_mass = jax.nn.log_sigmoid(high) + jax.nn.log_sigmoid(-low) + jnp.log(-jnp.expm1(-width))
        else:
            log_mass = _truncated(low, high, width).log_mass
        return self.weight * log_mass

    def gradient(self, latent: Array) -> Array:
        """Derivative of `log_prob` with respect to the latent: for the normal link the mean between the ends, / s."""
        low, high, width = self._ends(latent)
        if self.link == "logit":
            slope = 0.5 * (jnp.tanh(0.5 * low) + jnp.tanh(0.5 * high))
        else:
            slope = _truncated(low, high, width).mean
        return self.weight * slope / self.scale

    def curvature(self, latent: Array) -> Array:
        r"""Lambda_n: (F'(a) + F'(b)) / s^2 for the logit link, (1 - variance between the ends) / s^2 for the normal."""
        low, high, width = self._ends(latent)
        if self.link == "logit":
            bend = sum(jax.nn.sigmoid(end) * jax.nn.sigmoid(-end) for end in (low, high))
        else:
            bend = jnp.maximum(1.0 - _truncated(low, high, width).variance, 0.0)
        return self.weight * bend / self.scale**2

    def start(self) -> Array:
        """A latent from which Newton's method converges: the point of the interval nearest to zero."""
        return jnp.clip(0.0, self.lower, self.upper)


Likelihood = OneThreshold | SeveralThresholds | AllThresholds
