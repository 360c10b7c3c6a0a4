"""Outlines of where a function on a grid is at a level or above: marching squares, joined to closed loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Point = tuple[float, float]
Edge = tuple[bool, int, int]
"""Of the grid: whether it goes from row to row, and the row and column it begins at."""


def outlines(z: Floats, x: Floats, y: Floats, level: float) -> list[list[Point]]:
    """Closed loops around {z >= level}, for z of shape (y, x); the even-odd rule fills them.

    The grid gets a rim of no width that lies below the level, so no loop ends at the border.
    """
    z = np.pad(z - level, 1, constant_values=-1.0)
    x, y = np.pad(x, 1, mode="edge"), np.pad(y, 1, mode="edge")
    after: dict[Edge, Edge] = {}
    for row in range(z.shape[0] - 1):
        for column in range(z.shape[1] - 1):
            after.update(_segments(z, row, column))
    loops = []
    while after:
        start, edge = after.popitem()
        loop = [_crossing(z, x, y, start)]
        while edge != start:
            loop.append(_crossing(z, x, y, edge))
            edge = after.pop(edge)
        loops.append(loop)
    return loops


def _segments(z: Floats, row: int, column: int) -> list[tuple[Edge, Edge]]:
    """The pieces of outline inside one cell: from each edge where its border leaves the region, to one where it enters.

    In a saddle the mean of the corners decides which of the two.
    """
    corners = [z[row, column], z[row, column + 1], z[row + 1, column + 1], z[row + 1, column]]
    edges = [(False, row, column), (True, row, column + 1), (False, row + 1, column), (True, row, column)]
    inside = [corner >= 0.0 for corner in corners]
    leaving = [k for k in range(4) if inside[k] and not inside[(k + 1) % 4]]
    turn = 1 if sum(corners) >= 0.0 else -1
    found = []
    for k in leaving:
        around = ((k + turn * step) % 4 for step in range(1, 4))
        entering = next(j for j in around if not inside[j] and inside[(j + 1) % 4])
        found.append((edges[k], edges[entering]))
    return found


def _crossing(z: Floats, x: Floats, y: Floats, edge: Edge) -> Point:
    down, row, column = edge
    other_row, other_column = (row + 1, column) if down else (row, column + 1)
    first, second = z[row, column], z[other_row, other_column]
    share = float(first / (first - second))
    return (
        float(x[column] + share * (x[other_column] - x[column])),
        float(y[row] + share * (y[other_row] - y[row])),
    )
