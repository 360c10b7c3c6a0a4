r"""The wide cosine network: in the limit of infinite width a Gaussian process, in closed form (ENGINE.md "Networks").

One hidden layer, g(x) = sqrt(2 a / M) sum_m theta_m cos(omega_m' x + b_m), theta_m ~ N(0, 1), b_m uniform, and
omega_m multivariate Student-t with 5 degrees of freedom, each coordinate scaled by 1 / l_j. As M grows,
J S_0 J' tends to the Matern-5/2 kernel with one length-scale per original parameter.

| here             | meaning                                                                |
|------------------|------------------------------------------------------------------------|
| `log_lengths`    | log l_j, one per original parameter                                     |
| `log_amplitude`  | log a, the prior variance of the output                                 |
| `column`         | for each encoded column, the parameter whose length-scale it uses       |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

DEGREES_OF_FREEDOM = 5
"""A Student-t with 2 nu degrees of freedom is the spectrum of the Matern kernel of smoothness nu = 5/2."""


@jax.custom_jvp
def matern52(squared: Array) -> Array:
    """k(r) = (1 + q + q^2/3) exp(-q), q = sqrt(5) r, of the squared distance r^2; smooth at zero."""
    q = jnp.sqrt(5.0 * squared)
    return (1.0 + q + q * q / 3.0) * jnp.exp(-q)


@matern52.defjvp
def _matern52_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (squared,), (tangent,) = primals, tangents
    q = jnp.sqrt(5.0 * squared)
    decay = jnp.exp(-q)
    return (1.0 + q + q * q / 3.0) * decay, -5.0 / 6.0 * (1.0 + q) * decay * tangent


def squared_distance(left: Array, right: Array) -> Array:
    """||x - x'||^2 for all pairs, by one matrix product."""
    cross = jnp.sum(left**2, axis=1)[:, None] + jnp.sum(right**2, axis=1)[None, :] - 2.0 * left @ right.T
    return jnp.maximum(cross, 0.0)


def prior_covariance(left: Array, right: Array, log_lengths: Array, log_amplitude: Array, column: Array) -> Array:
    """K = J S_0 J' of the infinitely wide network between two sets of encoded rows."""
    shrink = jnp.exp(-log_lengths[column])
    return jnp.exp(log_amplitude) * matern52(squared_distance(left * shrink, right * shrink))


@partial(jax.tree_util.register_dataclass, data_fields=["frequency", "phase"], meta_fields=[])
@dataclass(frozen=True)
class WideFeatures:
    """The hidden layer at finite width M: the same model in weight space, for many observations."""

    frequency: Array
    phase: Array

    @staticmethod
    def draw(rng: np.random.Generator, columns: int, width: int) -> WideFeatures:
        """Draw M hidden units for `columns` encoded columns."""
        normal = rng.standard_normal((width, columns))
        chi = rng.chisquare(DEGREES_OF_FREEDOM, size=(width, 1))
        return WideFeatures(
            jnp.asarray(normal * np.sqrt(DEGREES_OF_FREEDOM / chi)),
            jnp.asarray(rng.uniform(0.0, 2.0 * np.pi, size=width)),
        )

    def jacobian(self, rows: Array, log_lengths: Array, log_amplitude: Array, column: Array) -> Array:
        """J(x) S_0^1/2, (B, M): its product with its transpose is the prior covariance."""
        shrink = jnp.exp(-log_lengths[column])
        angle = (rows * shrink) @ self.frequency.T + self.phase
        return jnp.sqrt(2.0 * jnp.exp(log_amplitude) / self.phase.shape[0]) * jnp.cos(angle)
