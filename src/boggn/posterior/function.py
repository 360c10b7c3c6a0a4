r"""The wide network's posterior in function space (PAPER.md 6).

| here       | meaning                                                              |
|------------|----------------------------------------------------------------------|
| `prior`    | the network's prior scales: length-scales, amplitude                   |
| `dual`     | a = grad log p(y | g) at the mode; the mean is K_* a                   |
| `whitener` | W with W' W = (K + Lambda^-1)^-1; the variance is K_** - |W K_*'|^2     |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from boggn.laplace import Anchor, anchored_moments_from, find_mode, log_evidence_at, moments_from, whiten
from boggn.likelihood import Likelihood
from boggn.network.wide import WideFeatures, prior_covariance


@partial(jax.tree_util.register_dataclass, data_fields=["log_lengths", "log_amplitude", "column"], meta_fields=[])
@dataclass(frozen=True)
class WidePrior:
    """Prior scales of the wide network."""

    log_lengths: Array
    log_amplitude: Array
    column: Array

    def covariance(self, left: Array, right: Array) -> Array:
        """K between two sets of encoded rows."""
        return prior_covariance(left, right, self.log_lengths, self.log_amplitude, self.column)

    def variance(self, rows: Array) -> Array:
        """The diagonal of K."""
        return jnp.full(rows.shape[:1], jnp.exp(self.log_amplitude))


_FIELDS = ["prior", "rows", "latent", "dual", "curvature", "whitener", "evidence"]


@partial(jax.tree_util.register_dataclass, data_fields=_FIELDS, meta_fields=[])
@dataclass(frozen=True)
class FunctionPosterior:
    """Gaussian posterior of the latent, given the observations and any points still running."""

    prior: WidePrior
    rows: Array
    latent: Array
    dual: Array
    curvature: Array
    whitener: Array
    evidence: Array

    @staticmethod
    def of(prior: WidePrior, rows: Array, likelihood: Likelihood, running: Array) -> FunctionPosterior:
        r"""Condition on the observations; `running` holds a curvature at rows whose outcome is not known yet.

        Such a row is believed to come out at its posterior mean: the mean stays, the variance near it goes.
        """
        kernel = prior.covariance(rows, rows)
        mode = find_mode(kernel, jnp.zeros_like(likelihood.weight), likelihood)
        curvature = mode.curvature + running
        # Mostly nothing is running, and then the factor at the mode serves.
        whitener = lax.cond(jnp.any(running > 0), lambda: whiten(kernel, curvature), lambda: mode.whitener)
        evidence = log_evidence_at(kernel, likelihood, mode)
        return FunctionPosterior(prior, rows, mode.latent, mode.dual, curvature, whitener, evidence)

    def moments(self, rows: Array) -> tuple[Array, Array]:
        """Mean and variance of the latent at encoded rows (B, W)."""
        cross = self.prior.covariance(rows, self.rows)
        return moments_from(cross, self.prior.variance(rows), jnp.zeros((), cross.dtype), self.dual, self.whitener)

    def anchor(self, unit: Array) -> Anchor:
        """One of the rows conditioned on, picked by its unit vector."""
        return Anchor(unit, self.whitener @ (self.prior.covariance(self.rows, self.rows) @ unit))

    def anchored_moments(self, rows: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """Mean and variance at encoded rows, and the covariance with the latent at the anchor."""
        cross = self.prior.covariance(rows, self.rows)
        still = jnp.zeros((), cross.dtype)
        return anchored_moments_from(cross, self.prior.variance(rows), still, self.dual, self.whitener, anchor)

    def covariance(self, left: Array, right: Array) -> Array:
        """Posterior covariance of the latent between two sets of encoded rows."""
        seen_left = self.prior.covariance(left, self.rows) @ self.whitener.T
        seen_right = self.prior.covariance(right, self.rows) @ self.whitener.T
        return self.prior.covariance(left, right) - seen_left @ seen_right.T

    def sample(self, key: Array, count: int, rows: Array) -> Array:
        """Joint draws of the latent at encoded rows, (count, B)."""
        mean, _ = self.moments(rows)
        jitter = 10.0 * jnp.finfo(mean.dtype).eps * self.prior.variance(rows)
        chol = jnp.linalg.cholesky(self.covariance(rows, rows) + jnp.diag(jitter))
        noise = jax.random.normal(key, (count, rows.shape[0]), dtype=mean.dtype)
        draws: Array = mean + noise @ chol.T
        return draws

    def log_evidence(self) -> Array:
        """Laplace's log evidence of the observations."""
        return self.evidence

    def draw(self, features: WideFeatures, weight: Array, noise: Array) -> FunctionDraw:
        r"""One draw of the latent as a function, by Matheron's rule.

        A draw g_0 of the prior, from hidden units, moved onto the data: g(x) = g_0(x) + K_x (a - R (g_0(X) + e)),
        with R = (K + Lambda^-1)^-1 and e ~ N(0, Lambda^-1). `weight` and `noise` are standard normal.
        """
        prior = self.prior
        jacobian = features.jacobian(self.rows, prior.log_lengths, prior.log_amplitude, prior.column)
        known = self.curvature > 0
        error = jnp.where(known, noise / jnp.sqrt(jnp.where(known, self.curvature, 1.0)), 0.0)
        surprise = self.whitener.T @ (self.whitener @ (jacobian @ weight + error))
        return FunctionDraw(prior, self.rows, features, weight, self.dual - surprise)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["prior", "rows", "features", "weight", "dual"],
    meta_fields=[],
)
@dataclass(frozen=True)
class FunctionDraw:
    """One draw of the latent as a function of x: a posterior without variance."""

    prior: WidePrior
    rows: Array
    features: WideFeatures
    weight: Array
    dual: Array

    def anchored_moments(self, rows: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """The draw at encoded rows, without variance or covariance."""
        del anchor
        prior = self.prior
        jacobian = self.features.jacobian(rows, prior.log_lengths, prior.log_amplitude, prior.column)
        value = jacobian @ self.weight + prior.covariance(rows, self.rows) @ self.dual
        return value, jnp.zeros_like(value), jnp.zeros_like(value)
