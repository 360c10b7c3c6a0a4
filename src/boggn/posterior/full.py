r"""The finite network's exact Laplace-GGN posterior in weight space (PAPER.md 4, 5): the dense form for N > P.

`dense` holds a P x P factor, so memory grows as P^2 and conditioning as P^3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
from jax import Array

from boggn.fit import MapFit
from boggn.network import mlp
from boggn.network.mlp import Factors
from boggn.posterior.structure import Dense, Structure, curvature_of, factors_of


@final
@partial(jax.tree_util.register_dataclass, data_fields=["fit", "dense"], meta_fields=[])
@dataclass(frozen=True)
class FullPosterior(Structure):
    """Sigma = H^-1."""

    dense: Dense

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None) -> FullPosterior:
        """As in `Structure.of`, with any prior precision."""
        found: FullPosterior = _condition(fit, running)
        return found

    def variance(self, rows: Factors) -> Array:
        """The diagonal of J H^-1 J'."""
        return self.dense.variance(mlp.expand(rows))

    def times(self, direction: Array) -> Array:
        """H^-1 v."""
        return self.dense.times(direction)

    def steps(self, key: Array, count: int) -> Array:
        """Draws of theta - theta_map."""
        return self.dense.steps(key, count)

    def log_contraction(self) -> Array:
        """log det (S_0 H)."""
        return self.dense.log_contraction()


@jax.jit
def _condition(fit: MapFit, running: Array | None) -> FullPosterior:
    rows = factors_of(fit, fit.design)
    curvature = curvature_of(fit, rows.latent, running)
    return FullPosterior(fit, Dense.of(mlp.expand(rows), curvature, fit.prior_precision))
