r"""The finite network's Laplace-GGN posterior in weight space (PAPER.md 4, 5): the dense form for N > P.

| here        | meaning                                                        |
|-------------|----------------------------------------------------------------|
| `jacobian`  | J_n = d f(x_n) / d theta at theta_map                            |
| `precision` | H = J' Lambda J + S_0^-1                                         |
| `chol`      | L with L L' = H scaled by S_0: I + S_0^1/2 J' Lambda J S_0^1/2     |
| `deviation` | the square root of the diagonal of S_0                           |

The factor is that of the scaled H, whose eigenvalues are at least 1 whatever the prior precisions are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular

from boggn.fit import MapFit
from boggn.network import mlp


@partial(jax.tree_util.register_dataclass, data_fields=["fit", "chol", "deviation"], meta_fields=[])
@dataclass(frozen=True)
class FullPosterior:
    """q(theta) = N(theta_map, H^-1), and the linearised network under it."""

    fit: MapFit
    chol: Array
    deviation: Array

    @classmethod
    def of(cls, fit: MapFit) -> FullPosterior:
        """Factorise once; every query reuses the factor."""
        found: FullPosterior = _factorise(fit)
        return found

    def moments(self, x: Array) -> tuple[Array, Array]:
        """Mean f(x; theta_map) and variance J H^-1 J' of the latent at encoded rows (B, W)."""
        found: tuple[Array, Array] = _moments(self, x)
        return found

    def sample(self, key: Array, count: int, x: Array) -> Array:
        """Joint draws of the linearised network at encoded rows, (count, B); one key is one set of functions."""
        found: Array = _sample(self, key, count, x)
        return found

    def sample_parameters(self, key: Array, count: int) -> Array:
        """Draws of theta, (count, P)."""
        steps: Array = _steps(self, key, count)
        return self.fit.params + steps

    def log_evidence(self, *, off_mode: bool = False) -> Array:
        r"""Laplace's log evidence; `off_mode` adds 1/2 grad' H^-1 grad (PAPER.md 5, last term)."""
        found: Array = _log_evidence(self, off_mode=off_mode)
        return found


def _latent_and_jacobian(fit: MapFit, x: Array) -> tuple[Array, Array]:
    params = mlp.unravel(fit.spec, fit.params, fit.design.shape[1])
    return mlp.logit(fit.spec, params, x), mlp.jacobian(fit.spec, params, x)


@jax.jit
def _factorise(fit: MapFit) -> FullPosterior:
    latent, jacobian = _latent_and_jacobian(fit, fit.design)
    deviation = jax.lax.rsqrt(fit.prior_precision)
    root = jnp.sqrt(fit.likelihood.curvature(latent))[:, None] * jacobian * deviation
    scaled = jnp.eye(deviation.shape[0], dtype=root.dtype) + root.T @ root
    return FullPosterior(fit, jnp.linalg.cholesky(scaled), deviation)


@jax.jit
def _moments(posterior: FullPosterior, x: Array) -> tuple[Array, Array]:
    latent, jacobian = _latent_and_jacobian(posterior.fit, x)
    half = solve_triangular(posterior.chol, (jacobian * posterior.deviation).T, lower=True)
    return latent, jnp.sum(half**2, axis=0)


@partial(jax.jit, static_argnames=("count",))
def _steps(posterior: FullPosterior, key: Array, count: int) -> Array:
    """Draws of theta - theta_map."""
    noise = jax.random.normal(key, (posterior.deviation.shape[0], count), posterior.deviation.dtype)
    return (posterior.deviation[:, None] * solve_triangular(posterior.chol, noise, lower=True, trans="T")).T


@partial(jax.jit, static_argnames=("count",))
def _sample(posterior: FullPosterior, key: Array, count: int, x: Array) -> Array:
    latent, jacobian = _latent_and_jacobian(posterior.fit, x)
    steps: Array = _steps(posterior, key, count)
    return latent + steps @ jacobian.T


@partial(jax.jit, static_argnames=("off_mode",))
def _log_evidence(posterior: FullPosterior, *, off_mode: bool) -> Array:
    fit = posterior.fit
    latent, jacobian = _latent_and_jacobian(fit, fit.design)
    prior = 0.5 * fit.prior_precision @ fit.params**2
    # log p(theta_map) + (P/2) log 2 pi - 1/2 log det H: the determinant of the prior cancels in the scaled H.
    value = jnp.sum(fit.likelihood.log_prob(latent)) - prior - jnp.sum(jnp.log(jnp.diag(posterior.chol)))
    if not off_mode:
        return value
    slope = jacobian.T @ fit.likelihood.gradient(latent) - fit.prior_precision * fit.params
    return value + 0.5 * jnp.sum(solve_triangular(posterior.chol, posterior.deviation * slope, lower=True) ** 2)
