r"""The finite network's Laplace-GGN posterior in function space (PAPER.md 4-6): the form for N < P.

| here         | meaning                                                                        |
|--------------|--------------------------------------------------------------------------------|
| `seen`       | the Jacobian J at the rows conditioned on, factored                              |
| `curvature`  | Lambda there, at theta_map                                                       |
| `whitener`   | W with W' W = (K + Lambda^-1)^-1, so H^-1 = S_0 - S_0 J' W' W J S_0               |

Everything is taken at theta_map as it is, trained to the end or not, as in `full`: the two are the same posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
from jax import Array

from boggn.fit import MapFit
from boggn.laplace import moments_from, whiten
from boggn.network import mlp
from boggn.network.mlp import Factors
from boggn.posterior.structure import Structure, curvature_of, factors_of

FIELDS = ["fit", "seen", "curvature", "whitener"]


@dataclass(frozen=True)
class FunctionSpace(Structure):
    """Sigma = H^-1 of some rows of the design; a query of B rows costs O(B N^2), whatever P is."""

    seen: Factors
    curvature: Array
    whitener: Array

    def variance(self, rows: Factors) -> Array:
        """The diagonal of K_** - K_* (K + Lambda^-1)^-1 K_*'."""
        variance = row_variance(self.fit)
        cross = mlp.kernel(rows, self.seen, variance)
        still = jnp.zeros_like(self.curvature)
        return moments_from(cross, mlp.kernel_diagonal(rows, variance), rows.latent, still, self.whitener)[1]

    def times(self, direction: Array) -> Array:
        """S_0 v - S_0 J' W' W J S_0 v."""
        step = direction / self.fit.prior_precision
        known = self.whitener.T @ (self.whitener @ mlp.push(self.seen, step))
        return step - mlp.pull(self.seen, known) / self.fit.prior_precision

    def steps(self, key: Array, count: int) -> Array:
        r"""Matheron's rule: theta_0 - S_0 J' (K + Lambda^-1)^-1 (J theta_0 + e), with e ~ N(0, Lambda^-1).

        theta_0 ~ N(0, S_0) is a draw of the prior. It needs neither a P x P factor nor one of the covariance at the
        rows asked for.
        """
        precision, curvature = self.fit.prior_precision, self.curvature
        prior_key, noise_key = jax.random.split(key)
        draws = jax.random.normal(prior_key, (count, precision.shape[0]), precision.dtype) / jnp.sqrt(precision)
        # A row without curvature says nothing: its column of the whitener is zero, so its noise may be anything finite.
        deviation = jnp.where(curvature > 0, jax.lax.rsqrt(jnp.where(curvature > 0, curvature, 1.0)), 0.0)
        noise = jax.random.normal(noise_key, (count, curvature.shape[0]), precision.dtype) * deviation

        def condition(draw: Array, error: Array) -> Array:
            surprise = self.whitener @ (mlp.push(self.seen, draw) + error)
            return draw - mlp.pull(self.seen, self.whitener.T @ surprise) / precision

        return jax.vmap(condition)(draws, noise)

    def log_contraction(self) -> Array:
        """log det (I + Lambda^1/2 K Lambda^1/2)."""
        # diag(W) = Lambda^1/2 / diag(L) with L L' that matrix; rows without curvature have L = 1.
        known = self.curvature > 0
        ratio = jnp.where(known, jnp.sqrt(self.curvature) / jnp.where(known, jnp.diag(self.whitener), 1.0), 1.0)
        return 2.0 * jnp.sum(jnp.log(ratio))


@final
@partial(jax.tree_util.register_dataclass, data_fields=FIELDS, meta_fields=[])
@dataclass(frozen=True)
class LinearisedPosterior(FunctionSpace):
    """The exact posterior: of all rows."""

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None) -> LinearisedPosterior:
        """As in `Structure.of`; the prior precision is the same for all the weights that leave one input."""
        mlp.check_rows(fit.spec, fit.design.shape[1], fit.prior_precision)
        found: LinearisedPosterior = _condition(fit, running)
        return found


def row_variance(fit: MapFit) -> list[Array]:
    """The prior variance of the weights that leave one input, layer by layer."""
    return [1.0 / row for row in mlp.rows_of(fit.spec, fit.design.shape[1], fit.prior_precision)]


@jax.jit
def _condition(fit: MapFit, running: Array | None) -> LinearisedPosterior:
    rows = factors_of(fit, fit.design)
    curvature = curvature_of(fit, rows.latent, running)
    return LinearisedPosterior(fit, rows, curvature, whiten(mlp.kernel(rows, rows, row_variance(fit)), curvature))
