r"""Nevergrad's portfolio. It knows no conditions: to it every parameter is always there."""

from __future__ import annotations

import warnings
from typing import Any

import nevergrad
import numpy as np

PACKAGES = ("nevergrad", "cma", "numpy")


class Adapter:
    """`optimiser` names one of its registry."""

    def __init__(self, space: dict[str, Any], seed: int, evals: int, noisy: bool, options: dict[str, Any]) -> None:
        warnings.simplefilter("ignore")
        np.random.seed(seed)  # noqa: NPY002 - the stream the peer may draw from
        dictionary = nevergrad.p.Dict(**{name: _parameter(entry) for name, entry in space.items()})
        dictionary.random_state.seed(seed)
        dictionary.function.deterministic = not noisy
        make = nevergrad.optimizers.registry[options.pop("optimiser", "NGOpt")]
        self._optimiser = make(parametrization=dictionary, budget=evals, num_workers=1, **options)
        self._asked: Any = None

    def ask(self) -> dict[str, Any]:
        self._asked = self._optimiser.ask()
        asked: dict[str, Any] = dict(self._asked.value)
        return asked

    def tell(self, params: dict[str, Any], value: float) -> None:
        candidate, self._asked = self._asked, None
        if candidate is None or dict(candidate.value) != params:
            candidate = self._optimiser.parametrization.spawn_child(new_value=params)
        self._optimiser.tell(candidate, value)


def _parameter(entry: dict[str, Any]) -> Any:
    if entry["kind"] == "categorical":
        return nevergrad.p.Choice(list(range(entry["count"])))
    make = nevergrad.p.Log if entry["log"] else nevergrad.p.Scalar
    parameter = make(lower=entry["low"], upper=entry["high"])
    return parameter.set_integer_casting() if entry["kind"] == "int" else parameter
