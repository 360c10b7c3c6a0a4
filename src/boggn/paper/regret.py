"""Runs of the benchmark as a figure uses them: resumable, as curves of the immediate regret (PAPER.md 10)."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from boggn.bench import run, tasks
from boggn.bench.run import Job
from boggn.errors import BoggnError
from boggn.paper import style
from boggn.paper.figure import Request, Row

Floats = NDArray[np.float64]
FLOOR = 1e-9
"""Regrets below it are drawn there: on a logarithmic axis zero has no place."""


class Curves(NamedTuple):
    """Best regret so far, one row per seed, (S, N)."""

    best: Floats

    def quartiles(self) -> Floats:
        """Lower quartile, median and upper quartile after each evaluation, (3, N)."""
        found: Floats = np.quantile(self.best, [0.25, 0.5, 0.75], axis=0)
        return found


def curves(request: Request, names: Sequence[str], methods: Iterable[str]) -> dict[tuple[str, str], Curves]:
    """By task and method; runs that the figure's file already has are not repeated."""
    chosen = tasks.expand(names)
    jobs = [Job(*job, request.evals) for job in itertools.product(chosen, methods, range(request.seeds))]
    if failed := run.run(jobs, request.runs, request.jobs):
        raise BoggnError(f"{failed} of {len(jobs)} runs failed: their errors are in {request.runs.name}.")
    rows = {run.key(row): row for row in run.read_rows(request.runs)}
    return {
        cell: Curves(np.array([np.minimum.accumulate(rows[job]["regrets"]) for job in group]))
        for cell, group in itertools.groupby(jobs, key=lambda job: (job.task, job.method))
    }


def missing(package: str) -> bool:
    """Whether a peer cannot be run here."""
    return importlib.util.find_spec(package) is None


def improvements(found: Mapping[tuple[str, str], Curves], labels: Mapping[str, str]) -> list[Row]:
    """One row per evaluation that was the best of its run so far."""
    rows: list[Row] = []
    for (task, method), (best,) in found.items():
        for seed, curve in enumerate(best):
            better = np.flatnonzero(np.diff(curve, prepend=np.inf) < 0)
            head = {"task": task, "method": labels[method], "seed": seed}
            rows += [head | {"evaluation": int(n) + 1, "regret": float(curve[n])} for n in better]
    return rows


def draw(axis: Any, found: Curves, colour: str, label: str) -> None:
    """The median with its quartiles."""
    low, median, high = np.maximum(found.quartiles(), FLOOR)
    evaluation = np.arange(1, len(median) + 1)
    style.band(axis, evaluation, low, high, colour)
    axis.plot(evaluation, median, color=colour, label=label)
