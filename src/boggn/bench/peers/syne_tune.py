r"""Syne Tune's BORE. It knows no conditions: to it every parameter is always there."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from syne_tune.config_space import choice, lograndint, loguniform, randint, uniform
from syne_tune.optimizer.schedulers.searchers.bore import Bore

PACKAGES = ("syne-tune", "scikit-learn", "xgboost", "numpy")


class Adapter:
    """The searcher itself, without the scheduler that would start trials as processes."""

    def __init__(self, space: dict[str, Any], seed: int, evals: int, noisy: bool, options: dict[str, Any]) -> None:
        del evals, noisy
        np.random.seed(seed)  # noqa: NPY002 - its random points come from the global stream
        logging.getLogger("syne_tune").setLevel(logging.ERROR)
        self._space = space
        self._searcher = Bore({name: _domain(entry) for name, entry in space.items()}, random_seed=seed, **options)
        self._told = 0

    def ask(self) -> dict[str, Any]:
        asked: dict[str, Any] = self._searcher.suggest()
        return asked

    def tell(self, params: dict[str, Any], value: float) -> None:
        self._searcher.on_trial_complete(str(self._told), params, value)
        self._told += 1


def _domain(entry: dict[str, Any]) -> Any:
    if entry["kind"] == "categorical":
        return choice(list(range(entry["count"])))
    if entry["kind"] == "float":
        return (loguniform if entry["log"] else uniform)(entry["low"], entry["high"])
    return (lograndint if entry["log"] else randint)(entry["low"], entry["high"])
