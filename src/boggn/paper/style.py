"""How the figures look: one size of type, one palette, no global state of Matplotlib touched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart by every kind of colour vision.
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, RED, PINK = "#f0e442", "#0072b2", "#d55e00", "#cc79a7"
GREY = "#7f7f7f"
PALETTE = (BLUE, RED, GREEN, PINK, ORANGE, SKY, BLACK, GREY)

_LOOK: Any = {  # Matplotlib's own type is a union of three hundred names
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "legend.frameon": False,
}


@contextmanager
def look() -> Iterator[None]:
    """Inside, Matplotlib draws in the house's style."""
    with mpl.rc_context(_LOOK):
        yield


def grid(rows: int, columns: int, *, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """A figure and its axes (rows, columns), always an array; sizes in inches of one panel."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = picture.subplots(rows, columns, squeeze=False, **options)
    return picture, axes


def band(axes: Axes, x: Any, low: Any, high: Any, colour: str) -> None:
    """An interval around a curve, behind everything else."""
    axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0, zorder=1)
