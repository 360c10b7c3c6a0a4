r"""The Kronecker-factored Laplace-GGN posterior (PAPER.md 4): layer by layer, each block of H a product and the prior.

| here        | meaning                                                                          |
|-------------|----------------------------------------------------------------------------------|
| a_n, d_n    | `inputs` and `slopes` of a layer at observation n: its block of J_n is a_n (x) d_n   |
| p_n         | Lambda_n / sum Lambda                                                              |
| A, B        | sum_n p_n a_n a_n' and sum_n Lambda_n d_n d_n'                                       |
| `left`      | S^1/2 U, U the eigenvectors of S^1/2 A S^1/2; S the prior variances, one per input     |
| `right`     | the eigenvectors of B                                                              |
| `shrinkage` | 1 / (1 + alpha_i beta_j), from the eigenvalues of both                              |

A layer's block of J' Lambda J is sum_n Lambda_n (a_n a_n') (x) (d_n d_n'): sum Lambda times the mean, under p, of a
product. It is replaced by the product of the means, A (x) B. Nothing else is approximated: the inverse of
A (x) B + S^-1 (x) I is (left (x) right) diag(shrinkage) (left (x) right)', with the prior added to every product of
eigenvalues. Because the means are taken under p, the output layer, where d_n = 1, is exact for any likelihood, and
rows that say nothing have no say.
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


@final
@partial(jax.tree_util.register_dataclass, data_fields=["fit", "left", "right", "shrinkage"], meta_fields=[])
@dataclass(frozen=True)
class KroneckerPosterior(Structure):
    """Sigma is block-diagonal, with one Kronecker-factored block per layer."""

    left: tuple[Array, ...]
    right: tuple[Array, ...]
    shrinkage: tuple[Array, ...]

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None) -> KroneckerPosterior:
        """As in `Structure.of`; the prior precision is the same for all the weights that leave one input."""
        mlp.check_rows(fit.spec, fit.design.shape[1], fit.prior_precision)
        found: KroneckerPosterior = _condition(fit, running)
        return found

    def variance(self, rows: Factors) -> Array:
        """The diagonal of J Sigma J'."""
        parts = zip(rows.inputs, rows.slopes, self.left, self.right, self.shrinkage, strict=True)
        return sum(
            (
                jnp.sum(((read @ left) ** 2 @ shrinkage) * (slope @ right) ** 2, axis=1)
                for read, slope, left, right, shrinkage in parts
            ),
            start=jnp.zeros_like(rows.latent),
        )

    def times(self, direction: Array) -> Array:
        """Sigma v."""
        blocks = mlp.blocks(self.fit.spec, direction, self.fit.design.shape[1])
        parts = zip(blocks, self.left, self.right, self.shrinkage, strict=True)
        return jnp.concatenate(
            [
                (left @ ((left.T @ block @ right) * shrinkage) @ right.T).reshape(-1)
                for block, left, right, shrinkage in parts
            ]
        )

    def steps(self, key: Array, count: int) -> Array:
        """Draws of theta - theta_map."""
        parts = zip(jax.random.split(key, len(self.left)), self.left, self.right, self.shrinkage, strict=True)
        drawn = []
        for layer_key, left, right, shrinkage in parts:
            noise = jax.random.normal(layer_key, (count, *shrinkage.shape), shrinkage.dtype)
            drawn.append((left @ (noise * jnp.sqrt(shrinkage)) @ right.T).reshape(count, -1))
        return jnp.concatenate(drawn, axis=1)

    def log_contraction(self) -> Array:
        """The sum of log (1 + alpha_i beta_j) over all layers."""
        return -sum((jnp.sum(jnp.log(part)) for part in self.shrinkage), start=jnp.zeros((), self.left[0].dtype))


@jax.jit
def _condition(fit: MapFit, running: Array | None) -> KroneckerPosterior:
    width = fit.design.shape[1]
    rows = factors_of(fit, fit.design)
    curvature = curvature_of(fit, rows.latent, running)
    share = curvature / jnp.maximum(jnp.sum(curvature), jnp.finfo(curvature.dtype).tiny)
    left, right, shrinkage = [], [], []
    for read, slope, precision in zip(
        rows.inputs, rows.slopes, mlp.rows_of(fit.spec, width, fit.prior_precision), strict=True
    ):
        deviation = jax.lax.rsqrt(precision)
        scaled = read * deviation
        alpha, vectors = jnp.linalg.eigh(scaled.T @ (share[:, None] * scaled))
        beta, turned = jnp.linalg.eigh(slope.T @ (curvature[:, None] * slope))
        left.append(deviation[:, None] * vectors)
        right.append(turned)
        # Rounding leaves eigenvalues of zero a little below it.
        shrinkage.append(1.0 / (1.0 + jnp.outer(jnp.maximum(alpha, 0.0), jnp.maximum(beta, 0.0))))
    return KroneckerPosterior(fit, tuple(left), tuple(right), tuple(shrinkage))
