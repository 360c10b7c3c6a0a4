r"""SMAC3 through its facades. Conditions are given to it; it hears whether observations are noisy."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import ConfigSpace
import numpy as np
from smac import BlackBoxFacade, HyperparameterOptimizationFacade, Scenario
from smac.runhistory.dataclasses import TrialInfo, TrialValue

PACKAGES = ("smac", "ConfigSpace", "scikit-learn", "numpy")
_FACADES = {"hyperparameter": HyperparameterOptimizationFacade, "blackbox": BlackBoxFacade}


class Adapter:
    """`deterministic` unless told otherwise where there is no noise: then no point is evaluated twice."""

    def __init__(self, space: dict[str, Any], seed: int, evals: int, noisy: bool, options: dict[str, Any]) -> None:
        np.random.seed(seed)  # noqa: NPY002 - the stream the peer may draw from
        self._space = _configuration_space(space, seed)
        facade = _FACADES[options.pop("facade", "hyperparameter")]
        self._kinds = space
        settings = {"deterministic": not noisy, **options}
        scenario = Scenario(self._space, n_trials=evals, seed=seed, output_directory=Path("smac"), **settings)
        self._facade = facade(scenario, _never_called, overwrite=True, logging_level=logging.ERROR)
        self._asked: TrialInfo | None = None

    def ask(self) -> dict[str, Any]:
        self._asked = self._facade.ask()
        return dict(self._asked.config)

    def tell(self, params: dict[str, Any], value: float) -> None:
        info, self._asked = self._asked, None
        if info is None or dict(info.config) != params:
            info = TrialInfo(ConfigSpace.Configuration(self._space, params), seed=0)
        self._facade.tell(info, TrialValue(cost=value), save=False)


def _never_called(config: Any, seed: int = 0) -> float:
    raise NotImplementedError


def _configuration_space(space: dict[str, Any], seed: int) -> Any:
    built = ConfigSpace.ConfigurationSpace(seed=seed)
    for name, entry in space.items():
        if entry["kind"] == "categorical":
            built.add(ConfigSpace.Categorical(name, list(range(entry["count"]))))
        else:
            make = ConfigSpace.Float if entry["kind"] == "float" else ConfigSpace.Integer
            built.add(make(name, (entry["low"], entry["high"]), log=entry["log"]))
    for name, entry in space.items():
        if "parent" in entry:
            parent, values = entry["parent"]
            built.add(ConfigSpace.InCondition(built[name], built[parent], values))
    return built
