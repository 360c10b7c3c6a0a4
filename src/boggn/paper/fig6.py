"""How much each further threshold buys: regret against the number of thresholds the network answers for at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from boggn.paper import regret, style
from boggn.paper.figure import Drawn, Figure, Request, Row

TASKS = ("branin", "hartmann3")
THRESHOLDS = ("1", "3", "10", "30", "all")
NETWORKS = {"wide": "wide network", "mlp:32x32:tanh": "MLP 32 x 32"}


def _method(network: str, thresholds: str) -> str:
    return f"boggn:network={network},thresholds={thresholds}"


def _draw(request: Request) -> Drawn:
    methods = {
        _method(network, count): f"{label}, {count}" for network, label in NETWORKS.items() for count in THRESHOLDS
    }
    found = regret.curves(request, TASKS, methods)
    summary: list[Row] = [
        {"task": task, "network": label}
        | {count: float(found[task, _method(network, count)].quartiles()[1, -1]) for count in THRESHOLDS}
        for task in TASKS
        for network, label in NETWORKS.items()
    ]
    caption = (
        f"Best regret after {request.evals} evaluations against the number of thresholds: median and quartiles of "
        f"{request.seeds} seeds. Likelihood, prior and acquisition are the same from left to right; one threshold is "
        "what the paper asks of its network, every observed value is the default."
    )
    return Drawn(_picture(found), regret.improvements(found, methods), caption, summary)


def _picture(found: dict[tuple[str, str], regret.Curves]) -> Any:
    place = np.arange(len(THRESHOLDS))
    with style.look():
        picture, axes = style.grid(1, len(TASKS), width=4.0, height=3.2)
        for axis, task in zip(axes[0], TASKS, strict=True):
            for colour, (network, label) in zip(style.PALETTE, NETWORKS.items(), strict=False):
                ends = [found[task, _method(network, count)].quartiles()[:, -1] for count in THRESHOLDS]
                low, median, high = np.maximum(np.transpose(ends), regret.FLOOR)
                style.band(axis, place, low, high, colour)
                axis.plot(place, median, "o-", color=colour, label=label)
            axis.set_yscale("log")
            axis.set_xticks(place, THRESHOLDS)
            axis.set_title(task)
            axis.set_xlabel("thresholds")
        axes[0, 0].set_ylabel("immediate regret")
        axes[0, 0].legend()
    return picture


FIGURE = Figure("Figure 6: what each further threshold buys", _draw, seeds=5, evals=50)
