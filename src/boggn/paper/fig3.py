"""Immediate regret against evaluations on the paper's eight tasks, ours against its baselines (PAPER.md 10)."""

from __future__ import annotations

from typing import Any

from boggn.bench import tasks
from boggn.paper import regret, style
from boggn.paper.figure import Drawn, Figure, Request, Row

METHODS = {
    "boggn": "boggn (default)",
    "boggn-paper": "BOGGN (the paper)",
    "tpe": "TPE",
    "gp": "GP (Optuna)",
    "random": "random",
    "boggn:classifier=mlp,acquisition=pi": "BORE, MLP",
    "boggn:classifier=forest,acquisition=pi": "BORE, forest",
    "boggn:classifier=xgboost,acquisition=pi": "BORE, XGBoost",
}
NEEDS = {"gp": "torch"}
PAPER_SEEDS = 200
TASKS = tasks.GROUPS["paper"]


def _draw(request: Request) -> Drawn:
    methods = {name: label for name, label in METHODS.items() if not _absent(name)}
    found = regret.curves(request, TASKS, methods)
    absent = [label for name, label in METHODS.items() if _absent(name)]
    numbers = regret.improvements(found, methods)
    return Drawn(_picture(found, methods), numbers, _caption(request, absent), _summary(found, methods))


def _absent(method: str) -> bool:
    return method in NEEDS and regret.missing(NEEDS[method])


def _caption(request: Request, absent: list[str]) -> str:
    text = (
        f"Best regret so far: median and quartiles of {request.seeds} seeds (the paper has {PAPER_SEEDS}: "
        f"`--seeds {PAPER_SEEDS}`), drawn at 1e-9 where it is less. On the FCNet tables the optimiser sees one of four "
        "repeats, and the regret is that of their mean. Hyperband and BOHB are not here: these functions have no "
        "fidelity, and of the tables only the final losses are published in the package that carries them."
    )
    return text + (f" Not installed, so not here: {', '.join(absent)}." if absent else "")


def _summary(found: dict[tuple[str, str], regret.Curves], methods: dict[str, str]) -> list[Row]:
    """Median regret at the end."""
    return [
        {"method": label} | {task: float(found[task, name].quartiles()[1, -1]) for task in TASKS}
        for name, label in methods.items()
    ]


def _picture(found: dict[tuple[str, str], regret.Curves], methods: dict[str, str]) -> Any:
    with style.look():
        picture, axes = style.grid(2, 4, width=3.0, height=2.5, sharex=True)
        for axis, task in zip(axes.ravel(), TASKS, strict=False):
            for colour, (name, label) in zip(style.PALETTE, methods.items(), strict=False):
                regret.draw(axis, found[task, name], colour, label)
            axis.set_yscale("log")
            axis.set_title(task)
        for axis in axes[-1]:
            axis.set_xlabel("evaluations")
        for axis in axes[:, 0]:
            axis.set_ylabel("immediate regret")
        picture.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return picture


FIGURE = Figure("Figure 3: immediate regret over evaluations", _draw, seeds=3, evals=50)
