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

from boggn.belief import belief
from boggn.bench import cost
from boggn.config import PosteriorName
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


def markdown(names: Sequence[str], sizes: Sequence[int], told: int, asks: int) -> str:
    """A table with a row per structure and size; `asks` of 0 leaves whole suggestions out."""
    if unknown := [name for name in names if name not in NAMES]:
        raise ValueError(f"Unknown posterior {unknown[0]!r}; known are {', '.join(NAMES)}.")
    lines = ["| parameters | posterior | condition | query | suggestion |", "| --- | --- | --- | --- | --- |"]
    study = optuna.create_study()
    study.add_trials(cost.told(told, 0))
    width = belief(study, sampler=BOGGNSampler(seed=0))._fitted.encoding.width
    for size in sizes:
        spec = network_of(size, width)
        trained: Any = belief(study, sampler=BOGGNSampler(seed=0, network=spec))._fitted.surrogate.conditioned.posterior
        count = mlp.n_parameters(spec, trained.fit.design.shape[1])
        for name in NAMES:
            if name not in names:
                continue
            if name == "full" and count > MOST_DENSE:
                lines.append(f"| {count} | {name} | left out: a factor of {8e-9 * count**2:.1f} GB | | |")
                continue
            parts = [f"{part:.1f}" for part in _own_cost(name, trained)]
            seconds = cost.ask_seconds(f"boggn:network={spec},posterior={name}", told, asks) if asks else []
            parts.append(f"{1e3 * statistics.median(seconds):.0f}" if seconds else "")
            lines.append(f"| {count} | {name} | " + " | ".join(parts) + " |")
    head = f"Milliseconds with {told} trials told: least of {REPEATS} runs, median of {asks} suggestions."
    return "\n".join([head, "", *lines])
