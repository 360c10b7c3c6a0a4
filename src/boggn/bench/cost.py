r"""What a suggestion costs: with N trials told, in time and memory, and from nothing; on ten mixed parameters."""

from __future__ import annotations

import functools
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from boggn.bench import methods
from boggn.bench.document import Section, Table
from boggn.bench.optimiser import Optimiser
from boggn.bench.rows import Job, Row, key
from boggn.bench.run import environment, run_jobs
from boggn.bench.task import Task

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
COLD_TOLD = 20
"""Enough that the model is asked, and not the random design before it."""


def objective(params: Mapping[str, Any]) -> float:
    """Smooth in the numbers, with a penalty per category; only there to be optimised."""
    value = sum((params[f"x{index}"] - 0.3 - 0.1 * index) ** 2 for index in range(4))
    value += 0.1 * (math.log10(params["rate"]) + 3.0) ** 2 + 0.01 * math.log10(params["decay"])
    value += 0.05 * abs(params["depth"] - 4) + 0.01 * math.log(params["units"])
    return float(value + 0.1 * (params["activation"] != "tanh") + 0.1 * (params["optimiser"] != "adam"))


TASK = Task("cost", SPACE, lambda params, _: objective(params), objective, math.nan, "only there to be timed")


def measure(job: Job, asks: int, began: float | None = None) -> Row:
    """Tell `job.evals` points of random search, then time `asks` suggestions, each told before the next.

    With `began`, the time at which somebody wanted a suggestion, only one is asked for, and what counts is the wait.
    """
    row: Row = {**asdict(job), "error": None}
    optimiser = methods.get(job.method).start(TASK, job.seed, job.evals + asks + WARM_UP)
    others = methods.get("random").start(TASK, job.seed, job.evals)
    tells = []
    for _ in range(job.evals):
        params = others.ask()
        start = time.perf_counter()
        optimiser.tell(params, objective(params))
        tells.append(time.perf_counter() - start)
    if began is not None:
        optimiser.ask()
        row["wait_seconds"] = time.time() - began
    else:
        row["ask_seconds"] = [_ask(optimiser) for _ in range(WARM_UP + asks)][WARM_UP:]
    row |= {"tell_seconds": tells, **optimiser.usage()._asdict()}
    optimiser.close()
    return row


def _ask(optimiser: Optimiser) -> float:
    start = time.perf_counter()
    params = optimiser.ask()
    taken = time.perf_counter() - start
    optimiser.tell(params, objective(params))
    return taken


def sections(names: Sequence[str], counts: Sequence[int], asks: int, limit: float) -> list[Section]:
    """Suggestions, tells and memory with so many trials told, then cold starts; every figure from a fresh process."""
    work = functools.partial(measure, asks=asks)
    jobs = [Job(TASK.name, name, 0, count) for count in sorted(counts) for name in names]
    rows = {key(row): row for row in run_jobs(jobs, 1, work, limit)}
    cells = {
        f"Milliseconds per suggestion, mean (median) of {asks}": _suggestion,
        "Milliseconds per trial told": lambda row: f"{1e3 * statistics.fmean(row['tell_seconds']):.3g}",
        "Peak memory, MB": lambda row: f"{row['peak_bytes'] / 1e6:.0f}",
    }
    parts: list[str | Table] = [f"On {len(SPACE)} mixed parameters; each figure from a process of its own."]
    for title, cell in cells.items():
        lines = [
            [str(count), *(_cell(rows[Job(TASK.name, name, 0, count)], cell) for name in names)] for count in counts
        ]
        parts += [title, Table.of(["trials told", *names], lines)]
    return [Section("Scaling", parts), Section("Cold start", _cold(names, limit))]


def _suggestion(row: Row) -> str:
    seconds = row["ask_seconds"]
    return f"{1e3 * statistics.fmean(seconds):.3g} ({1e3 * statistics.median(seconds):.3g})"


def _cell(row: Row, cell: Callable[[Row], str]) -> str:
    return cell(row) if row["error"] is None else row["error"].strip().splitlines()[-1]


def _cold(names: Sequence[str], limit: float) -> list[str | Table]:
    """Twice each: with an empty folder for what JAX compiles, and with what the first time left in it."""
    lines = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder, environment(JAX_COMPILATION_CACHE_DIR=folder):
            waits = [_wait(Job(TASK.name, name, 0, COLD_TOLD), limit) for _ in range(2)]
        lines.append([name, *waits])
    text = (
        f"Seconds from nothing to a suggestion, {COLD_TOLD} trials told: interpreter, imports, compilation, the model."
    )
    return [text, Table.of(["method", "first time", "with what JAX kept"], lines)]


def _wait(job: Job, limit: float) -> str:
    (row,) = run_jobs([job], 1, functools.partial(measure, asks=1, began=time.time()), limit)
    return _cell(row, lambda row: f"{row['wait_seconds']:.2f}")
