r"""From observations to the next point: the only module that composes the layers below it.

| here         | meaning                                                                              |
|--------------|--------------------------------------------------------------------------------------|
| `Suggestion` | the next unit row and what the engine thought of it                                   |
| `seed`       | entropy of this suggestion: the same seed and history give the same suggestion         |
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from boggn import bore, success
from boggn.acquisition import log_expected_improvement, log_probability_of_improvement
from boggn.config import Config
from boggn.encoding import Encoding
from boggn.maximise import BLOCK, Options, Search, Target, from_cube, identity, uniform
from boggn.observed import History
from boggn.surrogate import Conditioned, Memory, Surrogate, fit_surrogate

Floats = NDArray[np.float64]
AnySurrogate = Surrogate | bore.ClassifierSurrogate
INCUMBENTS = 5
"""Points whose neighbourhood is searched."""


@dataclass(frozen=True)
class Suggestion:
    """The next point, and the record of how it was found."""

    unit: Floats
    record: dict[str, Any]


def suggest(config: Config, encoding: Encoding, history: History, seed: list[int], memory: Memory) -> Suggestion:
    """The next point to evaluate, by Algorithm 1 with the configured classifier."""
    rng = np.random.default_rng(seed)
    if rng.random() < config.chance_of_random:
        return _random(encoding, rng, "epsilon")
    began = time.perf_counter()
    surrogate = fit(config, encoding, history, seed, memory)
    if isinstance(surrogate, str):
        return _random(encoding, rng, surrogate)
    fitted = time.perf_counter()
    with jax.enable_x64(True):
        unit, judged = _maximise(config, encoding, history, surrogate, rng)
    times = {"fit_seconds": fitted - began, "maximise_seconds": time.perf_counter() - fitted}
    return Suggestion(unit, surrogate.record | judged | times)


def fit(config: Config, encoding: Encoding, history: History, seed: list[int], memory: Memory) -> AnySurrogate | str:
    """The configured classifier fitted to a history, to be asked at any point; or why there is none."""
    if config.classifier is not None:
        return bore.fit(config, encoding, history, seed)
    with jax.enable_x64(True):
        surrogate = fit_surrogate(config, encoding, history, seed, memory)
        if isinstance(surrogate, str) or len(history.failed) == 0:
            return surrogate
        return surrogate.cautious(success.fit(config, encoding, history, memory))


def random_suggestion(encoding: Encoding, seed: list[int], reason: str) -> Suggestion:
    """A uniform point, and why it is one."""
    return _random(encoding, np.random.default_rng(seed), reason)


def _random(encoding: Encoding, rng: np.random.Generator, reason: str) -> Suggestion:
    return Suggestion(uniform(encoding, rng, 1)[0], {"random": reason})


def startup_point(encoding: Encoding, seed: list[int], index: int) -> Suggestion:
    """The point `index` of a scrambled Sobol sequence over the space."""
    from scipy.stats import qmc

    sequence = qmc.Sobol(encoding.n_parameters, scramble=True, rng=np.random.default_rng(seed))
    unit = sequence.fast_forward(index).random(1) if index else sequence.random(1)
    return Suggestion(from_cube(encoding, unit)[0], {"random": "startup"})


Column = TypeVar("Column", Array, Floats)


class Report(NamedTuple, Generic[Column]):
    """What points are worth, and what their record will say."""

    value: Column
    log_pi: Column
    log_ei: Column
    mean: Column
    variance: Column
    log_success: Column


def report(surrogate: Surrogate, rows: Floats) -> Report[Floats]:
    """What a surrogate says of any number of encoded rows (B, W)."""
    blocks: list[list[Floats]] = []
    with jax.enable_x64(True):
        for begin in range(0, len(rows), BLOCK):
            block = np.zeros((BLOCK, surrogate.width))
            part = rows[begin : begin + BLOCK]
            block[: len(part), : rows.shape[1]] = part
            blocks.append([np.asarray(column)[: len(part)] for column in _report(surrogate.conditioned, block)])
    empty = [[np.zeros(0)] * len(Report._fields)]
    return Report(*(np.concatenate(columns) for columns in zip(*(blocks or empty), strict=True)))


@jax.jit
def _report(surrogate: Conditioned, rows: Array) -> Report[Array]:
    acquisition = surrogate.acquisition
    point = surrogate.moments(rows)
    log_pi = log_probability_of_improvement(point.mean, point.variance, acquisition.cut, acquisition.head)
    log_ei = jnp.full_like(log_pi, jnp.nan)
    if acquisition.head.warp is not None:
        log_ei = log_expected_improvement(point, acquisition.incumbent, acquisition.head.warp)
    log_success = surrogate.log_success(rows)
    return Report(surrogate.value(point, log_success), log_pi, log_ei, point.mean, point.variance, log_success)


@jax.jit
def _gradients(surrogate: Conditioned, rows: Array) -> tuple[Array, Array]:
    def total(points: Array) -> tuple[Array, Array]:
        values = surrogate.value(surrogate.moments(points), surrogate.log_success(points))
        return values.sum(), values

    (_, values), slopes = jax.value_and_grad(total, has_aux=True)(rows)
    return values, slopes


def _options(config: Config, size: int | None) -> Options:
    """The paper's maximiser draws 500 random candidates of a discrete space and 2000 of any other (PAPER.md 8)."""
    if config.candidates == "random":
        return Options(n_random=2000 if size is None else 500, n_neighbours=0, swaps=False)
    return Options()


def _maximise(
    config: Config, encoding: Encoding, history: History, surrogate: AnySurrogate, rng: np.random.Generator
) -> tuple[Floats, dict[str, float]]:
    seen: frozenset[bytes] = frozenset()
    size = encoding.size
    if config.deterministic_objective:
        known = frozenset(identity(np.vstack([history.units, history.running])))
        seen = known if size is None or len(known) < size else seen
    search = Search(encoding, surrogate.width, _target(surrogate), rng, _options(config, size), seen)
    best = np.lexsort((history.values, surrogate.means))[:INCUMBENTS]
    units, _ = search.run(history.units[best])
    return units[0], _judged(surrogate, search.block(units))


def _target(surrogate: AnySurrogate) -> Target:
    if isinstance(surrogate, bore.ClassifierSurrogate):
        return Target(surrogate.probability)

    def values(rows: Floats) -> Floats:
        return np.asarray(_report(surrogate.searched, rows).value)

    def gradients(rows: Floats) -> tuple[Floats, Floats]:
        value, slope = _gradients(surrogate.searched, rows)
        return np.asarray(value), np.asarray(slope)

    return Target(values, gradients)


def _judged(surrogate: AnySurrogate, block: Floats) -> dict[str, float]:
    """What the first point of a block is worth."""
    if isinstance(surrogate, bore.ClassifierSurrogate):
        return surrogate.judged(block[:1])
    report = jax.tree.map(lambda column: float(np.asarray(column)[0]), _report(surrogate.conditioned, block))
    read = {
        "pi": math.exp(report.log_pi),
        "ratio": math.exp(report.log_pi) / surrogate.record["gamma"],
        "ei": math.exp(report.log_ei) * surrogate.scale.span,
    }
    found = {"acquisition": report.value, **{name: read[name] for name in read if name in surrogate.knows}}
    found |= {"mean": report.mean, "deviation": math.sqrt(report.variance)}
    return found if surrogate.conditioned.success is None else found | {"success": math.exp(report.log_success)}
