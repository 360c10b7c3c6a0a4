"""Posterior structures of the finite network by their names."""

from __future__ import annotations

from jax import Array

from boggn.config import PosteriorName
from boggn.fit import MapFit
from boggn.posterior.diagonal import DiagonalPosterior
from boggn.posterior.full import FullPosterior
from boggn.posterior.kron import KroneckerPosterior
from boggn.posterior.last_layer import LastLayerPosterior
from boggn.posterior.linearised import LinearisedPosterior
from boggn.posterior.mean_field import MeanFieldPosterior
from boggn.posterior.structure import Structure
from boggn.posterior.subset import SubsetPosterior

STRUCTURES: dict[PosteriorName, type[Structure]] = {
    "function": LinearisedPosterior,
    "full": FullPosterior,
    "subset": SubsetPosterior,
    "kron": KroneckerPosterior,
    "diagonal": DiagonalPosterior,
    "last_layer": LastLayerPosterior,
    "mean_field": MeanFieldPosterior,
}


def condition(name: PosteriorName, fit: MapFit, key: Array) -> Structure:
    """The posterior of that structure; `key` is for those that draw random numbers."""
    if name == "mean_field":
        return MeanFieldPosterior.of(fit, key=key)
    return STRUCTURES[name].of(fit)
