r"""What each posterior structure of the perceptron costs, all in one run on the space of `cost`, by parameters P.

Three times for each: conditioning (from the trained network to its posterior), a query (mean, variance and covariance
at a block of 256 candidates), and a whole suggestion, training and search included.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, get_args

import jax
import numpy as np
import optuna
from optuna.samplers import RandomSampler

from boggn.belief import belief
from boggn.bench import cost
from boggn.bench.document import Section, Table
from boggn.bench.rows import Job
from boggn.config import PosteriorName
from boggn.errors import ConfigurationError
from boggn.maximise import BLOCK
from boggn.network import mlp
from boggn.network.spec import MLP
from boggn.posterior.choose import condition
from boggn.posterior.structure import Structure
from boggn.sampler import BOGGNSampler

REPEATS = 5
MOST_DENSE = 6000
"""The factor of "full" takes 8 P^2 bytes and is held several times over: beyond this it is left out."""
NAMES: tuple[PosteriorName, ...] = get_args(PosteriorName)


def network_of(parameters: int, width: int) -> MLP:
    """Two equal hidden layers with about so many parameters, for rows of `width` columns."""
    half = 0.5 * (width + 3)
    units = max(1, round(math.sqrt(half**2 + parameters) - half))
    return MLP((units, units), "tanh")


def _milliseconds(work: Callable[[], Any]) -> float:
    """The least of some runs, after one that compiles: what else the machine does is not the structure's cost."""
    jax.block_until_ready(work())
    taken = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(work())
        taken.append(time.perf_counter() - began)
    return 1e3 * min(taken)


@jax.jit
def _query(posterior: Structure, anchor: Any, rows: Any) -> Any:
    return posterior.anchored_moments(rows, anchor)


def _own_cost(name: PosteriorName, trained: Structure) -> tuple[float, float]:
    """Milliseconds to condition on the rows a network was trained on, and to ask of a block of rows."""
    with jax.enable_x64(True):
        key, fit = jax.random.key(0), trained.fit
        posterior = condition(name, fit, key)
        anchor = jax.jit(type(posterior).anchor)(posterior, jax.nn.one_hot(0, len(fit.design)))
        rows = np.random.default_rng(0).uniform(-1.0, 1.0, (BLOCK, fit.design.shape[1]))
        return _milliseconds(lambda: condition(name, fit, key)), _milliseconds(lambda: _query(posterior, anchor, rows))


def _told(count: int) -> optuna.Study:
    """A study of so many random trials of the objective of `cost`."""
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    for _ in range(count):
        trial = study.ask(dict(cost.SPACE))
        study.tell(trial, cost.objective(trial.params))
    return study


def _suggestion(spec: MLP, name: PosteriorName, told: int, asks: int) -> str:
    """Median milliseconds of a whole suggestion."""
    job = Job(cost.TASK.name, f"boggn:network={spec},posterior={name}", 0, told)
    return f"{1e3 * statistics.median(cost.measure(job, asks)['ask_seconds']):.0f}"


def sections(names: Sequence[str], sizes: Sequence[int], told: int, asks: int) -> list[Section]:
    """A table with a row per structure and size; `asks` of 0 leaves whole suggestions out."""
    if unknown := [name for name in names if name not in NAMES]:
        raise ConfigurationError.invalid("names", unknown[0], "among " + ", ".join(NAMES))
    lines = []
    study = _told(told)
    width = belief(study, sampler=BOGGNSampler(seed=0))._fitted.encoding.width
    for size in sizes:
        spec = network_of(size, width)
        surrogate: Any = belief(study, sampler=BOGGNSampler(seed=0, network=spec))._fitted.surrogate
        trained = surrogate.conditioned.posterior
        count = mlp.n_parameters(spec, trained.fit.design.shape[1])
        for name in NAMES:
            if name not in names:
                continue
            if name == "full" and count > MOST_DENSE:
                lines.append([str(count), name, f"left out: a factor of {8e-9 * count**2:.1f} GB", "", ""])
                continue
            parts = [f"{part:.1f}" for part in _own_cost(name, trained)]
            parts.append(_suggestion(spec, name, told, asks) if asks else "")
            lines.append([str(count), name, *parts])
    head = f"Milliseconds with {told} trials told: least of {REPEATS} runs, median of {asks} suggestions."
    table = Table.of(["parameters", "posterior", "condition", "query", "suggestion"], lines)
    return [Section("Posterior structures", [head, table])]
