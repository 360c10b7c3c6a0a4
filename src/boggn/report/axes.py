"""One parameter as an axis: where a value stands between 0 and 1, which values to ask about, and the ticks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

from optuna.distributions import FloatDistribution, IntDistribution

from boggn.encoding import Encoding
from boggn.report.numbers import Scale, short

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

MOST_LEVELS = 12
"""A grid of no more levels than this is drawn level by level, and no axis carries more labels."""


@final
@dataclass(frozen=True)
class Axis:
    """A parameter that takes more than one value. `levels` has its values where they are few, or categories."""

    name: str
    levels: tuple[Any, ...] | None
    _encoding: Encoding
    _distribution: BaseDistribution

    @classmethod
    def of(cls, name: str, distribution: BaseDistribution) -> Self:
        """The axis of one parameter."""
        encoding = Encoding.of({name: distribution})
        levels = None
        if encoding.kinds[0] != "continuous":
            units = encoding.levels(0)
            if encoding.kinds[0] == "categorical" or len(units) <= MOST_LEVELS:
                levels = tuple(encoding.from_unit([unit])[name] for unit in units)
        return cls(name, levels, encoding, distribution)

    def place(self, params: Mapping[str, Any]) -> float | None:
        """Where a trial stands; None if it has no such parameter, or one outside the range as it is now."""
        if not self._encoding.contains(params):
            return None
        unit = float(self._encoding.to_unit(params)[0])
        if self.levels is None:
            return unit
        found = min(range(len(self.levels)), key=lambda index: abs(self._units[index] - unit))
        return (found + 0.5) / len(self.levels)

    def values(self, count: int, around: Any) -> list[Any]:
        """All levels; or so many values evenly spread over the axis and more around one of them, in their order."""
        if self.levels is not None:
            return list(self.levels)
        (centre,) = self.places([around])
        near = [centre + side * 0.5**power for power in range(3, 10) for side in (-1.0, 1.0)]
        places = {*(index / (count - 1) for index in range(count)), centre, *near}
        return self.at(sorted(place for place in places if 0.0 <= place <= 1.0))

    def at(self, places: Iterable[float]) -> list[Any]:
        """The values at places of a continuous axis."""
        return [self._encoding.from_unit([float(place)])[self.name] for place in places]

    def places(self, values: Sequence[Any]) -> list[float]:
        """Where values of the axis stand."""
        return [place for value in values if (place := self.place({self.name: value})) is not None]

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """Labels with their places."""
        if self.levels is not None:
            stride = -(-len(self.levels) // MOST_LEVELS)
            named = [((index + 0.5) / len(self.levels), short(level)) for index, level in enumerate(self.levels)]
            return named[::stride]
        d = self._distribution
        if not isinstance(d, FloatDistribution | IntDistribution):  # a continuum is one of these
            return []
        scale = Scale(float(d.low), float(d.high), log=d.log)
        if isinstance(d, IntDistribution) and d.high - d.low < 2 * most:
            most = max(2, min(most, d.high - d.low))
        return scale.ticks(most)

    @property
    def _units(self) -> list[float]:
        return [float(unit) for unit in self._encoding.levels(0)]


def axes_of(space: Mapping[str, BaseDistribution]) -> dict[str, Axis]:
    """The axes of all parameters that take more than one value."""
    return {name: Axis.of(name, distribution) for name, distribution in space.items() if not distribution.single()}
