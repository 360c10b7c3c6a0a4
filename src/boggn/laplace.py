r"""Laplace's approximation in function space: mode, curvature and evidence of a latent Gaussian model.

A network linearised at theta* is a Gaussian process with mean m_0 = f - J theta* and covariance
K = J S_0 J' (PAPER.md 6); the wide network is one from the start. Everything the engine needs of either is here.

| here            | formula                                                     | PAPER.md |
|-----------------|-------------------------------------------------------------|----------|
| `kernel`        | K, N x N                                                    | 6        |
| `prior_mean`    | m_0, N                                                      | 6        |
| `logit_curvature` | Lambda, N                                                 | 4        |
| `chol`          | L with L L' = B = I + Lambda^1/2 K Lambda^1/2               | 5        |
| `whitener`      | L^-1 Lambda^1/2, so (K + Lambda^-1)^-1 = whitener' whitener | 6        |
| `dual`          | a = grad log p(y | g) at the mode; g = m_0 + K a            | 6        |

The eigenvalues of B are at least 1, so its factor never fails for a finite K.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import solve_triangular

from boggn.likelihood import Likelihood

MAX_NEWTON_STEPS = 30


class Mode(NamedTuple):
    """The mode of the latent, the curvature there, and the factors every later query is answered from."""

    latent: Array
    dual: Array
    curvature: Array
    whitener: Array
    log_det: Array


def _factor(kernel: Array, curvature: Array) -> tuple[Array, Array]:
    root = jnp.sqrt(curvature)
    gram = jnp.eye(kernel.shape[0], dtype=kernel.dtype) + root[:, None] * kernel * root[None, :]
    chol = jnp.linalg.cholesky(gram)
    return chol, root


def _newton_step(kernel: Array, prior_mean: Array, likelihood: Likelihood, latent: Array) -> Array:
    """One full Newton step in the dual variable (Rasmussen and Williams, algorithm 3.1)."""
    curvature = likelihood.curvature(latent)
    chol, root = _factor(kernel, curvature)
    pull = curvature * (latent - prior_mean) + likelihood.gradient(latent)
    solved = jax.scipy.linalg.cho_solve((chol, True), root * (kernel @ pull))
    return pull - root * solved


def _objective(kernel: Array, prior_mean: Array, likelihood: Likelihood, dual: Array) -> tuple[Array, Array]:
    push = kernel @ dual
    value = jnp.sum(likelihood.log_prob(prior_mean + push)) - 0.5 * dual @ push
    return value, prior_mean + push


State = tuple[Array, Array, Array, Array, Array]


def _ascend(
    kernel: Array, prior_mean: Array, likelihood: Likelihood, dual: Array, latent: Array, value: Array
) -> tuple[Array, Array]:
    """Newton's method with step halving, until a step gains nothing."""
    tolerance = 1e-10 if kernel.dtype == jnp.float64 else 1e-5

    def improve(state: State) -> State:
        count, dual, latent, value, _ = state
        direction = _newton_step(kernel, prior_mean, likelihood, latent) - dual

        def too_long(trial: tuple[Array, Array, Array]) -> Array:
            return (trial[1] < value) & (trial[0] > 1e-4)

        def halve(trial: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            step = 0.5 * trial[0]
            return (step, *_objective(kernel, prior_mean, likelihood, dual + step * direction))

        one = jnp.ones((), kernel.dtype)
        first = (one, *_objective(kernel, prior_mean, likelihood, dual + direction))
        step, new_value, new_latent = lax.while_loop(too_long, halve, first)
        better = new_value > value
        gain = jnp.where(better, new_value - value, 0.0)
        return (
            count + 1,
            jnp.where(better, dual + step * direction, dual),
            jnp.where(better, new_latent, latent),
            jnp.where(better, new_value, value),
            gain,
        )

    def unfinished(state: State) -> Array:
        count, _, _, value, gain = state
        return (count < MAX_NEWTON_STEPS) & (gain > tolerance * (1.0 + jnp.abs(value)))

    start = (jnp.zeros((), jnp.int32), dual, latent, value, jnp.full((), jnp.inf, kernel.dtype))
    _, dual, latent, _, _ = lax.while_loop(unfinished, improve, start)
    return dual, latent


def find_mode(kernel: Array, prior_mean: Array, likelihood: Likelihood) -> Mode:
    """Maximise log p(y | g) - 1/2 (g - m_0)' K^-1 (g - m_0) by Newton's method with step halving."""
    # The first step starts from the likelihood's own guess, not from the prior mean: with all thresholds and little
    # noise the targets are nearly the mode, and a quadratic likelihood is solved by this one step.
    latent = likelihood.start()
    dual = jnp.zeros_like(latent)
    if not likelihood.quadratic:
        dual = _newton_step(kernel, prior_mean, likelihood, latent)
        value, latent = _objective(kernel, prior_mean, likelihood, dual)
        dual, latent = _ascend(kernel, prior_mean, likelihood, dual, latent, value)
    curvature = likelihood.curvature(latent)
    chol, root = _factor(kernel, curvature)
    whitener = _whitener(chol, root)
    if likelihood.quadratic:
        pull = curvature * (latent - prior_mean) + likelihood.gradient(latent)
        dual = pull - whitener.T @ (whitener @ (kernel @ pull))
        latent = prior_mean + kernel @ dual
    return Mode(latent, dual, curvature, whitener, 2.0 * jnp.sum(jnp.log(jnp.diag(chol))))


def _whitener(chol: Array, root: Array) -> Array:
    return solve_triangular(chol, jnp.diag(root), lower=True)


def whiten(kernel: Array, curvature: Array) -> Array:
    """W with W' W = (K + Lambda^-1)^-1."""
    return _whitener(*_factor(kernel, curvature))


def log_evidence_at(kernel: Array, likelihood: Likelihood, mode: Mode) -> Array:
    r"""log q(D | M) = log p(D | g) - 1/2 a' K a - 1/2 log det B (PAPER.md 5, the form for N < P)."""
    fit = jnp.sum(likelihood.log_prob(mode.latent))
    return fit - 0.5 * mode.dual @ (kernel @ mode.dual) - 0.5 * mode.log_det


def log_evidence(kernel: Array, prior_mean: Array, likelihood: Likelihood) -> Array:
    r"""Laplace's log evidence, differentiable in the kernel, the mean and the likelihood's parameters.

    The value is `log_evidence_at` the mode. Its gradient is that of a surrogate in which everything but the
    argument is held fixed (Rasmussen and Williams, section 5.5.1). With R = (K + Lambda^-1)^-1, V = diag of the
    posterior covariance, s = -1/2 V Lambda'(g) and q = (I - R K) s, the derivatives are

        dK:    1/2 a a' - 1/2 R + q a'
        dm_0:  a + q
        dpsi:  d log p - 1/2 V dLambda + (K q)' d(grad log p)

    so that no derivative is taken through a factorisation or through Newton's iterations.
    """
    frozen_kernel, frozen_mean, frozen = lax.stop_gradient((kernel, prior_mean, likelihood))
    mode = find_mode(frozen_kernel, frozen_mean, frozen)
    inverse = mode.whitener.T @ mode.whitener
    spread = _posterior_variance(frozen_kernel, inverse, mode.curvature)
    bend = jax.jvp(frozen.curvature, (mode.latent,), (jnp.ones_like(mode.latent),))[1]
    shift = -0.5 * spread * bend
    pull = shift - inverse @ (frozen_kernel @ shift)
    kernel_bar = 0.5 * jnp.outer(mode.dual, mode.dual) - 0.5 * inverse + jnp.outer(pull, mode.dual)
    value, kernel_bar, mean_bar, latent, spread, push = lax.stop_gradient(
        (
            log_evidence_at(frozen_kernel, frozen, mode),
            kernel_bar,
            mode.dual + pull,
            mode.latent,
            spread,
            frozen_kernel @ pull,
        )
    )
    surrogate = (
        jnp.sum(kernel_bar * kernel)
        + mean_bar @ prior_mean
        + jnp.sum(likelihood.log_prob(latent))
        - 0.5 * spread @ likelihood.curvature(latent)
        + push @ likelihood.gradient(latent)
    )
    evidence: Array = value + surrogate - lax.stop_gradient(surrogate)
    return evidence


def _posterior_variance(kernel: Array, inverse: Array, curvature: Array) -> Array:
    """diag (K^-1 + Lambda)^-1 = 1/Lambda (1 - diag(R) / Lambda), without another product of matrices."""
    seen = curvature > 0
    safe = jnp.where(seen, curvature, 1.0)
    return jnp.where(seen, (1.0 - jnp.diag(inverse) / safe) / safe, jnp.diag(kernel))


class Anchor(NamedTuple):
    """A row of the design that others are compared with: its unit vector, and what a posterior keeps of that row.

    In function space W K_n, in weight space Sigma J_n'.
    """

    unit: Array
    seen: Array


def moments_from(
    cross: Array, prior_variance: Array, prior_mean: Array, dual: Array, whitener: Array
) -> tuple[Array, Array]:
    r"""Mean m_0 + K_* a and variance K_** - K_* (K + Lambda^-1)^-1 K_*' of the latent (PAPER.md 6).

    `cross` is (B, N); the variance is clipped at a rounding error above zero.
    """
    mean, variance, _ = _conditional(cross, prior_variance, prior_mean, dual, whitener)
    return mean, variance


def anchored_moments_from(
    cross: Array, prior_variance: Array, prior_mean: Array, dual: Array, whitener: Array, anchor: Anchor
) -> tuple[Array, Array, Array]:
    """The same, and the covariance of the latent with that at the anchor."""
    mean, variance, seen = _conditional(cross, prior_variance, prior_mean, dual, whitener)
    return mean, variance, cross @ anchor.unit - seen @ anchor.seen


def _conditional(
    cross: Array, prior_variance: Array, prior_mean: Array, dual: Array, whitener: Array
) -> tuple[Array, Array, Array]:
    seen = cross @ whitener.T
    floor = jnp.finfo(cross.dtype).eps * prior_variance
    return prior_mean + cross @ dual, jnp.maximum(prior_variance - jnp.sum(seen**2, axis=1), floor), seen
