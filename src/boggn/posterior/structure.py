r"""Gaussian posteriors over the parameters of a linearised network: what all structures share (PAPER.md 4, 5).

| here               | meaning                                                                          |
|--------------------|----------------------------------------------------------------------------------|
| theta              | `fit.params`, the posterior's mean                                                 |
| Sigma              | its covariance: H^-1 with H = J' Lambda J + S_0^-1, or what a structure keeps of it  |
| f(x)               | N(f(x; theta), J Sigma J')                                                         |
| `log_contraction`  | log det S_0 - log det Sigma, by how much the data have narrowed the prior            |

| structure  | Sigma                                             | conditioning         | a query             |
|------------|---------------------------------------------------|----------------------|---------------------|
| full       | exact, by a factor P x P                          | P^3 + N P^2          | P^2                 |
| function   | exact, by a factor N x N                          | N^3 + N^2 sum(i + o) | N^2 + N sum(i + o)  |
| subset     | exact for M of the N observations                 | M N (M + sum(i + o)) | M^2 + M sum(i + o)  |
| kron       | per layer the inverse of A (x) B + S_0^-1         | N P + sum(i^3 + o^3) | sum(i^2 + i o + o^2) |
| diagonal   | the inverse of the diagonal of H                  | N P                  | P                   |
| last layer | exact for the output layer, zero for the others   | N h^2 + h^3          | h^2                 |
| mean field | diagonal, the best for the network as it is       | many times N P       | P                   |

P parameters, layers of i inputs and o outputs, h units in the last hidden layer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.linalg import cho_solve, solve_triangular

from boggn.fit import MapFit
from boggn.laplace import Anchor
from boggn.network import mlp
from boggn.network.mlp import Factors


@dataclass(frozen=True)
class Structure(ABC):
    """q(theta) = N(theta, Sigma), and the linearised network under it. Registered as a JAX pytree by each structure."""

    fit: MapFit

    @classmethod
    @abstractmethod
    def of(cls, fit: MapFit, running: Array | None = None) -> Self:
        """Condition on what the network was trained on: factorise once, every query reuses it.

        `running` holds a curvature at rows of the design whose outcome is not known yet: the mean stays, the
        variance near them goes.
        """

    @abstractmethod
    def variance(self, rows: Factors) -> Array:
        """The diagonal of J Sigma J', (B,)."""

    @abstractmethod
    def times(self, direction: Array) -> Array:
        """Sigma v of a flat vector, (P,)."""

    @abstractmethod
    def steps(self, key: Array, count: int) -> Array:
        """Draws of N(0, Sigma), (count, P)."""

    @abstractmethod
    def log_contraction(self) -> Array:
        """log det S_0 - log det Sigma, never negative."""

    def expecting(self, running: Array) -> Self:
        """The same, given also points that are still running, as in `of`."""
        return type(self).of(self.fit, running)

    def penalty(self) -> Array:
        """1/2 theta' S_0^-1 theta, of the parameters that the evidence is an integral over."""
        return 0.5 * self.fit.prior_precision @ self.fit.params**2

    def factors(self, x: Array) -> Factors:
        """Output and Jacobian of the network at encoded rows (B, W)."""
        return factors_of(self.fit, x)

    def mean(self, x: Array) -> Array:
        """f(x; theta) at encoded rows (B, W): the network's own output."""
        return mlp.logit(self.fit.spec, mlp.unravel(self.fit.spec, self.fit.params, self.fit.design.shape[1]), x)

    def moments(self, x: Array) -> tuple[Array, Array]:
        """Mean f(x; theta) and variance J Sigma J' of the latent at encoded rows (B, W)."""
        found: tuple[Array, Array] = _moments(self, x)
        return found

    def anchor(self, unit: Array) -> Anchor:
        """One of the rows of the design, picked by its unit vector: Sigma J' there."""
        return Anchor(unit, self.times(mlp.pull(self.factors(self.fit.design), unit)))

    def anchored_moments(self, x: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """Mean and variance at encoded rows, and the covariance with the latent at the anchor."""
        rows = self.factors(x)
        return rows.latent, self.variance(rows), mlp.push(rows, anchor.seen)

    def sample(self, key: Array, count: int, x: Array) -> Array:
        """Joint draws of the linearised network at encoded rows, (count, B); one key is one set of functions."""
        found: Array = _sample(self, key, count, x)
        return found

    def sample_parameters(self, key: Array, count: int) -> Array:
        """Draws of theta, (count, P)."""
        steps: Array = _steps(self, key, count)
        return self.fit.params + steps

    def draw(self, key: Array) -> LinearisedDraw:
        """One draw of the linearised network as a function."""
        steps: Array = _steps(self, key, 1)
        return LinearisedDraw(self.fit, steps[0])

    def log_evidence(self, *, off_mode: bool = False) -> Array:
        r"""Laplace's log evidence; `off_mode` adds 1/2 grad' Sigma grad (PAPER.md 5, last term)."""
        found: Array = _log_evidence(self, off_mode=off_mode)
        return found


@partial(jax.tree_util.register_dataclass, data_fields=["fit", "step"], meta_fields=[])
@dataclass(frozen=True)
class LinearisedDraw:
    """f(x; theta) + J(x) step for one draw of the parameters: a posterior without variance."""

    fit: MapFit
    step: Array

    def anchored_moments(self, x: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """The draw at encoded rows, without variance or covariance."""
        del anchor
        rows = factors_of(self.fit, x)
        still = jnp.zeros_like(rows.latent)
        return rows.latent + mlp.push(rows, self.step), still, still


def factors_of(fit: MapFit, x: Array) -> Factors:
    """Output and Jacobian of a trained network at encoded rows (B, W)."""
    return mlp.factors(fit.spec, mlp.unravel(fit.spec, fit.params, fit.design.shape[1]), x)


@jax.jit
def _moments(posterior: Structure, x: Array) -> tuple[Array, Array]:
    rows = posterior.factors(x)
    return rows.latent, posterior.variance(rows)


@partial(jax.jit, static_argnames=("count",))
def _steps(posterior: Structure, key: Array, count: int) -> Array:
    return posterior.steps(key, count)


@partial(jax.jit, static_argnames=("count",))
def _sample(posterior: Structure, key: Array, count: int, x: Array) -> Array:
    rows = posterior.factors(x)
    return rows.latent + jax.vmap(partial(mlp.push, rows))(posterior.steps(key, count))


@partial(jax.jit, static_argnames=("off_mode",))
def _log_evidence(posterior: Structure, *, off_mode: bool) -> Array:
    # log p(theta) + (P/2) log 2 pi + 1/2 log det Sigma: the determinant of the prior is in the contraction.
    fit, rows = posterior.fit, posterior.factors(posterior.fit.design)
    value = jnp.sum(fit.likelihood.log_prob(rows.latent)) - posterior.penalty() - 0.5 * posterior.log_contraction()
    if not off_mode:
        return value
    slope = mlp.pull(rows, fit.likelihood.gradient(rows.latent)) - fit.prior_precision * fit.params
    return value + 0.5 * slope @ posterior.times(slope)


def curvature_of(fit: MapFit, latent: Array, running: Array | None) -> Array:
    """Lambda at theta, with the curvature that running points will have."""
    curvature = fit.likelihood.curvature(latent)
    return curvature if running is None else curvature + running


class Dense(NamedTuple):
    r"""The Gaussian of precision J' Lambda J + S_0^-1, by a factor of that size.

    L L' = I + S_0^1/2 J' Lambda J S_0^1/2, whose eigenvalues are at least 1 whatever the prior precisions are.
    """

    chol: Array
    deviation: Array

    @staticmethod
    def of(jacobian: Array, curvature: Array, prior_precision: Array) -> Dense:
        """Factorise."""
        deviation = jax.lax.rsqrt(prior_precision)
        root = jnp.sqrt(curvature)[:, None] * jacobian * deviation
        return Dense(jnp.linalg.cholesky(jnp.eye(root.shape[1], dtype=root.dtype) + root.T @ root), deviation)

    def variance(self, jacobian: Array) -> Array:
        """The diagonal of J Sigma J'."""
        return jnp.sum(solve_triangular(self.chol, (jacobian * self.deviation).T, lower=True) ** 2, axis=0)

    def times(self, direction: Array) -> Array:
        """Sigma v."""
        solved: Array = cho_solve((self.chol, True), self.deviation * direction)
        return self.deviation * solved

    def steps(self, key: Array, count: int) -> Array:
        """Draws of N(0, Sigma)."""
        noise = jax.random.normal(key, (self.deviation.shape[0], count), self.deviation.dtype)
        return (self.deviation[:, None] * solve_triangular(self.chol, noise, lower=True, trans="T")).T

    def log_contraction(self) -> Array:
        """log det S_0 - log det Sigma."""
        return 2.0 * jnp.sum(jnp.log(jnp.diag(self.chol)))
