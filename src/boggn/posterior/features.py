r"""The wide network's posterior at finite width, in weight space (PAPER.md 4; ENGINE.md "Networks").

| here     | meaning                                                                   |
|----------|---------------------------------------------------------------------------|
| `mean`   | theta_map, one weight per hidden unit, prior N(0, I)                        |
| `spread` | S with S S' = H^-1, H = J' Lambda J + I                                     |
| J        | the features, which carry the prior's scales: J J' tends to the wide kernel |

The same model as the function-space posterior of the kernel J J', to rounding. A query costs O(M^2) whatever N is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import solve_triangular

from boggn.laplace import Anchor, find_mode, log_evidence_at
from boggn.likelihood import Likelihood
from boggn.network.wide import WideFeatures
from boggn.posterior.function import WidePrior

_FIELDS = ["prior", "features", "rows", "latent", "mean", "spread", "evidence"]


@partial(jax.tree_util.register_dataclass, data_fields=_FIELDS, meta_fields=[])
@dataclass(frozen=True)
class FeaturePosterior:
    """Gaussian posterior over the weights of the last layer, given the observations and any points still running."""

    prior: WidePrior
    features: WideFeatures
    rows: Array
    latent: Array
    mean: Array
    spread: Array
    evidence: Array

    @staticmethod
    def of(
        prior: WidePrior, features: WideFeatures, rows: Array, likelihood: Likelihood, running: Array
    ) -> FeaturePosterior:
        """Condition on the observations; `running` is as in `FunctionPosterior.of`."""
        jacobian = _jacobian(prior, features, rows)
        kernel = jacobian @ jacobian.T
        mode = find_mode(kernel, jnp.zeros_like(likelihood.weight), likelihood)
        root = jnp.sqrt(mode.curvature + running)[:, None] * jacobian
        chol = jnp.linalg.cholesky(jnp.eye(jacobian.shape[1], dtype=rows.dtype) + root.T @ root)
        spread = solve_triangular(chol, jnp.eye(len(chol), dtype=rows.dtype), lower=True).T
        evidence = log_evidence_at(kernel, likelihood, mode)
        return FeaturePosterior(prior, features, rows, mode.latent, jacobian.T @ mode.dual, spread, evidence)

    def jacobian(self, rows: Array) -> Array:
        """J at encoded rows, (B, M)."""
        return _jacobian(self.prior, self.features, rows)

    def moments(self, rows: Array) -> tuple[Array, Array]:
        """Mean and variance of the latent at encoded rows (B, W)."""
        jacobian = self.jacobian(rows)
        return jacobian @ self.mean, jnp.sum((jacobian @ self.spread) ** 2, axis=1)

    def anchor(self, unit: Array) -> Anchor:
        """One of the rows conditioned on, picked by its unit vector."""
        return Anchor(unit, (unit @ self.jacobian(self.rows)) @ self.spread)

    def anchored_moments(self, rows: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """Mean and variance at encoded rows, and the covariance with the latent at the anchor."""
        jacobian = self.jacobian(rows)
        seen = jacobian @ self.spread
        return jacobian @ self.mean, jnp.sum(seen**2, axis=1), seen @ anchor.seen

    def sample(self, key: Array, count: int, rows: Array) -> Array:
        """Joint draws of the latent at encoded rows, (count, B)."""
        noise = jax.random.normal(key, (count, self.mean.shape[0]), dtype=self.mean.dtype)
        draws: Array = (self.mean + noise @ self.spread.T) @ self.jacobian(rows).T
        return draws

    def draw(self, noise: Array) -> FeatureDraw:
        """One draw of the latent as a function; `noise` is standard normal, one number per hidden unit."""
        return FeatureDraw(self.prior, self.features, self.mean + self.spread @ noise)

    def log_evidence(self) -> Array:
        """Laplace's log evidence of the observations."""
        return self.evidence


@partial(jax.tree_util.register_dataclass, data_fields=["prior", "features", "weight"], meta_fields=[])
@dataclass(frozen=True)
class FeatureDraw:
    """A network with its weights drawn: a posterior without variance."""

    prior: WidePrior
    features: WideFeatures
    weight: Array

    def anchored_moments(self, rows: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """The draw at encoded rows, without variance or covariance."""
        del anchor
        value = _jacobian(self.prior, self.features, rows) @ self.weight
        return value, jnp.zeros_like(value), jnp.zeros_like(value)


def _jacobian(prior: WidePrior, features: WideFeatures, rows: Array) -> Array:
    return features.jacobian(rows, prior.log_lengths, prior.log_amplitude, prior.column)
