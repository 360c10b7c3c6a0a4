r"""The diagonal Laplace-GGN posterior (PAPER.md 4): Sigma_pp = 1 / H_pp.

(J * J) is factored as J is, with factors squared; so neither conditioning nor a query forms J.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
from jax import Array

from boggn.fit import MapFit
from boggn.network import mlp
from boggn.network.mlp import Factors
from boggn.posterior.structure import Structure, curvature_of, factors_of


@dataclass(frozen=True)
class Independent(Structure):
    """A posterior under which every parameter is independent of the others."""

    variances: Array

    def variance(self, rows: Factors) -> Array:
        """The diagonal of J Sigma J'."""
        return mlp.push(mlp.squared(rows), self.variances)

    def times(self, direction: Array) -> Array:
        """Sigma v."""
        return self.variances * direction

    def steps(self, key: Array, count: int) -> Array:
        """Draws of N(0, Sigma)."""
        noise = jax.random.normal(key, (count, self.variances.shape[0]), self.variances.dtype)
        return noise * jnp.sqrt(self.variances)

    def log_contraction(self) -> Array:
        """Minus the sum of the logarithms of posterior over prior variance."""
        return -jnp.sum(jnp.log(self.variances * self.fit.prior_precision))


@final
@partial(jax.tree_util.register_dataclass, data_fields=["fit", "variances"], meta_fields=[])
@dataclass(frozen=True)
class DiagonalPosterior(Independent):
    """Sigma_pp = 1 / H_pp."""

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None) -> DiagonalPosterior:
        """As in `Structure.of`, with any prior precision."""
        found: DiagonalPosterior = _condition(fit, running)
        return found


def precision_of(fit: MapFit, running: Array | None) -> Array:
    """The diagonal of H, (P,)."""
    rows = factors_of(fit, fit.design)
    return fit.prior_precision + mlp.pull(mlp.squared(rows), curvature_of(fit, rows.latent, running))


@jax.jit
def _condition(fit: MapFit, running: Array | None) -> DiagonalPosterior:
    return DiagonalPosterior(fit, 1.0 / precision_of(fit, running))
