r"""What a suggestion costs with N trials told, every method in one run on one ten-parameter mixed space."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import RandomSampler

from boggn.bench import methods

SPACE: Mapping[str, BaseDistribution] = {
    **{f"x{index}": FloatDistribution(0.0, 1.0) for index in range(4)},
    "rate": FloatDistribution(1e-5, 1.0, log=True),
    "decay": FloatDistribution(1e-6, 1e-1, log=True),
    "depth": IntDistribution(1, 8),
    "units": IntDistribution(16, 512, log=True),
    "activation": CategoricalDistribution(("relu", "tanh", "gelu")),
    "optimiser": CategoricalDistribution(("sgd", "adam")),
}
WARM_UP = 3
"""Asks that are not counted: compilation happens once a process."""


def objective(params: Mapping[str, Any]) -> float:
    """Smooth in the numbers, with a penalty per category; only there to be optimised."""
    value = sum((params[f"x{index}"] - 0.3 - 0.1 * index) ** 2 for index in range(4))
    value += 0.1 * (math.log10(params["rate"]) + 3.0) ** 2 + 0.01 * math.log10(params["decay"])
    value += 0.05 * abs(params["depth"] - 4) + 0.01 * math.log(params["units"])
    return float(value + 0.1 * (params["activation"] != "tanh") + 0.1 * (params["optimiser"] != "adam"))


def told(count: int, seed: int) -> list[optuna.trial.FrozenTrial]:
    """So many random trials of the objective."""
    study = optuna.create_study(sampler=RandomSampler(seed=seed))
    for _ in range(count):
        trial = study.ask(dict(SPACE))
        study.tell(trial, objective(trial.params))
    return study.get_trials()


def ask_seconds(method: str, count: int, asks: int, seed: int = 0) -> list[float]:
    """Wall seconds of each of `asks` suggestions from `count` trials told on, each told before the next."""
    study = optuna.create_study(sampler=methods.get(method).sampler(seed))
    study.add_trials(told(count, seed))
    seconds = []
    for _ in range(asks + WARM_UP):
        began = time.perf_counter()
        trial = study.ask(dict(SPACE))
        seconds.append(time.perf_counter() - began)
        study.tell(trial, objective(trial.params))
    return seconds[WARM_UP:]


def markdown(names: Sequence[str], counts: Sequence[int], asks: int) -> str:
    """A table of mean and median milliseconds per ask, a row per number of trials told."""
    lines = ["| trials told | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        for count in counts:
            timed = [ask_seconds(name, count, asks) for name in names]
            cells = [f"{1e3 * statistics.mean(s):.1f} ({1e3 * statistics.median(s):.1f})" for s in timed]
            lines.append(f"| {count} | " + " | ".join(cells) + " |")
    return "\n".join(["Milliseconds per suggestion, mean (median) of " + f"{asks} asks.", "", *lines])
