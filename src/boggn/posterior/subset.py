r"""The function-space posterior of a subset of the observations, chosen one after another for what they tell.

The next row is that with the largest Lambda_n v_n, v_n being the variance of the latent there given the rows chosen
so far: it tells 1/2 log(1 + Lambda_n v_n) more than they do. The mean is still the network trained on all rows, and so
is the fit in the evidence; its determinant is that of the subset, so that the evidence errs upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
from jax import Array, lax

from boggn.fit import MapFit
from boggn.laplace import whiten
from boggn.network import mlp
from boggn.network.mlp import Factors
from boggn.posterior.linearised import FIELDS, FunctionSpace, row_variance
from boggn.posterior.structure import curvature_of, factors_of

SUBSET_SIZE = 64
"""Rows conditioned on, or all where there are fewer."""


@final
@partial(jax.tree_util.register_dataclass, data_fields=FIELDS, meta_fields=[])
@dataclass(frozen=True)
class SubsetPosterior(FunctionSpace):
    """Sigma = H^-1 of the rows that tell most."""

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None, *, size: int = SUBSET_SIZE) -> SubsetPosterior:
        """As in `Structure.of`; the prior precision is the same for all the weights that leave one input."""
        mlp.check_rows(fit.spec, fit.design.shape[1], fit.prior_precision)
        found: SubsetPosterior = _condition(fit, running, size=min(size, fit.design.shape[0]))
        return found


def choose(rows: Factors, variance: list[Array], curvature: Array, size: int) -> Array:
    """Indices of `size` different rows, those that tell most first."""

    def step(state: tuple[Array, Array, Array], number: Array) -> tuple[tuple[Array, Array, Array], Array]:
        left, known, open_ = state
        best = jnp.argmax(jnp.where(open_, curvature * left, -1.0))
        one = jax.tree.map(lambda leaf: leaf[best][None], rows)
        column = mlp.kernel(rows, one, variance)[:, 0] - known @ known[best]
        column = column * jnp.sqrt(curvature[best] / (1.0 + curvature[best] * left[best]))
        left = jnp.maximum(left - column**2, 0.0)
        return (left, known.at[:, number].set(column), open_.at[best].set(False)), best

    count = curvature.shape[0]
    start = mlp.kernel_diagonal(rows, variance), jnp.zeros((count, size), curvature.dtype), jnp.ones(count, bool)
    _, chosen = lax.scan(step, start, jnp.arange(size))
    return chosen


@partial(jax.jit, static_argnames=("size",))
def _condition(fit: MapFit, running: Array | None, *, size: int) -> SubsetPosterior:
    rows, variance = factors_of(fit, fit.design), row_variance(fit)
    curvature = curvature_of(fit, rows.latent, running)
    chosen = choose(rows, variance, curvature, size)
    seen: Factors = jax.tree.map(lambda leaf: leaf[chosen], rows)
    known = curvature[chosen]
    return SubsetPosterior(fit, seen, known, whiten(mlp.kernel(seen, seen, variance), known))
