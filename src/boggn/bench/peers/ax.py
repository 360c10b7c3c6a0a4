r"""Ax through its client, with its default generation strategy. Conditions are not given to it."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

PACKAGES = ("ax-platform", "botorch", "gpytorch", "torch", "numpy")


class Adapter:
    """One trial at a time; where there is no noise the standard error is given as zero."""

    def __init__(self, space: dict[str, Any], seed: int, evals: int, noisy: bool, options: dict[str, Any]) -> None:
        del evals
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        torch.manual_seed(seed)
        self._noisy = noisy
        self._client = Client(random_seed=seed)
        self._client.configure_experiment(parameters=[_parameter(name, entry) for name, entry in space.items()])
        self._client.configure_optimization(objective="-loss")
        self._client.configure_generation_strategy(initialization_random_seed=seed, **options)
        self._asked: tuple[int, dict[str, Any]] | None = None

    def ask(self) -> dict[str, Any]:
        ((number, params),) = self._client.get_next_trials(max_trials=1).items()
        self._asked = number, dict(params)
        return dict(params)

    def tell(self, params: dict[str, Any], value: float) -> None:
        asked, self._asked = self._asked, None
        number = asked[0] if asked is not None and asked[1] == params else self._client.attach_trial(params)
        self._client.complete_trial(number, raw_data={"loss": value if self._noisy else (value, 0.0)})


def _parameter(name: str, entry: dict[str, Any]) -> Any:
    if entry["kind"] == "categorical":
        values = list(range(entry["count"]))
        return ChoiceParameterConfig(name=name, values=values, parameter_type="int", is_ordered=False)
    return RangeParameterConfig(
        name=name,
        bounds=(entry["low"], entry["high"]),
        parameter_type=entry["kind"],
        scaling="log" if entry["log"] else "linear",
    )
