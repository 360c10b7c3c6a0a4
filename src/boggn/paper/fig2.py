"""The workflow on a function of one variable: labels, class probability, acquisition, next point (PAPER.md 8, 10)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import optuna
from numpy.typing import NDArray
from optuna.distributions import FloatDistribution

from boggn.belief import Band, belief
from boggn.paper import style
from boggn.paper.figure import Drawn, Figure, Request, Row
from boggn.sampler import BOGGNSampler

Floats = NDArray[np.float64]

LOW, HIGH, NOISE = -1.0, 2.0, 0.2
SPACE = {"x": FloatDistribution(LOW, HIGH)}
POINTS = 301
LEVEL = 0.9
STARTUP = 4
PRECISION = 0.01
"""Delta. With so few labels the paper's own, 1, lets the prior win: the mode is then a network that is flat."""


def function(x: Floats | float) -> Any:
    """Of PAPER.md 10, without its noise."""
    return np.sin(3 * np.asarray(x)) + np.asarray(x) ** 2 - 0.7 * np.asarray(x)


class _Snapshot(NamedTuple):
    """What a sampler believed after so many trials, and where it went next."""

    x: Floats
    y: Floats
    threshold: float
    probability: Band
    acquisition: Floats
    following: float


def _run(sampler: BOGGNSampler, evals: int) -> optuna.Study:
    study = optuna.create_study(sampler=sampler)
    rng = np.random.default_rng(0)
    for _ in range(evals):
        trial = study.ask(dict(SPACE))
        study.tell(trial, float(function(trial.params["x"])) + NOISE * rng.standard_normal())
    return study


def _snapshot(study: optuna.Study, count: int, grid: Floats) -> _Snapshot:
    believed = belief(study, trials=count)
    points = [{"x": float(x)} for x in grid]
    trials = study.trials
    return _Snapshot(
        x=np.array([trial.params["x"] for trial in trials[:count]]),
        y=np.array([trial.value for trial in trials[:count]]),
        threshold=believed.threshold,
        probability=believed.class_probability(points, level=LEVEL),
        acquisition=believed.acquisition(points),
        following=float(trials[count].params["x"]),
    )


def _draw(request: Request) -> Drawn:
    counts = sorted({max(STARTUP + 1, math.ceil(request.evals * part)) for part in (1 / 4, 1 / 2, 1)})
    grid = np.linspace(LOW, HIGH, POINTS)
    samplers = {
        "one threshold, MLP (the paper)": BOGGNSampler.paper(
            seed=0, n_startup_trials=STARTUP, prior_precision=PRECISION
        ),
        "all thresholds, wide (default)": BOGGNSampler(seed=0, n_startup_trials=STARTUP),
    }
    numbers: list[Row] = []
    summary: list[Row] = []
    with style.look():
        picture, axes = style.grid(2 * len(samplers), len(counts), width=3.1, height=1.75, sharex=True)
        for index, (name, sampler) in enumerate(samplers.items()):
            study = _run(sampler, max(counts) + 1)
            for column, count in enumerate(counts):
                seen = _snapshot(study, count, grid)
                _draw_data(axes[2 * index, column], seen, grid, f"{name}\n{count} evaluations")
                _draw_belief(axes[2 * index + 1, column], seen, grid)
                numbers += _numbers(name, count, seen, grid)
            best = study.best_trial
            summary.append({"model": name, "evaluations": len(study.trials), "best x": best.params["x"]})
        above, below = (axes[row, 0].get_legend_handles_labels() for row in (0, 1))
        picture.legend(above[0] + below[0], above[1] + below[1], loc="outside lower center", ncols=7)
        for axis in axes[-1]:
            axis.set_xlabel("x")
    caption = (
        "Above: f (grey), noisy outcomes (good ones filled, at or below the threshold, dashed). Below: the class "
        f"probability with its {LEVEL:.0%} band under the posterior, the acquisition scaled to its range, and the next "
        "point. The upper pair of rows is the paper's method with a prior precision of "
        f"{PRECISION:g} (its own, 1, leaves the network flat here), the lower pair ours; both meet the same noise."
    )
    return Drawn(picture, numbers, caption, summary)


def _draw_data(axis: Any, seen: _Snapshot, grid: Floats, title: str) -> None:
    good = seen.y <= seen.threshold
    axis.plot(grid, function(grid), color=style.GREY, label="f")
    axis.scatter(seen.x[good], seen.y[good], s=18, color=style.BLUE, zorder=3, label="good")
    axis.scatter(seen.x[~good], seen.y[~good], s=18, facecolors="none", edgecolors=style.RED, zorder=3, label="bad")
    axis.axhline(seen.threshold, color=style.BLACK, linestyle="--", linewidth=0.9, label="threshold")
    axis.set_title(title)


def _draw_belief(axis: Any, seen: _Snapshot, grid: Floats) -> None:
    style.band(axis, grid, seen.probability.low, seen.probability.high, style.BLUE)
    axis.plot(grid, seen.probability.mean, color=style.BLUE, label="class probability")
    axis.plot(grid, _scaled(seen.acquisition), color=style.ORANGE, linewidth=1.1, label="acquisition")
    axis.axvline(seen.following, color=style.GREEN, linestyle=":", label="next point")
    axis.set_ylim(-0.03, 1.03)


def _scaled(values: Floats) -> Floats:
    """An acquisition in logarithms, as a share of its largest value."""
    share: Floats = np.exp(values - values.max())
    return share


def _numbers(name: str, count: int, seen: _Snapshot, grid: Floats) -> list[Row]:
    columns = (grid, seen.probability.mean, seen.probability.low, seen.probability.high, _scaled(seen.acquisition))
    names = ("x", "class probability", "low", "high", "acquisition")
    head = {"model": name, "evaluations": count, "threshold": seen.threshold, "next x": seen.following}
    rows: list[Row] = [head | dict(zip(names, map(float, row), strict=True)) for row in zip(*columns, strict=True)]
    return rows[:: max(1, POINTS // 60)]


FIGURE = Figure("Figure 2: the workflow on a function of one variable", _draw, evals=20)
