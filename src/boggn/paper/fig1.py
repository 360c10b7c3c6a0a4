"""The relative density ratio of two known densities, and what estimators make of a sample of each (PAPER.md 9)."""

from __future__ import annotations

import statistics
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from boggn.belief import Band
from boggn.paper import style
from boggn.paper.figure import Drawn, Figure, Request, Row
from boggn.prequential import Prediction, Prequential
from boggn.ratio import KDE, KLIEP, RULSIF, ULSIF, BayesianRatio, ClassifierRatio, DensityRatio

Floats = NDArray[np.float64]

GAMMA = 1 / 3
ROWS = 500
"""Of both samples together: a share gamma of them from l."""
FRESH = 10_000
"""Labelled rows that calibration is judged on."""
LEVEL = 0.9
LOW, HIGH, POINTS = -6.0, 6.0, 121
SCORES = ("calibration error", "log-loss", "ratio error", "coverage")

COLOURS = {
    "KDE": style.GREEN,
    "RuLSIF": style.GREEN,
    "MLP": style.SKY,
    "random forest": style.ORANGE,
    "XGBoost": style.BLACK,
    "SVM": style.PINK,
    "Bayesian network, MLP": style.RED,
    "Bayesian network, wide": style.BLUE,
}
"""Of the models drawn; the others are in the table alone."""


class _Made(NamedTuple):
    """One model's ratio on the grid, without a band where it has none, and its scores."""

    curve: Band
    scores: dict[str, float | None]


def _models(seed: int) -> dict[str, DensityRatio]:
    same: Any = {"gamma": GAMMA, "random_state": seed}
    return {
        "KDE": KDE(gamma=GAMMA),
        "KLIEP": KLIEP(**same),
        "uLSIF": ULSIF(**same),
        "RuLSIF": RULSIF(**same),
        "MLP": ClassifierRatio("mlp", **same),
        "random forest": ClassifierRatio("forest", **same),
        "random forest, calibrated": ClassifierRatio("forest", calibrate="isotonic", **same),
        "XGBoost": ClassifierRatio("xgboost", **same),
        "SVM": ClassifierRatio("svm", **same),
        "Bayesian network, MLP": BayesianRatio("mlp:32x32:tanh", **same),
        "Bayesian network, wide": BayesianRatio("wide", **same),
    }


def densities(x: Floats) -> tuple[Floats, Floats]:
    """l = 0.3 N(2, 1) + 0.7 N(-3, 0.5^2) and g = N(0, 2^2)."""
    return 0.3 * norm.pdf(x, 2.0, 1.0) + 0.7 * norm.pdf(x, -3.0, 0.5), norm.pdf(x, 0.0, 2.0)


def exact(x: Floats) -> Floats:
    """r_gamma = l / (gamma l + (1 - gamma) g)."""
    above, below = densities(x)
    ratio: Floats = above / (GAMMA * above + (1 - GAMMA) * below)
    return ratio


def _sample(rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Rows of l, a share gamma, and of g."""
    first = round(GAMMA * count)
    near = rng.random(first) < 0.3
    above = np.where(near, rng.normal(2.0, 1.0, first), rng.normal(-3.0, 0.5, first))
    return above, rng.normal(0.0, 2.0, count - first)


def _run(seed: int, grid: Floats) -> dict[str, _Made]:
    rng = np.random.default_rng([1, seed])
    sample, fresh = _sample(rng, ROWS), _sample(rng, FRESH)
    rows, good = np.concatenate(fresh), np.repeat([True, False], list(map(len, fresh)))
    truth = exact(rows)
    made = {"exact": _Made(_line(exact(grid)), _scores(_line(truth), truth, good))}
    for name, model in _models(seed).items():
        model.fit(*sample)
        if isinstance(model, BayesianRatio):
            on_grid, on_rows = (model.ratio_band(x, level=LEVEL) for x in (grid, rows))
        else:
            on_grid, on_rows = (_line(model.ratio(x)) for x in (grid, rows))
        made[name] = _Made(on_grid, _scores(on_rows, truth, good))
    return made


def _line(ratio: Floats) -> Band:
    return Band(ratio, ratio, ratio)


def _has_band(name: str) -> bool:
    return name.startswith("Bayesian")


def _scores(found: Band, truth: Floats, good: NDArray[np.bool_]) -> dict[str, float | None]:
    said = zip((GAMMA * found.mean).tolist(), good.tolist(), strict=True)
    judged = Prequential(tuple(Prediction(number, *one) for number, one in enumerate(said)))
    banded = found.low is not found.high
    inside = float(np.mean((found.low <= truth) & (truth <= found.high))) if banded else None
    error = float(np.sqrt(np.mean((found.mean - truth) ** 2)))
    return dict(zip(SCORES, (judged.calibration_error, judged.log_loss, error, inside), strict=True))


def _draw(request: Request) -> Drawn:
    grid = np.linspace(LOW, HIGH, POINTS)
    runs = [_run(seed, grid) for seed in range(request.seeds)]
    numbers: list[Row] = [
        {"model": name, "seed": seed} | made.scores for seed, run in enumerate(runs) for name, made in run.items()
    ]
    for seed, run in enumerate(runs):
        for name in COLOURS:
            numbers += _curve_rows(name, seed, grid, run[name].curve)
    summary: list[Row] = [{"model": name} | {score: _mean(runs, name, score) for score in SCORES} for name in runs[0]]
    caption = (
        "The ratio r = l / (γ l + (1 - γ) g), γ = 1/3, of the densities at the upper left (grey), and its estimates "
        f"from {ROWS} rows, a third of them from l: of the first sample (bold) and of the others (thin), with the "
        f"{LEVEL:.0%} band of the Bayesian networks on the first. No ratio is above 1 / γ (dotted). The table and the "
        f"titles have means over samples, {request.seeds} in all, on {FRESH:,} fresh labelled rows: calibration error "
        "and log-loss of the class probability γ r, the root mean square error of the ratio, and how often the band "
        "holds the exact ratio. The exact ratio's own calibration error is what chance alone makes of so many rows."
    )
    return Drawn(_picture(runs, grid), numbers, caption, summary)


def _mean(runs: list[dict[str, _Made]], name: str, score: str) -> float | None:
    values = [value for run in runs if (value := run[name].scores[score]) is not None]
    return statistics.mean(values) if values else None


def _curve_rows(name: str, seed: int, grid: Floats, curve: Band) -> list[Row]:
    rows: list[Row] = []
    for x, true, mean, low, high in zip(grid, exact(grid), *curve, strict=True):
        row = {"model": name, "seed": seed, "x": float(x), "exact": float(true), "ratio": float(mean)}
        rows.append(row | ({"low": float(low), "high": float(high)} if _has_band(name) else {}))
    return rows


def _picture(runs: list[dict[str, _Made]], grid: Floats) -> Any:
    with style.look():
        picture, axes = style.grid(3, 3, width=3.1, height=2.2, sharex=True)
        _draw_densities(axes[0, 0], grid)
        for axis, (name, colour) in zip(axes.ravel()[1:], COLOURS.items(), strict=True):
            axis.axhline(1 / GAMMA, color=style.GREY, linestyle=":", linewidth=0.9)
            axis.plot(grid, exact(grid), color=style.GREY, linewidth=3.0, alpha=0.6)
            for run in runs[1:]:
                axis.plot(grid, run[name].curve.mean, color=colour, linewidth=0.6, alpha=0.45)
            first = runs[0][name].curve
            if _has_band(name):
                style.band(axis, grid, first.low, first.high, colour)
            axis.plot(grid, first.mean, color=colour)
            axis.set_title(f"{name}\ncalibration error {_mean(runs, name, 'calibration error'):.3f}")
            axis.set_ylim(-0.1, 1.12 / GAMMA)
        for axis in axes[-1]:
            axis.set_xlabel("x")
            axis.set_xticks(np.linspace(LOW, HIGH, 5))
        for axis in axes[1:, 0]:
            axis.set_ylabel("relative density ratio")
        axes[0, 1].set_ylabel("relative density ratio")
        _legend(picture)
    return picture


def _draw_densities(axis: Any, grid: Floats) -> None:
    above, below = densities(grid)
    axis.plot(grid, above, color=style.BLUE)
    axis.plot(grid, below, color=style.RED)
    axis.text(-3.7, 0.5, "l", style="italic", fontsize=11, color=style.BLUE, ha="right")
    axis.text(0.6, 0.2, "g", style="italic", fontsize=11, color=style.RED)
    axis.set_title("the densities\n")
    axis.set_ylabel("density")


def _legend(picture: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], color=style.GREY, linewidth=3.0, alpha=0.6, label="exact"),
        Line2D([], [], color=style.BLUE, label="estimate, first sample"),
        Line2D([], [], color=style.BLUE, linewidth=0.6, alpha=0.6, label="other samples"),
        Patch(color=style.BLUE, alpha=0.18, linewidth=0, label=f"{LEVEL:.0%} band"),
        Line2D([], [], color=style.GREY, linestyle=":", linewidth=0.9, label="bound 1 / γ"),
    ]
    picture.legend(handles=handles, loc="outside lower center", ncols=len(handles))


FIGURE = Figure("Figure 1: density ratios, exact and estimated", _draw, seeds=5)
