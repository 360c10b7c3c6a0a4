r"""Maximise a function over encoded points: continuous, discrete and mixed.

The function is a black box here: it takes encoded rows (B, W) and gives values, larger being better. Points are
unit rows of the encoding; every point returned is inside the bounds and on its grids, and no worse than any start.

| space      | method                                                                                |
|------------|----------------------------------------------------------------------------------------|
| small      | every point scored                                                                      |
| all others | random and neighbouring candidates, scored in blocks of one fixed size                  |
| continuous | L-BFGS-B from several starts at once, gradients from JAX                                 |
| discrete   | exhaustive one-coordinate swaps to a fixed point                                         |
| mixed      | the two in turn                                                                          |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from boggn.encoding import Encoding

Floats = NDArray[np.float64]
BLOCK = 256
"""Rows scored in one compiled call."""
STARTS = 8
"""Starts of the joint L-BFGS-B; also the rows of the compiled gradient."""
SWAP_STARTS = 4
TOLERANCE = 1e-4
"""Relative gain over all starts below which a climb is done."""
ROUNDS = 2
"""Turns of continuous and discrete search in a mixed space."""
_WORST = -1e300
_BARRIER = 1e3
"""How much worse than its start a climb takes a point to be whose value is not finite."""


@dataclass(frozen=True)
class Target:
    """A function to maximise: values of BLOCK encoded rows; values and gradients of STARTS encoded rows.

    Without gradients nothing is climbed. As such a function may have plateaus, of equal values the first point drawn at
    random is taken, and a grid is gone through in random order.
    """

    values: Callable[[Floats], Floats]
    gradients: Callable[[Floats], tuple[Floats, Floats]] | None = None


@dataclass(frozen=True)
class Options:
    """How hard to search."""

    n_random: int = 512
    n_neighbours: int = 512
    n_iterations: int = 40
    swaps: bool = True


RESOLUTION = 1e-6
"""Points closer than this in every coordinate are one point."""


def identity(units: Floats) -> list[bytes]:
    """A name for each unit row, shared by rows that are one point."""
    return [row.tobytes() for row in np.rint(units / RESOLUTION).astype(np.int64)]


@dataclass
class Search:
    """One maximisation; remembers nothing beyond it."""

    encoding: Encoding
    width: int
    target: Target
    rng: np.random.Generator
    options: Options = field(default_factory=Options)
    forbidden: frozenset[bytes] = frozenset()

    def score(self, units: Floats) -> Floats:
        """Values of any number of unit rows, in blocks; what is not finite counts as worst, what is forbidden too."""
        values = np.empty(len(units))
        for begin in range(0, len(units), BLOCK):
            part = units[begin : begin + BLOCK]
            values[begin : begin + BLOCK] = self.target.values(self.block(part))[: len(part)]
        values = np.where(np.isfinite(values), values, _WORST)
        if self.forbidden:
            values[[name in self.forbidden for name in identity(units)]] = -np.inf
        return values

    def block(self, units: Floats) -> Floats:
        """At most BLOCK unit rows, encoded and padded to BLOCK rows."""
        return self._encode(units, BLOCK)

    def _encode(self, units: Floats, count: int | None = None) -> Floats:
        rows = np.zeros((count or len(units), self.width))
        rows[: len(units), : self.encoding.width] = self.encoding.encode(units)
        return rows

    def candidates(self, incumbents: Floats) -> Floats:
        """Points all over the space and points near the incumbents, on their grids."""
        dimension = self.encoding.n_parameters
        anywhere = uniform(self.encoding, self.rng, self.options.n_random)
        if len(incumbents) == 0:
            return anywhere
        count = self.options.n_neighbours
        near = incumbents[self.rng.integers(len(incumbents), size=count)]
        scale = 10.0 ** self.rng.uniform(-4.0, -0.5, size=(count, 1))
        moved = near + scale * self.rng.standard_normal((count, dimension))
        elsewhere = anywhere[self.rng.integers(len(anywhere), size=count)]
        categorical = np.array([kind == "categorical" for kind in self.encoding.kinds])
        ordinal = np.array([kind == "ordinal" for kind in self.encoding.kinds])
        # A grid has no small steps, so an ordinal jumps as often as it moves.
        jump = categorical | (ordinal & (self.rng.random((count, dimension)) < 0.5))
        moved = np.where(jump, elsewhere, np.clip(moved, 0.0, 1.0))
        chosen = self.rng.random((count, dimension)) < self.rng.choice([0.2, 0.5, 1.0], size=(count, 1))
        chosen[np.arange(count), self.rng.integers(dimension, size=count)] = True
        return np.vstack([anywhere, self.encoding.snap(np.where(chosen, moved, near))])

    def run(self, incumbents: Floats, count: int = 1) -> tuple[Floats, Floats]:
        """The best `count` points found and their values, best first."""
        # So a space that is nearly used up gives its last points, which random candidates would miss.
        if (every := everything(self.encoding, self.options.n_random + len(self.forbidden))) is not None:
            every = self._shuffled(every)
            return _best(every, self.score(every), count)
        units = self.candidates(incumbents)
        values = self.score(units)
        starts = self._starts(units, values)
        continuous = np.flatnonzero([kind == "continuous" for kind in self.encoding.kinds])
        gradients = self.target.gradients if len(continuous) else None
        discrete = self._swappable() if self.options.swaps else []
        found, found_values = [units], [values]
        for _ in range(ROUNDS if gradients and discrete else 1):
            if gradients:
                starts = self._climb(starts, continuous, gradients)
            if len(discrete):
                starts = self._swap(starts, discrete)
            found.append(starts)
            found_values.append(self.score(starts))
        return _best(np.vstack(found), np.concatenate(found_values), count)

    def _starts(self, units: Floats, values: Floats) -> Floats:
        """Half the starts are the best candidates, half are drawn by the softmax of their values."""
        order = np.argsort(-values, kind="stable")
        usable = order[values[order] > _WORST]
        best, rest = usable[: STARTS // 2], usable[STARTS // 2 :]
        spread = float(np.std(values[rest[: (len(rest) + 1) // 2]])) if len(rest) else 1.0
        gumbel = values[rest] / max(spread or 1.0, 1e-12) + self.rng.gumbel(size=len(rest))
        drawn = rest[np.argsort(-gumbel, kind="stable")[: STARTS - len(best)]]
        chosen = np.concatenate([best, drawn]) if len(usable) else order
        return np.resize(units[chosen], (STARTS, units.shape[1]))

    def _climb(
        self,
        starts: Floats,
        continuous: NDArray[np.intp],
        gradients: Callable[[Floats], tuple[Floats, Floats]],
    ) -> Floats:
        """Joint L-BFGS-B over the continuous coordinates of all starts, each kept only where it improved."""
        columns = np.array([self.encoding.parameter_of_column.index(j) for j in continuous])
        before = self._encode(starts)
        first, _ = gradients(before)
        known = np.isfinite(first)
        barrier = np.where(known, first, 0.0) - _BARRIER
        size = (STARTS, len(continuous))

        def loss(flat: Floats) -> tuple[float, Floats]:
            rows = before.copy()
            rows[:, columns] = 2.0 * flat.reshape(size) - 1.0
            values, slopes = gradients(rows)
            usable = np.isfinite(values)
            slopes = np.where(usable[:, None], slopes[:, columns], 0.0)
            return -float(np.sum(np.where(usable, values, barrier))), np.nan_to_num(-2.0 * slopes).ravel()

        result = minimize(
            loss,
            starts[:, continuous].ravel(),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 1.0)] * (STARTS * len(continuous)),
            options={"maxiter": self.options.n_iterations, "maxfun": 2 * self.options.n_iterations, "ftol": TOLERANCE},
        )
        moved = starts.copy()
        moved[:, continuous] = np.clip(result.x.reshape(size), 0.0, 1.0)
        moved = self.encoding.snap(moved)
        after, _ = gradients(self._encode(moved))
        better = np.isfinite(after) & (~known | (after >= first))
        return np.where(better[:, None], moved, starts)

    def _swappable(self) -> list[int]:
        return [
            j for j, kind in enumerate(self.encoding.kinds) if kind != "continuous" and len(self.encoding.levels(j)) > 1
        ]

    def _swap(self, starts: Floats, discrete: list[int]) -> Floats:
        """From the best starts, move to the best one-coordinate neighbour until none is better."""
        current, values = _best(starts, self.score(starts), SWAP_STARTS)
        active = np.ones(len(current), dtype=bool)
        for _ in range(4 * len(discrete)):
            neighbours = [self._neighbours(point, discrete) for point in current[active]]
            sizes = np.cumsum([len(block) for block in neighbours])[:-1]
            scores = np.split(self.score(np.vstack(neighbours)), sizes)
            for row, block, score in zip(np.flatnonzero(active), neighbours, scores, strict=True):
                best = int(np.argmax(score))
                active[row] = score[best] > values[row]
                if active[row]:
                    current[row], values[row] = block[best], score[best]
            if not active.any():
                break
        return np.vstack([current, starts])[:STARTS]

    def _neighbours(self, point: Floats, discrete: list[int]) -> Floats:
        blocks = []
        for j in discrete:
            levels = self.encoding.levels(j)
            others = levels[levels != point[j]]
            block = np.tile(point, (len(others), 1))
            block[:, j] = others
            blocks.append(block)
        return self._shuffled(np.vstack(blocks))

    def _shuffled(self, units: Floats) -> Floats:
        return units if self.target.gradients else self.rng.permutation(units)


def everything(encoding: Encoding, limit: int) -> Floats | None:
    """All points of the space if there are at most `limit`."""
    if encoding.size is None or encoding.size > limit:
        return None
    sides = np.meshgrid(*(_side(encoding, j) for j in range(encoding.n_parameters)), indexing="ij")
    return np.stack([side.ravel() for side in sides], axis=1)


def _side(encoding: Encoding, j: int) -> Floats:
    """All units of a parameter that has finitely many."""
    if encoding.kinds[j] != "continuous":
        return encoding.levels(j)
    name = encoding.names[j]
    alone = Encoding.of({name: encoding.distributions[j]})
    size = alone.size or 1
    low, high = (alone.from_unit([end])[name] for end in (0.0, 1.0))
    if isinstance(low, int):  # on a linear or a logarithmic scale
        return alone.to_units([{name: value} for value in range(low, high + 1, (high - low) // (size - 1))])[:, 0]
    return alone.snap(np.linspace(0.0, 1.0, size)[:, None])[:, 0]


def uniform(encoding: Encoding, rng: np.random.Generator, count: int) -> Floats:
    """Points uniform over the space, on its grids."""
    return from_cube(encoding, rng.random((count, encoding.n_parameters)))


def from_cube(encoding: Encoding, cube: Floats) -> Floats:
    """Points of the cube [0, 1)^D as unit rows; every level of a grid takes an equal share of its side."""
    units = cube.copy()
    for j, kind in enumerate(encoding.kinds):
        if kind != "continuous":
            levels = encoding.levels(j)
            units[:, j] = levels[np.minimum((units[:, j] * len(levels)).astype(int), len(levels) - 1)]
    return encoding.snap(units)


def _best(units: Floats, values: Floats, count: int) -> tuple[Floats, Floats]:
    """The best distinct points, best first; none that is forbidden, unless there is no other."""
    chosen: list[int] = []
    seen: set[bytes] = set()
    for index in np.argsort(-values, kind="stable"):
        key = units[index].tobytes()
        if chosen and values[index] == -np.inf:
            break
        if key not in seen:
            seen.add(key)
            chosen.append(int(index))
        if len(chosen) == count:
            break
    return units[chosen].copy(), values[chosen].copy()
