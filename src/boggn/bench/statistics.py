r"""Comparisons of methods over tasks and seeds, on plain arrays.

Notation
--------
S, M, N    seeds, methods, evaluations
curves     regret of the best point so far, one array per task, `(S, M, N)`; runs of one seed are a pair
values     the same after some number of evaluations, `(S, M)`
scale      of a task: the median regret of all first evaluations
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DRAWS = 2000
LEVEL = 0.95
FEW = 6
"""Of fewer pairs that all point one way, chance alone is too likely: 2 / 2^5 > 1 - LEVEL."""
FLOOR = 1e-4
"""Of the scale: what is smaller counts as solved in the area under a curve."""


class Estimate(NamedTuple):
    """A number with its bootstrap interval."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether its sign can be stated."""
        return self.low > 0 or self.high < 0


def ranks(values: Floats) -> Floats:
    """Rank of every method within its seed, 1 the smallest regret; equal regrets share their mean rank. `(S, M)`."""
    from scipy.stats import rankdata

    ranked: Floats = rankdata(values, axis=1)
    return ranked


def bootstrap(per_task: Sequence[Floats], draws: int = DRAWS, these_tasks: bool = False) -> Floats:
    """Means over tasks of means over seeds, `(draws, M)`: tasks are drawn anew, and in each of them its seeds.

    Drawing only seeds says how sure one may be of `these_tasks`; drawing tasks as well, of tasks like these.
    """
    rng = np.random.default_rng(0)
    drawn = np.empty((draws, per_task[0].shape[1]))
    count = len(per_task)
    for draw in drawn:
        chosen = range(count) if these_tasks else rng.integers(count, size=count).tolist()
        tasks = [per_task[index] for index in chosen]
        draw[:] = np.mean([task[rng.integers(len(task), size=len(task))].mean(axis=0) for task in tasks], axis=0)
    return drawn


def interval(value: float, drawn: Floats, level: float = LEVEL) -> Estimate:
    """The percentile interval of bootstrap draws."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high))


def mean_ranks(values: Sequence[Floats]) -> list[Estimate]:
    """Mean rank of each method, over seeds within a task and then over tasks."""
    per_task = [ranks(task) for task in values]
    means, drawn = np.mean([task.mean(axis=0) for task in per_task], axis=0), bootstrap(per_task)
    return [interval(float(mean), draws) for mean, draws in zip(means, drawn.T, strict=True)]


def rank_differences(values: Sequence[Floats], reference: int, these_tasks: bool = False) -> list[Estimate]:
    """Mean rank less that of the reference, drawn in pairs: negative is better than the reference.

    The intervals are wide enough to hold all at once (Bonferroni), whichever of them is looked at first.
    """
    per_task = [task - task[:, [reference]] for task in map(ranks, values)]
    means = np.mean([task.mean(axis=0) for task in per_task], axis=0)
    drawn = bootstrap(per_task, 2 * DRAWS, these_tasks)
    level = 1 - (1 - LEVEL) / max(len(means) - 1, 1)
    return [interval(float(mean), draws, level) for mean, draws in zip(means, drawn.T, strict=True)]


def wilcoxon(ours: Floats, theirs: Floats) -> float:
    """Two-sided p of the signed-rank test on pairs; 1 where no pair differs."""
    from scipy.stats import wilcoxon as signed_rank

    with np.errstate(invalid="ignore"):  # two failed runs: infinite less infinite
        difference = np.nan_to_num(ours - theirs, nan=0.0, posinf=math.inf, neginf=-math.inf)
    if not difference.any():
        return 1.0
    # Ranks are all that counts, and the infinite difference of a failed run is the largest.
    finite = np.abs(difference[np.isfinite(difference)]).max(initial=1.0)
    return float(signed_rank(np.clip(difference, -2 * finite, 2 * finite)).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p: the chance of one false finding among all of these stays below the level."""
    order = np.argsort(p_values, kind="stable")
    adjusted, largest = np.empty(len(p_values)), 0.0
    for position, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - position) * p_values[index]))
        adjusted[index] = largest
    return [float(p) for p in adjusted]


def scale(curves: Floats) -> float:
    """The median regret of all first evaluations of a task."""
    first = curves[:, :, 0]
    return float(np.median(first[np.isfinite(first)])) if np.isfinite(first).any() else 1.0


def areas(curves: Floats) -> Floats:
    r"""Mean over evaluations of the normalised curve, `(S, M)`: 0 is the optimum at once, 1 no progress at all.

    clip(log(regret / floor) / log(scale / floor), 0, 1) with floor = FLOOR scale: a tenth of the regret is worth the
    same wherever it comes, down to the floor.
    """
    with np.errstate(divide="ignore"):  # the logarithm of regret 0 is clipped
        height = 1 + np.log(curves / (scale(curves) or 1.0)) / -math.log(FLOOR)
    area: Floats = np.clip(height, 0, 1).mean(axis=2)
    return area


def evaluations_to(curves: Floats, target: float) -> Floats:
    """The evaluation at which the regret is first at or below the target, `(S, M)`; infinite if it never is."""
    reached = curves <= target
    return np.where(reached.any(axis=2), reached.argmax(axis=2) + 1.0, math.inf)


def profile(curves: Sequence[Floats], ratios: Floats, target: float) -> Floats:
    r"""Performance profiles of Dolan and Moré, `(M, len(ratios))`, every task and seed a problem.

    The share of problems on which a method needs at most `ratio` times the evaluations of the fastest method there to
    reach the regret `target` times the task's scale; at ratio infinity, on which it gets there. Tasks count the same.
    """
    shares = []
    for task in curves:
        needed = evaluations_to(task, target * scale(task))
        fastest = needed.min(axis=1, keepdims=True)
        within = needed[:, :, None] <= fastest[:, :, None] * ratios
        shares.append((within & np.isfinite(needed[:, :, None])).mean(axis=0))
    mean: Floats = np.mean(shares, axis=0)
    return mean


def friedman(mean_ranks_per_task: Floats) -> float:
    """p of Friedman's test that all methods are alike, from ranks `(T, M)`, in the F form of Iman and Davenport."""
    from scipy.stats import f

    tasks, methods = mean_ranks_per_task.shape
    squares = float((mean_ranks_per_task.mean(axis=0) ** 2).sum())
    chi = 12 * tasks / (methods * (methods + 1)) * (squares - methods * (methods + 1) ** 2 / 4)
    if tasks < 2 or chi <= 0:
        return 1.0
    if chi >= tasks * (methods - 1):
        return 0.0
    statistic = (tasks - 1) * chi / (tasks * (methods - 1) - chi)
    return float(f.sf(statistic, methods - 1, (methods - 1) * (tasks - 1)))


def critical_difference(methods: int, tasks: int) -> float:
    """Nemenyi's: mean ranks over tasks that differ by less cannot be told apart (Demšar 2006, equation 6)."""
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(LEVEL, methods, math.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * tasks))


def cliques(mean: Sequence[float], difference: float) -> list[list[int]]:
    """The largest groups of methods whose mean ranks lie within the critical difference, best first."""
    order = [int(index) for index in np.argsort(mean, kind="stable")]
    groups: list[list[int]] = []
    for start, first in enumerate(order):
        group = [index for index in order[start:] if mean[index] - mean[first] <= difference]
        if len(group) > 1 and not any(set(group) <= set(other) for other in groups):
            groups.append(group)
    return groups
