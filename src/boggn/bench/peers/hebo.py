r"""HEBO. Conditions are not given to it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import torch
from hebo.design_space.design_space import DesignSpace
from hebo.optimizers.hebo import HEBO

PACKAGES = ("HEBO", "torch", "numpy")


class Adapter:
    """One suggestion at a time."""

    def __init__(self, space: dict[str, Any], seed: int, evals: int, noisy: bool, options: dict[str, Any]) -> None:
        del evals, noisy
        warnings.simplefilter("ignore")
        np.random.seed(seed)  # noqa: NPY002 - the stream the peer may draw from
        torch.manual_seed(seed)
        design = DesignSpace().parse([_parameter(name, entry) for name, entry in space.items()])
        self._names = list(space)
        self._optimiser = HEBO(design, scramble_seed=seed, **options)

    def ask(self) -> dict[str, Any]:
        asked = self._optimiser.suggest(n_suggestions=1)
        return {name: asked[name].iloc[0] for name in self._names}  # a row of it would turn integers to floats

    def tell(self, params: dict[str, Any], value: float) -> None:
        self._optimiser.observe(pd.DataFrame([params])[self._names], np.array([[value]]))


def _parameter(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    if entry["kind"] == "categorical":
        return {"name": name, "type": "cat", "categories": list(range(entry["count"]))}
    kinds = {("float", False): "num", ("float", True): "pow", ("int", False): "int", ("int", True): "pow_int"}
    kind = kinds[entry["kind"], entry["log"]]
    return {"name": name, "type": kind, "lb": entry["low"], "ub": entry["high"]}
