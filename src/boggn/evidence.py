r"""Prior scales of the wide network by empirical Bayes: maximise the evidence (PAPER.md 5, ENGINE.md 5).

| hyper-parameter | meaning                            | prior of its logarithm   | bounds of its logarithm |
|-----------------|------------------------------------|--------------------------|-------------------------|
| l_j             | length-scale of parameter j         | N(-1 + 1/2 log D, 1)     | [-4, 6]                 |
| a               | prior variance of the output        | N(0, 1)                  | [-4, 5]                 |
| s^2             | variance of the noise in T          | N(-9, 3^2)               | [log 1e-9, 0]           |
| c               | offset of the warp                  | N(0, 2^2)                | [-7, 6]                 |

One flat vector carries them: D length-scales (padded to the width of the rows), then a, s^2 and c. With one threshold
the last two have no say in the likelihood and stay at their prior mode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.optimize import minimize

from boggn.laplace import log_evidence
from boggn.likelihood import OPEN, AllThresholds, Likelihood, Link, OneThreshold, SeveralThresholds, link_sd
from boggn.posterior.function import WidePrior
from boggn.predictive import Head
from boggn.warp import Warp, fit_warp

Floats = NDArray[np.float64]

MAX_ITERATIONS = 30
HEAT_ITERATIONS = 8
_UNUSABLE = 1e10
NEAR_POLE = 1.0 - 1e-6
"""Of the offset: no threshold is warped further down."""
TOLERANCE = 1e-5
"""Relative gain in log joint below which a fit is done."""
_AMPLITUDE, _NOISE, _OFFSET = -3, -2, -1
_PRIOR = {_AMPLITUDE: (0.0, 1.0), _NOISE: (-9.0, 3.0), _OFFSET: (0.0, 2.0)}
_BOUNDS = {_AMPLITUDE: (-4.0, 5.0), _NOISE: (math.log(1e-9), 0.0), _OFFSET: (-7.0, 6.0)}
_LENGTH_REACH = (-2.0, 6.0)
TAIL_BOUNDS = (_BOUNDS[_NOISE], _BOUNDS[_OFFSET])
"""Of log s^2 and log c, the last two entries, which every network with all thresholds has."""
TAIL_START = (_PRIOR[_NOISE][0], _PRIOR[_OFFSET][0])


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["rows", "utility", "z", "weight", "column", "length_prior", "interval"],
    meta_fields=["thresholds", "link"],
)
@dataclass(frozen=True)
class Data:
    """Padded observations of one fit; rows of weight zero are padding or still running.

    With several thresholds `interval`, (N, 2), has the utilities of those that an outcome lies between, infinite where
    there is none. How many there are is seen in it alone, so that it costs no compilation.
    """

    rows: Array
    utility: Array
    z: Array
    weight: Array
    column: Array
    length_prior: Array
    thresholds: Literal["one", "several", "all"]
    link: Link
    interval: Array | None = None


def length_prior(dimension: int) -> float:
    """Prior mean of log l_j in D dimensions."""
    return -1.0 + 0.5 * math.log(dimension)


def start(data: Data, **logs: float) -> Floats:
    """A start for the fit: the prior's mode, with any of log_noise and log_offset set."""
    tail = {index: mean for index, (mean, _) in _PRIOR.items()}
    tail[_NOISE] = logs.get("log_noise", tail[_NOISE])
    tail[_OFFSET] = logs.get("log_offset", tail[_OFFSET])
    lengths = np.full(data.rows.shape[1], float(data.length_prior))
    return np.concatenate([lengths, [tail[_AMPLITUDE], tail[_NOISE], tail[_OFFSET]]])


def prior_of(hyper: Array, data: Data) -> WidePrior:
    """The network's prior scales."""
    return WidePrior(hyper[:_AMPLITUDE], hyper[_AMPLITUDE], data.column)


def likelihood_of(hyper: Array, data: Data) -> tuple[Likelihood, Head, Array]:
    """The likelihood, how its latent is read, and the log-Jacobian of the warp."""
    if data.thresholds == "one":
        one = jnp.ones((), data.rows.dtype)
        return OneThreshold(data.z, data.weight, data.link), Head(None, one, data.link), jnp.zeros_like(one)
    warp, target, log_jacobian = fit_warp(data.utility, data.weight, hyper[_OFFSET])
    # Both links are parametrised by their standard deviation, so that one prior serves both.
    if data.interval is None:
        scale = jnp.exp(0.5 * hyper[_NOISE]) / link_sd(data.link)
        return AllThresholds(target, scale, data.weight, data.link), Head(warp, scale, data.link), log_jacobian
    lower, upper = _warped(data.interval, warp).T
    scale = jnp.sqrt(jnp.exp(hyper[_NOISE]) + _rounding(lower, upper, data.weight)) / link_sd(data.link)
    likelihood = SeveralThresholds(lower, upper, scale, data.weight, data.link)
    # Probabilities, unlike densities, need no Jacobian.
    return likelihood, Head(warp, scale, data.link), jnp.zeros_like(log_jacobian)


def _rounding(lower: Array, upper: Array, weight: Array) -> Array:
    """Variance of what is rounded off between two thresholds, by the geometric mean of their distances.

    With less noise than that the likelihood is flat between thresholds and falls steeply there: no Gaussian, though
    Laplace takes it for one without any curvature, and finds it the more evident the less noise there is.
    """
    closed = jnp.where((lower > -OPEN) & (upper < OPEN), weight, 0.0)
    count = jnp.sum(closed)
    widths = jnp.maximum(upper - lower, jnp.finfo(lower.dtype).eps)
    mean = jnp.exp(closed @ jnp.log(widths) / jnp.maximum(count, 1.0))
    return jnp.where(count > 0, mean**2 / 12.0, 0.0)


def _warped(ends: Array, warp: Warp) -> Array:
    """Targets of thresholds, which may be infinite, or below the pole of the logarithm."""
    closed = jnp.isfinite(ends)
    utility = jnp.maximum(jnp.where(closed, ends, 0.0), -NEAR_POLE * jnp.exp(warp.log_offset))
    return jnp.where(closed, warp.target(utility), jnp.sign(ends) * OPEN)


def log_prior(hyper: Array, data: Data) -> Array:
    """Log density of the hyper-priors, up to a constant."""
    lengths = -0.5 * jnp.sum((hyper[:_AMPLITUDE] - data.length_prior) ** 2)
    return lengths + _log_normal(hyper, _AMPLITUDE) + log_tail_prior(hyper)


def log_tail_prior(hyper: Array) -> Array:
    """The part of the noise and the offset, up to a constant."""
    return _log_normal(hyper, _NOISE) + _log_normal(hyper, _OFFSET)


def _log_normal(hyper: Array, index: int) -> Array:
    mean, deviation = _PRIOR[index]
    return -0.5 * ((hyper[index] - mean) / deviation) ** 2


def log_joint(hyper: Array, data: Data) -> Array:
    """Log evidence plus log hyper-prior."""
    likelihood, _, log_jacobian = likelihood_of(hyper, data)
    kernel = prior_of(hyper, data).covariance(data.rows, data.rows)
    return log_evidence(kernel, jnp.zeros_like(data.weight), likelihood) + log_jacobian + log_prior(hyper, data)


@jax.jit
def _loss(hyper: Array, data: Data) -> tuple[Array, Array]:
    value, slope = jax.value_and_grad(log_joint)(hyper, data)
    return -value, -slope


class Fit(NamedTuple):
    """Hyper-parameters and the log joint they reach."""

    hyper: Floats
    log_joint: float


def fit(data: Data, starts: Sequence[Floats], max_iterations: int = MAX_ITERATIONS) -> Fit | None:
    """Maximise the log joint by L-BFGS-B; None if no start is finite.

    With several starts each gets a few iterations, and the one that then leads gets the rest.
    """
    lengths = (float(data.length_prior) + _LENGTH_REACH[0], float(data.length_prior) + _LENGTH_REACH[1])
    bounds = [lengths] * data.rows.shape[1] + [_BOUNDS[index] for index in (_AMPLITUDE, _NOISE, _OFFSET)]
    if len(starts) == 1:
        return _climb(data, starts[0], bounds, max_iterations)
    heat = min(HEAT_ITERATIONS, max_iterations)
    tried = [_climb(data, begin, bounds, heat) for begin in starts]
    leading = max((trial for trial in tried if trial is not None), key=lambda trial: trial.log_joint, default=None)
    return None if leading is None else _climb(data, leading.hyper, bounds, max_iterations - heat)


def _climb(data: Data, begin: Floats, bounds: Sequence[tuple[float, float]], iterations: int) -> Fit | None:
    """L-BFGS-B from one start; None if the log joint is not finite there."""

    def loss(hyper: Floats) -> tuple[float, Floats]:
        value, slope = _loss(hyper, data)
        if not np.isfinite(value):
            return _UNUSABLE, np.zeros_like(hyper)
        return float(value), np.asarray(slope, dtype=np.float64)

    result = minimize(
        loss,
        np.clip(begin, *np.array(bounds).T),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": iterations, "maxfun": 2 * iterations, "ftol": TOLERANCE},
    )
    return Fit(result.x, -float(result.fun)) if result.fun < _UNUSABLE else None
