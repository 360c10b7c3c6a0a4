r"""From a Gaussian latent to the class probability pi(x), at any threshold (PAPER.md 4).

| here          | meaning                                                                                  |
|---------------|------------------------------------------------------------------------------------------|
| `mean`, `variance` | moments m(x), v(x) of a logit                                                       |
| `Head`        | how a latent is read as a logit: as it is, or as (T(t) - g) / s at a threshold t            |
| class probability | E[F(logit)] by the probit formula, by quadrature or by Monte Carlo; they must agree  |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from boggn.likelihood import Link, link_cdf, link_log_cdf
from boggn.warp import Warp

QUADRATURE_NODES = 64


@partial(jax.tree_util.register_dataclass, data_fields=["warp", "scale"], meta_fields=["link"])
@dataclass(frozen=True)
class Head:
    r"""How a latent becomes a logit.

    Without a warp the latent is the logit of one threshold. With one, P(y <= t | x) = F((T(t) - g) / s).
    """

    warp: Warp | None
    scale: Array
    link: Link

    def logit(self, mean: Array, variance: Array, cut: Array) -> tuple[Array, Array]:
        """Moments of the logit at the threshold whose warped value is `cut`."""
        if self.warp is None:
            return mean, variance
        return (cut - mean) / self.scale, variance / self.scale**2


def _squashed(link: Link, mean: Array, variance: Array) -> Array:
    # pi / 8 is MacKay's constant for the logistic function; for the normal link the formula is exact.
    factor = math.pi / 8.0 if link == "logit" else 1.0
    return mean / jnp.sqrt(1.0 + factor * variance)


def probability(link: Link, mean: Array, variance: Array) -> Array:
    r"""E[F(f)] by the probit formula, F(m / sqrt(1 + c v))."""
    return link_cdf(link, _squashed(link, mean, variance))


def log_probability(link: Link, mean: Array, variance: Array) -> Array:
    """Logarithm of `probability`, exact far in the tail."""
    return link_log_cdf(link, _squashed(link, mean, variance))


def probability_by_quadrature(link: Link, mean: Array, variance: Array, nodes: int = QUADRATURE_NODES) -> Array:
    """E[F(f)] by Gauss-Hermite quadrature in one dimension."""
    node, weight = np.polynomial.hermite_e.hermegauss(nodes)
    logits = mean[..., None] + jnp.sqrt(variance)[..., None] * jnp.asarray(node, dtype=mean.dtype)
    return link_cdf(link, logits) @ jnp.asarray(weight / weight.sum(), dtype=mean.dtype)


def probability_by_sampling(link: Link, samples: Array) -> Array:
    r"""E[F(f)] by Monte Carlo over draws of the logit, (S, B) -> (B,) (eq:glm_predictive)."""
    return jnp.mean(link_cdf(link, samples), axis=0)
