r"""Training the finite network: its MAP, and its prior precisions by empirical Bayes (PAPER.md 3, 5).

| here              | meaning                                                                          |
|-------------------|----------------------------------------------------------------------------------|
| `theta`           | flat parameters; `theta_map` maximises the log posterior                          |
| `prior_precision` | the diagonal of S_0^-1, (P,); one value for all the weights that leave one input   |
| `log_posterior`   | sum_n log p(y_n | f_n) - 1/2 theta' S_0^-1 theta: minus the score of PAPER.md 3    |
| `tail`            | hyper-parameters of the likelihood: noise scale, offset of the warp                |

Gauss-Newton works in function space. Linearised at theta, the network is a Gaussian process with prior mean
m_0 = f - J theta and covariance K = J S_0 J'; the mode's dual vector a gives the parameters S_0 J' a, which a line
search on the true log posterior moves towards. A step costs a Cholesky factor of N x N, whatever P is. The step is
damped (Levenberg-Marquardt, in the metric of the prior) as long as the line search falls short of the full step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray
from scipy.optimize import minimize

from boggn.laplace import find_mode, log_evidence
from boggn.likelihood import AllThresholds, Likelihood, Link, link_sd
from boggn.network import mlp
from boggn.network.mlp import Factors
from boggn.network.spec import MLP

LINE_SEARCH_STEPS = 12
DAMPING = 30.0
"""How many times the prior a first step is held back by: small noise needs it, a run of few steps pays for it."""
ROUND_STEPS = 5
"""Gauss-Newton steps between two looks at the evidence."""
EVIDENCE_ITERATIONS = 5
"""L-BFGS iterations on the evidence of one linearisation: a new linearisation is worth more than the last digit."""
PRECISION_BOUNDS = (-8.0, 12.0)
TRUST_RADIUS = 2.0
"""How far one round may move the logarithm of a hyper-parameter."""
_UNUSABLE = 1e10

Floats = NDArray[np.float64]
RowGroups = tuple[tuple[int, ...], ...]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["params", "prior_precision", "likelihood", "design", "log_posterior", "steps"],
    meta_fields=["spec"],
)
@dataclass(frozen=True)
class MapFit:
    """A trained network: flat parameters, prior, the data it was trained on, and the steps if it was by Adam."""

    spec: MLP
    params: Array
    prior_precision: Array
    likelihood: Likelihood
    design: Array
    log_posterior: Array
    steps: Array | None = None


def log_posterior(spec: MLP, theta: Array, x: Array, likelihood: Likelihood, prior_precision: Array) -> Array:
    """Log posterior of flat parameters, up to a constant."""
    latent = mlp.logit(spec, mlp.unravel(spec, theta, x.shape[1]), x)
    return jnp.sum(likelihood.log_prob(latent)) - 0.5 * prior_precision @ theta**2


@partial(jax.jit, static_argnames=("spec", "width", "dtype"))
def random_weights(key: Array, spec: MLP, width: int, dtype: Any) -> Array:
    """Flat parameters from which training may start."""
    return mlp.ravel(mlp.init(spec, key, width, dtype))


# --------------------------------------------------------------------------------------------------- Gauss-Newton


def _linearise(spec: MLP, theta: Array, x: Array) -> tuple[Factors, Array]:
    """The Jacobian at theta in factored form, and the prior mean m_0 = f - J theta."""
    rows = mlp.factors(spec, mlp.unravel(spec, theta, x.shape[1]), x)
    return rows, rows.latent - mlp.push(rows, theta)


class _Ascent(NamedTuple):
    number: Array
    theta: Array
    value: Array
    gain: Array
    damping: Array


def _climb(
    theta: Array, spec: MLP, x: Array, likelihood: Likelihood, prior_precision: Array, steps: Array
) -> tuple[Array, Array]:
    """Up to `steps` Gauss-Newton steps; the parameters and their log posterior."""
    tolerance = 1e-9 if x.dtype == jnp.float64 else 1e-6
    variance = [1.0 / row for row in mlp.rows_of(spec, x.shape[1], prior_precision)]
    lengths = 0.5 ** jnp.arange(LINE_SEARCH_STEPS, dtype=x.dtype)

    def height(theta: Array) -> Array:
        return log_posterior(spec, theta, x, likelihood, prior_precision)

    def step(state: _Ascent) -> _Ascent:
        number, theta, value, _, damping = state
        rows, prior_mean = _linearise(spec, theta, x)
        # The damped problem has prior N(damping theta, S_0) / (1 + damping): the same algebra.
        shrink = 1.0 / (1.0 + damping)
        prior_mean = rows.latent + shrink * (prior_mean - rows.latent)
        dual = find_mode(shrink * mlp.kernel(rows, rows, variance), prior_mean, likelihood).dual
        direction = shrink * (mlp.pull(rows, dual) / prior_precision - theta)
        # All lengths at once: passes forward are cheap beside the Cholesky factor, and the best of them beats the
        # first that will do.
        values = jax.vmap(lambda length: height(theta + length * direction))(lengths)
        values = jnp.where(jnp.isnan(values), -jnp.inf, values)
        best = jnp.argmax(values)
        better = values[best] > value
        gain = jnp.where(better, values[best] - value, 0.0)
        moved = jnp.where(better, theta + lengths[best] * direction, theta)
        return _Ascent(number + 1, moved, value + gain, gain, damping * jnp.where(best < 2, 0.25, 8.0))

    def unfinished(state: _Ascent) -> Array:
        return (state.number < steps) & (state.gain > tolerance * (1.0 + jnp.abs(state.value)))

    endless, damping = jnp.asarray(jnp.inf, x.dtype), jnp.asarray(DAMPING, x.dtype)
    end = lax.while_loop(unfinished, step, _Ascent(jnp.zeros((), jnp.int32), theta, height(theta), endless, damping))
    return end.theta, end.value


@partial(jax.jit, static_argnames=("spec",))
def _gauss_newton(
    theta: Array, spec: MLP, x: Array, likelihood: Likelihood, prior_precision: Array, steps: Array
) -> MapFit:
    theta, value = _climb(theta, spec, x, likelihood, prior_precision, steps)
    return MapFit(spec, theta, prior_precision, likelihood, x, value)


def map_gauss_newton(
    theta0: Array, spec: MLP, x: Array, likelihood: Likelihood, prior_precision: Array, *, steps: int
) -> MapFit:
    """Train from flat parameters by Gauss-Newton; the log posterior never falls below that of `theta0`.

    With relu it ends on a kink where the linearised network is wrong on one side, near a mode but seldom at it;
    with a smooth activation it ends at a mode.
    """
    mlp.check_rows(spec, x.shape[1], prior_precision)
    fit: MapFit = _gauss_newton(theta0, spec, x, likelihood, prior_precision, jnp.asarray(steps, jnp.int32))
    return fit


# ------------------------------------------------------------------------------------------------------- evidence


class LikelihoodModel(Protocol):
    """A likelihood with hyper-parameters. Registered as a JAX pytree, so that new data are no new compilation."""

    @property
    def bounds(self) -> Sequence[tuple[float, float]]:
        """Range of every hyper-parameter of the likelihood."""

    def likelihood(self, tail: Array) -> tuple[Likelihood, Array]:
        """The likelihood at these hyper-parameters, and the log-Jacobian of the warp of the outcomes."""

    def log_prior(self, log_precision: Array, tail: Array) -> Array:
        """Log density of all hyper-parameters, up to a constant."""


def log_normal_prior(log_value: Array, mean: float, deviation: float) -> Array:
    """Log density of independent normals, up to a constant."""
    return -0.5 * jnp.sum(((log_value - mean) / deviation) ** 2)


@partial(jax.tree_util.register_dataclass, data_fields=["given"], meta_fields=[])
@dataclass(frozen=True)
class FixedLikelihood:
    """A likelihood without hyper-parameters: only the precisions are learned, each with log N(0, 3^2)."""

    given: Likelihood

    @property
    def bounds(self) -> Sequence[tuple[float, float]]:
        """None."""
        return ()

    def likelihood(self, tail: Array) -> tuple[Likelihood, Array]:
        """The one given; `tail` is empty."""
        return self.given, jnp.sum(tail)

    def log_prior(self, log_precision: Array, tail: Array) -> Array:
        """That of the precisions."""
        return log_normal_prior(log_precision, 0.0, 3.0) + jnp.sum(tail)


@partial(jax.tree_util.register_dataclass, data_fields=["target", "weight"], meta_fields=["link"])
@dataclass(frozen=True)
class LearnedScale:
    """All thresholds with fixed targets; the tail is the log variance of their noise (ENGINE.md 5)."""

    target: Array
    weight: Array
    link: Link = "probit"

    @property
    def bounds(self) -> Sequence[tuple[float, float]]:
        """Of the log variance of the noise."""
        return ((math.log(1e-7), 0.0),)

    def likelihood(self, tail: Array) -> tuple[Likelihood, Array]:
        """Proportional odds whose noise has variance exp(tail), whatever the link."""
        scale = jnp.exp(0.5 * tail[0]) / link_sd(self.link)
        return AllThresholds(self.target, scale, self.weight, self.link), jnp.zeros_like(scale)

    def log_prior(self, log_precision: Array, tail: Array) -> Array:
        """Log precisions N(0, 3^2), log variance N(-9, 3^2)."""
        return log_normal_prior(log_precision, 0.0, 3.0) + log_normal_prior(tail, -9.0, 3.0)


class EvidenceFit(NamedTuple):
    """A trained network with learned hyper-parameters; `log_joint` is log evidence plus log hyper-prior."""

    fit: MapFit
    log_precision: Floats
    tail: Floats
    log_joint: float


class _Linear(NamedTuple):
    """The network linearised: one kernel per prior group, and the prior mean."""

    kernels: Array
    prior_mean: Array


def _expand(spec: MLP, row_groups: RowGroups, log_precision: Array) -> Array:
    """One precision per group to one per parameter."""
    outputs = (*spec.hidden, 1)
    index = np.concatenate([np.repeat(rows, count) for rows, count in zip(row_groups, outputs, strict=True)])
    return jnp.exp(log_precision)[index]


@partial(jax.jit, static_argnames=("spec", "row_groups", "split"))
def _at(hyper: Array, spec: MLP, model: LikelihoodModel, row_groups: RowGroups, split: int) -> tuple[Likelihood, Array]:
    """The likelihood and the prior precisions at some hyper-parameters."""
    likelihood, _ = model.likelihood(hyper[split:])
    return likelihood, _expand(spec, row_groups, hyper[:split])


@partial(jax.jit, static_argnames=("row_groups",))
def _linear(fit: MapFit, row_groups: RowGroups) -> _Linear:
    rows, prior_mean = _linearise(fit.spec, fit.params, fit.design)
    return _Linear(mlp.group_kernels(rows, row_groups), prior_mean)


def log_joint(hyper: Array, linear: _Linear, model: LikelihoodModel) -> Array:
    """Log evidence of the linearised network plus log hyper-prior; `hyper` is (log precisions, tail)."""
    split = linear.kernels.shape[0]
    likelihood, log_jacobian = model.likelihood(hyper[split:])
    covariance = jnp.tensordot(jnp.exp(-hyper[:split]), linear.kernels, axes=1)
    evidence = log_evidence(covariance, linear.prior_mean, likelihood)
    return evidence + log_jacobian + model.log_prior(hyper[:split], hyper[split:])


_log_joint_and_slope = jax.jit(jax.value_and_grad(log_joint))


def _maximise(hyper: Floats, linear: _Linear, model: LikelihoodModel, low: Floats, high: Floats) -> Floats:
    """Better hyper-parameters in a box, for one linearisation."""
    dtype = linear.prior_mean.dtype

    def loss(hyper: Floats) -> tuple[float, Floats]:
        value, slope = _log_joint_and_slope(jnp.asarray(hyper, dtype), linear, model)
        if not np.isfinite(value):
            return _UNUSABLE, np.zeros_like(hyper)
        return -float(value), -np.asarray(slope, np.float64)

    result = minimize(
        loss,
        np.clip(hyper, low, high),
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([low, high], axis=1),
        options={"maxiter": EVIDENCE_ITERATIONS, "maxfun": EVIDENCE_ITERATIONS + 2},
    )
    return np.asarray(result.x) if result.fun < _UNUSABLE else hyper


def fit_evidence(
    theta0: Array,
    spec: MLP,
    x: Array,
    model: LikelihoodModel,
    groups: NDArray[np.intp],
    start: tuple[Floats, Floats],
    *,
    rounds: int = 1,
) -> EvidenceFit:
    r"""Train at `start`, then `rounds` times: L-BFGS on the evidence, train again; the best met is returned.

    `groups` is that of `prior_groups`; `start` is (log precision per group, tail). For one linearisation the
    evidence needs only K = sum_g exp(-log delta_g) J_g J_g', whose terms are computed once. It holds near the
    hyper-parameters the network was trained at, so each round stays in a box around the best so far, and a round
    whose retrained network has less evidence is taken back and halves the box.
    """
    mlp.check_rows(spec, x.shape[1], groups)
    row_groups = tuple(tuple(rows.tolist()) for rows in mlp.rows_of(spec, x.shape[1], np.asarray(groups)))
    split = len(start[0])
    low, high = np.array([PRECISION_BOUNDS] * split + list(model.bounds)).T

    def train(theta: Array, hyper: Floats) -> tuple[EvidenceFit, _Linear]:
        point = jnp.asarray(hyper, x.dtype)
        likelihood, precision = _at(point, spec, model, row_groups, split)
        fit = _gauss_newton(theta, spec, x, likelihood, precision, jnp.asarray(ROUND_STEPS, jnp.int32))
        linear = _linear(fit, row_groups)
        value = float(_log_joint_and_slope(point, linear, model)[0])
        return EvidenceFit(fit, hyper[:split], hyper[split:], value), linear

    hyper = np.clip(np.concatenate(start), low, high)
    best, linear = train(theta0, hyper)
    radius = TRUST_RADIUS
    for _ in range(rounds):
        trial = _maximise(hyper, linear, model, np.maximum(low, hyper - radius), np.minimum(high, hyper + radius))
        found, trial_linear = train(best.fit.params, trial)
        if found.log_joint > best.log_joint or not np.isfinite(best.log_joint):
            best, linear, hyper = found, trial_linear, trial
        else:
            radius *= 0.5
    return best
