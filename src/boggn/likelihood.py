r"""Class probability at one threshold and at all of them, as a function of the network's output.

Notation (PAPER.md 3-5; ENGINE.md "The idea")

| here        | meaning                                                                 |
|-------------|-------------------------------------------------------------------------|
| `latent`    | the network's output at the N observations: f (one threshold), g (all)   |
| `weight`    | w_n; zero marks a padding row, which then changes nothing                |
| `logit`     | the argument of the link F, so that a class probability is F(logit)      |
| `curvature` | Lambda_n = -d^2 log p / d latent^2, never negative: both links are log-concave |

One threshold: P(z=1 | x) = F(f(x)); a large latent is good.
All thresholds: P(y <= t | x) = F((T(t) - g(x)) / s); a small latent is good, as a small y is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.stats import norm

Link = Literal["logit", "probit"]

LOGISTIC_SD = math.pi / math.sqrt(3.0)
"""Standard deviation of the standard logistic distribution."""


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


Likelihood = OneThreshold | AllThresholds
