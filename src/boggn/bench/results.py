r"""Rows as arrays that can be compared: only blocks, a task and a seed, on which all methods were run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from boggn.bench.rows import Row

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Results:
    """`curves[task]` is the regret of the best point so far, `(S, M, N)`, of `seeds[task]` and `methods`."""

    methods: tuple[str, ...]
    curves: dict[str, Floats]
    seeds: dict[str, tuple[int, ...]]
    left_out: tuple[str, ...] = ()

    def at(self, count: int) -> list[Floats]:
        """Regrets after so many evaluations, `(S, M)` per task; of a shorter task, those at its end."""
        return [curve[:, :, min(count, curve.shape[2]) - 1] for curve in self.curves.values()]


def collect(rows: Iterable[Row], methods: Sequence[str] | None = None) -> Results:
    """Blocks that are complete; a task of two lengths is two tasks. A failed run keeps what it found before it failed.

    A run that found nothing has infinite regret. Absent methods are left out.
    """
    present = [row for row in rows if not row.get("absent") and (methods is None or row["method"] in methods)]
    names = tuple(dict.fromkeys(row["method"] for row in present)) if methods is None else tuple(methods)
    lengths: dict[str, set[int]] = defaultdict(set)
    for row in present:
        lengths[row["task"]].add(row["evals"])
    blocks: dict[str, dict[int, dict[str, Row]]] = defaultdict(lambda: defaultdict(dict))
    for row in present:
        name = row["task"] if len(lengths[row["task"]]) == 1 else f"{row['task']}@{row['evals']}"
        blocks[name][row["seed"]][row["method"]] = row
    curves, seeds, left_out = {}, {}, []
    for task, by_seed in blocks.items():
        whole = sorted(seed for seed, found in by_seed.items() if len(found) == len(names))
        if whole:
            seeds[task] = tuple(whole)
            curves[task] = np.array([[curve(by_seed[seed][name]) for name in names] for seed in whole])
        if len(whole) < len(by_seed):
            left_out.append(f"{task}: {len(by_seed) - len(whole)} of {len(by_seed)} seeds")
    return Results(names, curves, seeds, tuple(left_out))


def curve(row: Row) -> Floats:
    """Regret of the best point so far, `(N,)`."""
    best = np.full(row["evals"], np.inf)
    regrets = row.get("regrets", [])
    best[: len(regrets)] = regrets
    running: Floats = np.minimum.accumulate(best)
    return running
