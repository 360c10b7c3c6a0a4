r"""The finite network's Laplace-GGN posterior in function space (PAPER.md 4-6): the form for N < P.

| here         | meaning                                                                        |
|--------------|--------------------------------------------------------------------------------|
| `factors`    | the Jacobian J at the N observations, factored                                   |
| `curvature`  | Lambda at theta_map                                                              |
| `whitener`   | W with W' W = (K + Lambda^-1)^-1, so H^-1 = S_0 - S_0 J' W' W J S_0               |

Everything is taken at theta_map as it is, trained to the end or not, as in `full`: the two are the same posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from boggn.fit import MapFit
from boggn.laplace import Anchor, anchored_moments_from, moments_from, whiten
from boggn.network import mlp
from boggn.network.mlp import Factors

_FIELDS = ["fit", "factors", "curvature", "whitener"]


@partial(jax.tree_util.register_dataclass, data_fields=_FIELDS, meta_fields=[])
@dataclass(frozen=True)
class LinearisedPosterior:
    """Gaussian posterior of the linearised network; a query of B rows costs O(B N^2), whatever P is."""

    fit: MapFit
    factors: Factors
    curvature: Array
    whitener: Array

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None) -> LinearisedPosterior:
        """Condition the linearised network on what it was trained on.

        `running` holds a curvature at rows of the design whose outcome is not known yet: the mean stays, the
        variance near them goes.
        """
        mlp.check_rows(fit.spec, fit.design.shape[1], fit.prior_precision)
        found: LinearisedPosterior = _condition(fit, 0.0 if running is None else running)
        return found

    def moments(self, x: Array) -> tuple[Array, Array]:
        """Mean and variance of the latent at encoded rows (B, W)."""
        found: tuple[Array, Array] = _moments(self, x)
        return found

    def anchor(self, unit: Array) -> Anchor:
        """One of the rows conditioned on, picked by its unit vector."""
        kernel = mlp.kernel(self.factors, self.factors, _row_variance(self.fit))
        return Anchor(unit, self.whitener @ (kernel @ unit))

    def anchored_moments(self, x: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """Mean and variance at encoded rows, and the covariance with the latent at the anchor."""
        return anchored_moments_from(*_cross(self, x), self.whitener, anchor)

    def sample(self, key: Array, count: int, x: Array) -> Array:
        """Joint draws of the linearised network at encoded rows, (count, B); one key is one set of functions."""
        found: Array = _sample(self, key, count, x)
        return found

    def sample_parameters(self, key: Array, count: int) -> Array:
        """Draws of theta, (count, P)."""
        found: Array = _sample_parameters(self, key, count)
        return found

    def draw(self, key: Array) -> LinearisedDraw:
        """One draw of the linearised network as a function."""
        return LinearisedDraw(self.fit, self.sample_parameters(key, 1)[0] - self.fit.params)

    def log_evidence(self, *, off_mode: bool = False) -> Array:
        r"""Laplace's log evidence; `off_mode` adds 1/2 grad' H^-1 grad (PAPER.md 5, last term)."""
        found: Array = _log_evidence(self, off_mode=off_mode)
        return found


@partial(jax.tree_util.register_dataclass, data_fields=["fit", "step"], meta_fields=[])
@dataclass(frozen=True)
class LinearisedDraw:
    """f(x; theta_map) + J(x) step for one draw of the parameters: a posterior without variance."""

    fit: MapFit
    step: Array

    def anchored_moments(self, x: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """The draw at encoded rows, without variance or covariance."""
        del anchor
        rows = _factors(self.fit, x)
        still = jnp.zeros_like(rows.latent)
        return rows.latent + mlp.push(rows, self.step), still, still


def _factors(fit: MapFit, x: Array) -> Factors:
    return mlp.factors(fit.spec, mlp.unravel(fit.spec, fit.params, fit.design.shape[1]), x)


def _row_variance(fit: MapFit) -> list[Array]:
    return [1.0 / row for row in mlp.rows_of(fit.spec, fit.design.shape[1], fit.prior_precision)]


@jax.jit
def _condition(fit: MapFit, running: Array | float) -> LinearisedPosterior:
    rows = _factors(fit, fit.design)
    curvature = fit.likelihood.curvature(rows.latent) + running
    return LinearisedPosterior(fit, rows, curvature, whiten(mlp.kernel(rows, rows, _row_variance(fit)), curvature))


def _cross(posterior: LinearisedPosterior, x: Array) -> tuple[Array, Array, Array, Array]:
    """K_*, diag K_**, m_0 and the dual vector that the moments are made from."""
    variance = _row_variance(posterior.fit)
    rows = _factors(posterior.fit, x)
    cross = mlp.kernel(rows, posterior.factors, variance)
    # The mean at theta_map is the network's own output: the dual vector adds nothing to it.
    return cross, mlp.kernel_diagonal(rows, variance), rows.latent, jnp.zeros_like(posterior.curvature)


@jax.jit
def _moments(posterior: LinearisedPosterior, x: Array) -> tuple[Array, Array]:
    return moments_from(*_cross(posterior, x), posterior.whitener)


@partial(jax.jit, static_argnames=("count",))
def _sample_parameters(posterior: LinearisedPosterior, key: Array, count: int) -> Array:
    r"""Matheron's rule: theta_0 - S_0 J' (K + Lambda^-1)^-1 (J theta_0 + e), theta_0 ~ N(0, S_0), e ~ N(0, Lambda^-1).

    It needs neither a P x P factor nor one of the covariance at the rows asked for.
    """
    fit, curvature = posterior.fit, posterior.curvature
    prior_key, noise_key = jax.random.split(key)
    dtype = fit.params.dtype
    draws = jax.random.normal(prior_key, (count, fit.params.shape[0]), dtype) / jnp.sqrt(fit.prior_precision)
    # A row without curvature says nothing: its column of the whitener is zero, so its noise may be anything finite.
    deviation = jnp.where(curvature > 0, jax.lax.rsqrt(jnp.where(curvature > 0, curvature, 1.0)), 0.0)
    noise = jax.random.normal(noise_key, (count, curvature.shape[0]), dtype) * deviation

    def condition(draw: Array, error: Array) -> Array:
        surprise = posterior.whitener @ (mlp.push(posterior.factors, draw) + error)
        return fit.params + draw - mlp.pull(posterior.factors, posterior.whitener.T @ surprise) / fit.prior_precision

    return jax.vmap(condition)(draws, noise)


@partial(jax.jit, static_argnames=("count",))
def _sample(posterior: LinearisedPosterior, key: Array, count: int, x: Array) -> Array:
    rows = _factors(posterior.fit, x)
    steps = _sample_parameters(posterior, key, count) - posterior.fit.params
    return rows.latent + jax.vmap(partial(mlp.push, rows))(steps)


@partial(jax.jit, static_argnames=("off_mode",))
def _log_evidence(posterior: LinearisedPosterior, *, off_mode: bool) -> Array:
    fit, curvature = posterior.fit, posterior.curvature
    latent = posterior.factors.latent
    # diag(W) = Lambda^1/2 / diag(L) with L L' = I + Lambda^1/2 K Lambda^1/2; rows without curvature have L = 1.
    ratio = jnp.where(curvature > 0, jnp.sqrt(curvature) / jnp.diag(posterior.whitener), 1.0)
    prior = 0.5 * fit.prior_precision @ fit.params**2
    value = jnp.sum(fit.likelihood.log_prob(latent)) - prior - jnp.sum(jnp.log(ratio))
    if not off_mode:
        return value
    slope = mlp.pull(posterior.factors, fit.likelihood.gradient(latent)) - fit.prior_precision * fit.params
    step = slope / fit.prior_precision
    return value + 0.5 * (slope @ step - jnp.sum((posterior.whitener @ mlp.push(posterior.factors, step)) ** 2))
