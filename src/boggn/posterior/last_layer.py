r"""Laplace's posterior of the output layer alone, given the hidden layers as they were trained (PAPER.md 4).

The evidence, too, is an integral over the output layer: the hidden layers are features, and neither their size nor
their weights are held against the model. It compares priors of one network, not networks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
from jax import Array

from boggn.fit import MapFit
from boggn.network import mlp
from boggn.network.mlp import Factors
from boggn.posterior.structure import Dense, Structure, curvature_of, factors_of


@final
@partial(jax.tree_util.register_dataclass, data_fields=["fit", "dense"], meta_fields=[])
@dataclass(frozen=True)
class LastLayerPosterior(Structure):
    """Sigma is the inverse of the output layer's block of H, and zero elsewhere."""

    dense: Dense

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None) -> LastLayerPosterior:
        """As in `Structure.of`, with any prior precision."""
        found: LastLayerPosterior = _condition(fit, running)
        return found

    def variance(self, rows: Factors) -> Array:
        """The diagonal of J Sigma J': in the output layer J is what that layer reads."""
        return self.dense.variance(rows.inputs[-1])

    def times(self, direction: Array) -> Array:
        """Sigma v."""
        return self._embed(self.dense.times(direction[_output(self.fit)]))

    def steps(self, key: Array, count: int) -> Array:
        """Draws of theta - theta_map, zero in the hidden layers."""
        return self._embed(self.dense.steps(key, count))

    def log_contraction(self) -> Array:
        """Of the output layer."""
        return self.dense.log_contraction()

    def penalty(self) -> Array:
        """Of the output layer."""
        output = _output(self.fit)
        return 0.5 * self.fit.prior_precision[output] @ self.fit.params[output] ** 2

    def _embed(self, part: Array) -> Array:
        hidden = jnp.zeros((*part.shape[:-1], self.fit.params.shape[0] - part.shape[-1]), part.dtype)
        return jnp.concatenate([hidden, part], axis=-1)


def _output(fit: MapFit) -> slice:
    return mlp.layers(fit.spec, fit.design.shape[1])[-1]


@jax.jit
def _condition(fit: MapFit, running: Array | None) -> LastLayerPosterior:
    rows = factors_of(fit, fit.design)
    curvature = curvature_of(fit, rows.latent, running)
    return LastLayerPosterior(fit, Dense.of(rows.inputs[-1], curvature, fit.prior_precision[_output(fit)]))
