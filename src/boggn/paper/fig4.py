"""Threshold, labels and distribution of the outcomes over iterations, and what that allows (PAPER.md 1, 10).

Labels move slowly: between two iterations few of them change, so training can stop early, start from the last network
and weigh its observations; and the share of good ones can shrink as there are more. Each is an option of the sampler.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import optuna
from numpy.typing import NDArray

from boggn.bench import run, tasks
from boggn.bench.run import Job
from boggn.errors import BoggnError
from boggn.labels import label
from boggn.paper import style
from boggn.paper.figure import Drawn, Figure, Request, Row
from boggn.record import read
from boggn.sampler import BOGGNSampler

Floats = NDArray[np.float64]

TASKS = ("branin", "hartmann3", "protein")
SHOWN = "branin"
PLAIN = "the paper"
ECONOMIES: dict[str, dict[str, Any]] = {
    "early stopping": {"patience": 5},
    "annealed gamma": {"gamma": "sqrt"},
    "importance weights": {"acquisition": "ei"},
    "warm starts": {"warm_start": True},
}
VARIANTS: dict[str, dict[str, Any]] = {
    PLAIN: {},
    **ECONOMIES,
    "all four": {name: value for options in ECONOMIES.values() for name, value in options.items()},
}
SCHEDULE = 10
"""Iterations between two curves of the distribution."""


def minimise(job: Job) -> run.Row:
    """One run of a variant, with the training steps that it took."""
    task = tasks.get(job.task)
    study = optuna.create_study(sampler=BOGGNSampler.paper(seed=job.seed, **VARIANTS[job.method]))
    seconds = []
    for number in range(job.evals):
        began = time.perf_counter()
        trial = study.ask(dict(task.space))
        seconds.append(time.perf_counter() - began)
        study.tell(trial, task.function(trial.params, np.random.default_rng([job.seed, number])))
    records = [stored["record"] for trial in study.trials if (stored := read(trial)) is not None]
    return {
        "task": job.task,
        "method": job.method,
        "seed": job.seed,
        "evals": job.evals,
        "error": None,
        "values": [trial.value for trial in study.trials],
        "regrets": [task.regret(trial.params) for trial in study.trials],
        "ask_seconds": seconds,
        "training_steps": [record["training_steps"] for record in records if "training_steps" in record],
    }


def _draw(request: Request) -> Drawn:
    jobs = [
        Job(task, variant, seed, request.evals)
        for task in TASKS
        for variant in VARIANTS
        for seed in range(request.seeds)
    ]
    if failed := run.run(jobs, request.runs, request.jobs, work=minimise):
        raise BoggnError(f"{failed} of {len(jobs)} runs failed: their errors are in {request.runs.name}.")
    rows = {run.key(row): row for row in run.read_rows(request.runs)}
    values = np.array(rows[Job(SHOWN, PLAIN, 0, request.evals)]["values"])
    numbers: list[Row] = [
        {
            "task": job.task,
            "variant": job.method,
            "seed": job.seed,
            "training steps": _mean(rows[job]["training_steps"]),
            "regret": float(min(rows[job]["regrets"])),
        }
        for job in jobs
    ]
    numbers += _history(values)
    caption = (
        f"One run of the paper's method on {SHOWN}. Left: outcomes, good (filled) or bad when they came, and the "
        "threshold. Middle: the distribution of all outcomes so far, every "
        f"{SCHEDULE} iterations, with its gamma-quantile. Right: the share of good ones, and how many labels "
        f"the iterations changed. The table has means over {request.seeds} seeds of training steps a fit and medians "
        f"of the regret after {request.evals} evaluations, with each economy alone and with all four."
    )
    return Drawn(_picture(values), numbers, caption, _summary(jobs, rows))


def _mean(steps: list[int]) -> float | None:
    return statistics.mean(steps) if steps else None


def _summary(jobs: list[Job], rows: dict[Job, run.Row]) -> list[Row]:
    table: list[Row] = []
    for variant in VARIANTS:
        mine = [job for job in jobs if job.method == variant]
        steps = [step for job in mine for step in rows[job]["training_steps"]]
        regrets = {
            task: statistics.median(min(rows[job]["regrets"]) for job in mine if job.task == task) for task in TASKS
        }
        ask = 1e3 * statistics.median(second for job in mine for second in rows[job]["ask_seconds"])
        table.append({"variant": variant, "steps a fit": _mean(steps), "median ask, ms": round(ask), **regrets})
    return table


def _history(values: Floats) -> list[Row]:
    thresholds, shares, changes = _labels(values)
    return [
        {
            "task": SHOWN,
            "variant": PLAIN,
            "seed": 0,
            "iteration": n,
            "outcome": float(values[n - 1]),
            "threshold": threshold,
            "share": share,
            "changed labels": change,
        }
        for n, threshold, share, change in zip(range(1, len(values) + 1), thresholds, shares, changes, strict=True)
    ]


def _labels(values: Floats) -> tuple[list[float], list[float], list[int]]:
    """After each iteration: the threshold, the share of good outcomes, and how many earlier labels it changed."""
    thresholds, shares, changes = [], [], []
    before = np.zeros(0)
    for count in range(1, len(values) + 1):
        labels = label(values[:count], 1 / 3)
        thresholds.append(labels.threshold)
        shares.append(float(labels.z.mean()))
        changes.append(int(np.sum(labels.z[:-1] != before)))
        before = labels.z
    return thresholds, shares, changes


def _picture(values: Floats) -> Any:
    thresholds, shares, changes = _labels(values)
    iteration = np.arange(1, len(values) + 1)
    with style.look():
        picture, ((left, middle, right),) = style.grid(1, 3, width=3.8, height=3.0)
        good = values <= np.array(thresholds)
        scale = "log" if values.min() > 0 else "symlog"
        left.scatter(iteration[good], values[good], s=14, color=style.BLUE, label="good when it came")
        left.scatter(iteration[~good], values[~good], s=14, facecolors="none", edgecolors=style.RED, label="bad")
        left.plot(iteration, thresholds, color=style.BLACK, label="threshold")
        left.set_yscale(scale)
        left.set_xlabel("iteration")
        left.set_ylabel("outcome")
        left.legend(loc="lower right")
        counts = range(SCHEDULE, len(values) + 1, SCHEDULE)
        for index, count in enumerate(counts):
            shade = 0.85 * (1 - (index + 1) / len(counts))
            middle.step(np.sort(values[:count]), np.arange(1, count + 1) / count, color=(shade, shade, 1), where="post")
            middle.plot(thresholds[count - 1], 1 / 3, "o", color=style.RED, markersize=3)
        middle.axhline(1 / 3, color=style.GREY, linestyle=":")
        middle.set_xscale(scale)
        middle.set_xlabel("outcome")
        middle.set_ylabel("share of outcomes so far (darker: later)")
        right.plot(iteration, shares, color=style.BLUE, label="share of good ones")
        right.axhline(1 / 3, color=style.GREY, linestyle=":")
        right.set_ylim(0, 1)
        right.set_xlabel("iteration")
        other = right.twinx()
        other.step(iteration, np.cumsum(changes), color=style.ORANGE, where="post", label="labels changed so far")
        other.grid(visible=False)
        other.spines["right"].set_visible(True)
        other.set_ylabel("labels changed so far")
        right.set_ylabel("share of good ones")
        lines = [*right.get_lines()[:1], *other.get_lines()]
        right.legend(lines, [str(line.get_label()) for line in lines], loc="upper left", bbox_to_anchor=(0.08, 1.0))
    return picture


FIGURE = Figure("Figure 4: labels over iterations, and what they allow", _draw, seeds=3, evals=50)
