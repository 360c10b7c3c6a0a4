r"""Training the multilayer perceptron on a history, with one threshold or all of them (PAPER.md 3-5).

| `prior_precision` | training                                                                             |
|-------------------|--------------------------------------------------------------------------------------|
| a number          | delta fixed; Adam on mini-batches (the paper) or Gauss-Newton to the mode             |
| "evidence"        | Gauss-Newton in turn with the evidence: a precision per original parameter in the     |
|                   | first layer, one per later layer; with all thresholds also the noise and the warp     |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from boggn import evidence
from boggn.adam import map_adam
from boggn.config import EVIDENCE, Config
from boggn.encoding import Encoding
from boggn.errors import ConfigurationError
from boggn.evidence import Data
from boggn.fit import (
    FixedLikelihood,
    LikelihoodModel,
    MapFit,
    fit_evidence,
    log_normal_prior,
    map_gauss_newton,
    random_weights,
)
from boggn.likelihood import Likelihood
from boggn.network import mlp
from boggn.network.spec import MLP
from boggn.predictive import Head

ADAM_STEPS = 500
WARM_STEPS = 100
"""Of Adam, from a network that has seen all but the latest observations."""
GAUSS_NEWTON_STEPS = 20
TAIL_NOISE = -4.0
"""Log variance of the noise that training starts from: a network that has learned nothing yet fits poorly."""
ROUNDS = 4
"""Turns of training and evidence."""


class Trained(NamedTuple):
    """A network at its mode, how its output is read, the warp's log-Jacobian, the scales that the record names."""

    fit: MapFit
    head: Head
    log_jacobian: float
    scales: dict[str, float]

    @property
    def steps(self) -> int:
        """Of Adam, 0 if there were none."""
        return 0 if self.fit.steps is None else int(self.fit.steps)


class Start(NamedTuple):
    """A network to go on from, and whether it has not yet seen all observations."""

    params: Array
    behind: bool


@partial(jax.tree_util.register_dataclass, data_fields=["data"], meta_fields=[])
@dataclass(frozen=True)
class WarpedThresholds:
    """More thresholds than one, with the noise and the offset of the warp as the likelihood's hyper-parameters."""

    data: Data

    @property
    def bounds(self) -> Sequence[tuple[float, float]]:
        """Of the log variance of the noise and the log offset."""
        return evidence.TAIL_BOUNDS

    def likelihood(self, tail: Array) -> tuple[Likelihood, Array]:
        """The likelihood and the log-Jacobian of the warp."""
        likelihood, _, log_jacobian = evidence.likelihood_of(tail, self.data)
        return likelihood, log_jacobian

    def log_prior(self, log_precision: Array, tail: Array) -> Array:
        """Log precisions N(0, 3^2); noise and offset as for the wide network."""
        return log_normal_prior(log_precision, 0.0, 3.0) + evidence.log_tail_prior(tail)


def train(
    config: Config, encoding: Encoding, data: Data, seed: list[int], start: Start | None = None
) -> Trained | None:
    """Train the configured perceptron, from random weights unless told where from; None if it is not finite."""
    spec, width = config.network, data.rows.shape[1]
    if not isinstance(spec, MLP):
        raise ConfigurationError.invalid("network", spec, "an MLP")
    key = jax.random.key(seed[0])
    if config.prior_precision == EVIDENCE:
        trained = _by_evidence(spec, encoding, data, key)
    else:
        likelihood, head, _ = evidence.likelihood_of(jnp.zeros(2), data)
        precision = jnp.full((mlp.n_parameters(spec, width),), float(config.prior_precision), data.rows.dtype)
        if config.training == "adam":
            params, steps = (None, ADAM_STEPS) if start is None else (start.params, WARM_STEPS * start.behind)
            fit = map_adam(
                key, spec, data.rows, likelihood, precision, steps=steps, start=params, patience=config.patience
            )
        else:
            weights = random_weights(key, spec, width, data.rows.dtype)
            fit = map_gauss_newton(weights, spec, data.rows, likelihood, precision, steps=GAUSS_NEWTON_STEPS)
        trained = Trained(fit, head, 0.0, {"prior precision": float(config.prior_precision)})
    return trained if bool(jnp.isfinite(trained.fit.log_posterior)) else None


def _by_evidence(spec: MLP, encoding: Encoding, data: Data, key: Array) -> Trained:
    width = data.rows.shape[1]
    groups = mlp.prior_groups(spec, width, "input", encoding.parameter_of_column)
    count = int(groups.max()) + 1
    likelihood, head, log_jacobian = evidence.likelihood_of(jnp.asarray(evidence.TAIL_START), data)
    model: LikelihoodModel = FixedLikelihood(likelihood)
    tail = np.zeros(0)
    if data.thresholds != "one":
        model, tail = WarpedThresholds(data), np.array([TAIL_NOISE, evidence.TAIL_START[1]])
    found = fit_evidence(
        random_weights(key, spec, width, data.rows.dtype),
        spec,
        data.rows,
        model,
        groups,
        (np.zeros(count), tail),
        rounds=ROUNDS,
    )
    scales: dict[str, Any] = {}
    names = [f"precision of {name}" for name in encoding.names] + ["precision of first biases"]
    names += [f"precision of layer {layer}" for layer in range(2, len(spec.hidden) + 2)]
    scales |= dict(zip(names, np.exp(found.log_precision).tolist(), strict=False))
    if data.thresholds != "one":
        _, head, log_jacobian = evidence.likelihood_of(jnp.asarray(found.tail), data)
        scales |= {"noise": float(np.exp(0.5 * found.tail[0])), "warp offset": float(np.exp(found.tail[1]))}
    return Trained(found.fit, head, float(log_jacobian), scales)
