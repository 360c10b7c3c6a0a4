r"""Which method is better, and whether the runs can tell: ranks, areas, profiles, tests, and what may be said."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from boggn.bench import statistics
from boggn.bench.document import Section, Table
from boggn.bench.results import Results
from boggn.bench.statistics import Estimate

TARGETS = (1e-1, 1e-2, 1e-3)
RATIOS = (1.0, 2.0, 5.0)
ALPHA = 1 - statistics.LEVEL


def sections(found: Results, checkpoints: Sequence[int], reference: str | None) -> list[Section]:
    """Nothing where fewer than two methods were run on the same task and seed."""
    if len(found.methods) < 2 or not found.curves:
        return []
    longest = max(curve.shape[2] for curve in found.curves.values())
    counts = sorted({count for count in checkpoints if count < longest} | {longest})
    parts = [Section("What can be said", _statements(found, longest, reference))]
    parts.append(Section("Mean rank", _ranks(found, counts)))
    parts.append(Section("Anytime", [*_areas(found), *_profiles(found)]))
    if reference in found.methods:
        parts.append(Section(f"Tests against {reference}", _tests(found, longest, found.methods.index(reference))))
    return parts


def _number(estimate: Estimate, digits: int = 2) -> str:
    return f"{estimate.value:.{digits}f} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def _blocks(found: Results) -> str:
    runs = sum(map(len, found.seeds.values()))
    text = (
        f"{len(found.curves)} tasks, {runs} blocks (a task and a seed) on which all {len(found.methods)} methods ran."
    )
    return f"{text} Left out as incomplete: {'; '.join(found.left_out)}." if found.left_out else text


def _statements(found: Results, count: int, reference: str | None) -> list[str | Table]:
    """Only what the interval of a paired difference supports; the rest is said to be open."""
    values = found.at(count)
    best = int(np.argmin([estimate.value for estimate in statistics.mean_ranks(values)]))
    centre = found.methods.index(reference) if reference in found.methods else best
    said: list[str | Table] = [_blocks(found)]
    few = len(values) < statistics.FEW
    if few and min(map(len, values)) < statistics.FEW:
        return [
            *said,
            f"Too few for any claim: it takes {statistics.FEW} tasks, or {statistics.FEW} seeds of every task.",
        ]
    open_ones = []
    for name, estimate in zip(found.methods, statistics.rank_differences(values, centre, few), strict=True):
        if name == found.methods[centre]:
            continue
        if not estimate.excludes_zero:
            open_ones.append(f"{name} ({_number(estimate)})")
            continue
        word = "better" if estimate.value < 0 else "worse"
        near, far = sorted((abs(estimate.low), abs(estimate.high)))
        difference = f"{abs(estimate.value):.2f} [{near:.2f}, {far:.2f}]"
        said.append(f"After {count} evaluations {name} ranks {word} than {found.methods[centre]}, by {difference}.")
    if open_ones:
        said.append(f"Not to be told apart from {found.methods[centre]} by these runs: {', '.join(open_ones)}.")
    reach = "of these tasks alone: they are too few to speak for others" if few else "of tasks like these"
    return [*said, f"The intervals hold all at once at 95 %, and {reach}."]


def _ranks(found: Results, counts: Sequence[int]) -> list[str | Table]:
    estimates = [statistics.mean_ranks(found.at(count)) for count in counts]
    order = np.argsort([estimate.value for estimate in estimates[-1]], kind="stable")
    lines = [[found.methods[i], *(_number(column[i]) for column in estimates)] for i in order]
    text = f"Of the regret of the best point evaluated; 1 is the best, {len(found.methods)} the worst. "
    text += "In brackets, 95 % of bootstrap draws over tasks and seeds."
    return [text, Table.of(["method", *(f"@{count}" for count in counts)], lines), *_groups(found, counts[-1])]


def _groups(found: Results, count: int) -> list[str | Table]:
    per_task = np.array([statistics.ranks(task).mean(axis=0) for task in found.at(count)])
    p, mean = statistics.friedman(per_task), per_task.mean(axis=0)
    if p > ALPHA:
        return [f"Friedman's test does not tell the methods apart (p = {p:.2g})."]
    difference = statistics.critical_difference(len(found.methods), len(per_task))
    groups = statistics.cliques([float(rank) for rank in mean], difference)
    alike = "; ".join(", ".join(found.methods[i] for i in group) for group in groups) or "none"
    text = f"Friedman's test tells the methods apart (p = {p:.2g}). Critical difference of mean ranks over "
    return [f"{text}{len(per_task)} tasks {difference:.2f} (Nemenyi, 5 %); not significantly different: {alike}."]


def _areas(found: Results) -> list[str | Table]:
    per_task = [statistics.areas(curve) for curve in found.curves.values()]
    means, drawn = np.mean([task.mean(axis=0) for task in per_task], axis=0), statistics.bootstrap(per_task)
    lines = [
        [found.methods[i], _number(statistics.interval(float(means[i]), drawn[:, i]), 3)]
        for i in np.argsort(means, kind="stable")
    ]
    text = (
        "Area under the curve of log regret, from the median first evaluation (1) down to a ten-thousandth of it (0): "
    )
    return [f"{text}0 is the optimum at once, 1 no progress.", Table.of(["method", "area"], lines)]


def _profiles(found: Results) -> list[str | Table]:
    curves = list(found.curves.values())
    ratios = np.array([*RATIOS, math.inf])
    shares = [statistics.profile(curves, ratios, target) for target in TARGETS]
    lines = [
        [name, *(" / ".join(f"{100 * share:.0f}" for share in of_target[i]) for of_target in shares)]
        for i, name in enumerate(found.methods)
    ]
    text = (
        "Performance profile: per cent of problems (tasks and seeds) whose regret was brought down to a tenth, a "
        "hundredth, a thousandth of the median first one, within 1 / 2 / 5 times the evaluations of the fastest "
        "method / ever."
    )
    return [text, Table.of(["method", *(f"to {target:g}" for target in TARGETS)], lines)]


def _tests(found: Results, count: int, reference: int) -> list[str | Table]:
    """Across tasks, the claim on tasks like these; within each task, on that task alone."""
    others = [i for i in range(len(found.methods)) if i != reference]
    values = found.at(count)
    per_task = np.array([statistics.ranks(task).mean(axis=0) for task in values])
    across = statistics.holm([statistics.wilcoxon(per_task[:, i], per_task[:, reference]) for i in others])
    lines = []
    for i, p in zip(others, across, strict=True):
        within = statistics.holm([statistics.wilcoxon(task[:, i], task[:, reference]) for task in values])
        medians = [np.median(task[:, i]) - np.median(task[:, reference]) for task in values]
        found_true = [median for median, chance in zip(medians, within, strict=True) if chance < ALPHA]
        better, worse = sum(m < 0 for m in found_true), sum(m > 0 for m in found_true)
        lines.append([found.methods[i], f"{p:.2g}", str(better), str(worse), str(len(values))])
    text = (
        "Wilcoxon's signed-rank test of pairs, p after Holm. Across tasks: mean ranks, one pair per task, over all "
        "methods. Within a task: regrets, one pair per seed, over all tasks of a method; those with p < 0.05 count."
    )
    return [text, Table.of(["method", "p across tasks", "better on", "worse on", "of tasks"], lines)]
