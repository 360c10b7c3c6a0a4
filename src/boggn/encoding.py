r"""Optuna parameters <-> rows of numbers.

| name    | shape  | meaning                                                                                          |
|---------|--------|--------------------------------------------------------------------------------------------------|
| unit    | (n, D) | one column per parameter: numeric in [0, 1] (log scale if `log`), categorical = index of choice  |
| encoded | (n, W) | what the network sees: numeric 2u - 1, categorical one-hot times sqrt(2), single-valued 0        |

A float64 unit tells apart at most about 2^53 positions, so round trips are exact for linear grids of up to 2^50 steps
and for log ints up to 2^44. Beyond that `snap` only clips and decoding gives a level next to the original.
"""

from __future__ import annotations

import abc
import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from boggn.errors import EncodingError

Kind = Literal["continuous", "ordinal", "categorical"]
Floats = NDArray[np.float64]
_Numeric = FloatDistribution | IntDistribution

MOST_ORDINAL_LEVELS = 128
_MOST_EXACT_STEPS = 2**50
_MOST_EXACT_LOG_INT = 2**49
_LARGEST_EXACT_INT = 2**53


def padded_width(width: int) -> int:
    r"""The next multiple of four, so that few widths are ever compiled."""
    return -(-width // 4) * 4


def bucket(n: int, sizes: Sequence[int]) -> int:
    r"""The smallest of the sizes that holds n rows."""
    if not sizes or n > max(sizes):
        raise EncodingError(f"{n} rows do not fit in any of the padded sizes {tuple(sizes)}.")
    return min(size for size in sizes if size >= n)


class _Axis(abc.ABC):
    r"""How one parameter maps to its unit column."""

    name: str
    kind: Kind
    width: int = 1  # in encoded columns
    count: int | None  # of distinct values, None for a continuum
    levels: Floats | None = None  # None for "continuous"

    @abc.abstractmethod
    def units(self, values: Sequence[Any]) -> Floats: ...

    @abc.abstractmethod
    def value(self, unit: float) -> Any: ...

    @abc.abstractmethod
    def snap(self, units: Floats) -> Floats: ...


@final
class _Category(_Axis):
    r"""A categorical; choices Optuna cannot tell apart (True and 1) share the index of the first of them."""

    def __init__(self, name: str, distribution: CategoricalDistribution) -> None:
        self.name, self._distribution = name, distribution
        self._table: dict[Any, int] = {}
        first: list[int] = []
        for index, choice in enumerate(distribution.choices):
            try:
                first.append(self._table.setdefault(choice, index))
            except TypeError:  # Optuna only warns of choices such as lists, which cannot be hashed
                first.append(distribution.choices.index(choice))
        self._first = np.array(first, dtype=np.float64)
        self.levels = np.unique(self._first)
        self.count = len(self.levels)
        self.kind, self.width = ("ordinal", 1) if distribution.single() else ("categorical", len(first))

    def units(self, values: Sequence[Any]) -> Floats:
        try:
            return np.array([self._table[value] for value in values], dtype=np.float64)
        except (KeyError, TypeError):  # another NaN, a list, or unknown
            return np.array([self._index(value) for value in values], dtype=np.float64)

    def _index(self, value: Any) -> float:
        try:
            return float(self._first[int(self._distribution.to_internal_repr(value))])
        except ValueError as error:
            choices = self._distribution.choices
            raise EncodingError(f"Parameter {self.name!r} got {value!r}, which is not among {choices!r}.") from error

    def value(self, unit: float) -> Any:
        return self._distribution.choices[int(self.snap(np.array([unit]))[0])]

    def snap(self, units: Floats) -> Floats:
        return self._first[np.rint(np.clip(units, 0, len(self._first) - 1)).astype(np.intp)]


@final
class _Continuum(_Axis):
    r"""A float without step, linear or log.

    The log scale is log1p((v - low) / low), which keeps narrow ranges apart, or log v - log low for the very widest.
    """

    def __init__(self, name: str, distribution: FloatDistribution) -> None:
        self.name, self.kind, self.count, self._distribution = name, "continuous", None, distribution
        self._low, self._high, self._log = distribution.low, distribution.high, distribution.log
        # high - low overflows for (-1e308, 1e308); halving is exact there.
        self._scale = 1.0 if math.isfinite(self._high - self._low) else 0.5
        self._very_wide = self._log and (self._high - self._low) / self._low > 1e300
        self._extent = float(self._distance(np.array([self._high]))[0])

    def _distance(self, values: Floats) -> Floats:
        if not self._log:
            return values * self._scale - self._low * self._scale
        logs = np.log(values) - np.log(self._low) if self._very_wide else np.log1p((values - self._low) / self._low)
        return np.asarray(logs, dtype=np.float64)

    def units(self, values: Sequence[Any]) -> Floats:
        column = _numbers(self.name, values, self._distribution)
        return np.clip(self._distance(column) / self._extent, 0.0, 1.0)

    def value(self, unit: float) -> float:
        if not 0.0 < unit < 1.0:
            return self._high if unit > 0.0 else self._low
        distance = unit * self._extent
        if not self._log:
            value = (self._low * self._scale + distance) / self._scale
        elif self._very_wide:
            value = math.exp(min(math.log(self._low) + distance, math.log(self._high)))
        else:
            value = self._low + self._low * math.expm1(distance)
        return min(max(value, self._low), self._high)

    def snap(self, units: Floats) -> Floats:
        return np.clip(units, 0.0, 1.0)


@final
class _Grid(_Axis):
    r"""An int or a stepped float, or a single number: value k of 0..steps sits at k / steps."""

    def __init__(self, name: str, distribution: _Numeric) -> None:
        self.name, self._distribution = name, distribution
        # Exact arithmetic on the decimals the user wrote, as Optuna does: the third step of 0.1 is 0.3.
        bounds = (distribution.low, distribution.high, distribution.step or 1)
        self._low, high, self._step = (Fraction(repr(bound)) for bound in bounds)
        self._steps = 0 if distribution.single() else round((high - self._low) / self._step)
        self._span, self._exact = float(max(self._steps, 1)), self._steps <= _MOST_EXACT_STEPS
        self.count, self.kind = self._steps + 1, "continuous"
        if self.count <= MOST_ORDINAL_LEVELS:
            self.kind, self.levels = "ordinal", np.arange(self.count) / self._span

    def units(self, values: Sequence[Any]) -> Floats:
        d = self._distribution
        column = _numbers(self.name, values, d)
        small = self._exact and max(abs(d.low), abs(d.high)) <= _LARGEST_EXACT_INT
        if isinstance(d, IntDistribution) and not small:
            pairs = zip(values, column.tolist(), strict=True)
            exact = (int(v) if isinstance(v, Integral) else Fraction(clipped) for v, clipped in pairs)
            index = (min(max(round((v - self._low) / self._step), 0), self._steps) for v in exact)
            return np.array([k / max(self._steps, 1) for k in index], dtype=np.float64)
        return np.clip(np.rint((column - d.low) / float(self._step)), 0.0, float(self._steps)) / self._span

    def value(self, unit: float) -> float | int:
        d, unit = self._distribution, min(max(unit, 0.0), 1.0)
        index = round(unit * self._steps if self._exact else Fraction(unit) * self._steps)
        if isinstance(d, IntDistribution):
            return _accepted_int(d, d.low + index * d.step)
        return _accepted_float(d, index, self._low, self._step)

    def snap(self, units: Floats) -> Floats:
        units = np.clip(units, 0.0, 1.0)
        return np.rint(units * self._steps) / self._span if self._exact else units


@final
class _LogGrid(_Axis):
    r"""A log int v at log(v / low) / log(high / low)."""

    def __init__(self, name: str, distribution: IntDistribution) -> None:
        self.name, self._distribution = name, distribution
        self._low, self._high = float(distribution.low), float(distribution.high)
        self._extent = np.log1p(np.array([(self._high - self._low) / self._low]))
        # Neighbours at the top are 1 / (high extent) apart: a few roundings of a number in [0, 1] at least.
        self._exact = self._high * float(self._extent[0]) <= _MOST_EXACT_LOG_INT
        self.count, self.kind = distribution.high - distribution.low + 1, "continuous"
        if self.count <= MOST_ORDINAL_LEVELS:
            self.kind, self.levels = "ordinal", self._position(self._low + np.arange(self.count, dtype=np.float64))

    def _position(self, values: Floats) -> Floats:
        return np.asarray(np.log1p((values - self._low) / self._low) / self._extent, dtype=np.float64)

    def _nearest(self, units: Floats) -> Floats:
        r"""The integer whose position is nearest to each unit: inverting rounds, so its neighbours are compared too."""
        with np.errstate(over="ignore"):  # near 1.8e308 rounding may go beyond; the clip brings it back
            guess = np.rint(self._low + self._low * np.expm1(units * self._extent))
        candidates = np.clip(guess + np.array([[0.0], [-1.0], [1.0]]), self._low, self._high)
        best = np.argmin(np.abs(self._position(candidates) - units), axis=0)
        return np.asarray(candidates[best, np.arange(units.size)], dtype=np.float64)

    def units(self, values: Sequence[Any]) -> Floats:
        return self._position(np.rint(_numbers(self.name, values, self._distribution)))

    def value(self, unit: float) -> int:
        d = self._distribution
        nearest = int(self._nearest(np.clip(np.array([unit]), 0.0, 1.0))[0])
        return _accepted_int(d, min(max(nearest, d.low), d.high))

    def snap(self, units: Floats) -> Floats:
        units = np.clip(units, 0.0, 1.0)
        return self._position(self._nearest(units)) if self._exact else units


@dataclass(frozen=True)
class Encoding:
    r"""The map between a search space and rows of numbers, parameters sorted by name. Made by `Encoding.of`.

    `kinds`: a grid of more than 128 levels counts as continuous, a single value as ordinal. `parameter_of_column`: for
    each of the W encoded columns. `size`: the number of distinct configurations, None if there is a continuum of them.
    """

    names: tuple[str, ...]
    distributions: tuple[BaseDistribution, ...]
    kinds: tuple[Kind, ...]
    parameter_of_column: tuple[int, ...]
    size: int | None
    _axes: tuple[_Axis, ...] = field(repr=False, compare=False)

    @classmethod
    def of(cls, space: Mapping[str, BaseDistribution]) -> Self:
        r"""The encoding of a search space."""
        axes = tuple(_axis(name, space[name]) for name in sorted(space))
        counts = [axis.count for axis in axes if axis.count is not None]
        return cls(
            names=tuple(axis.name for axis in axes),
            distributions=tuple(space[axis.name] for axis in axes),
            kinds=tuple(axis.kind for axis in axes),
            parameter_of_column=tuple(j for j, axis in enumerate(axes) for _ in range(axis.width)),
            size=math.prod(counts) if len(counts) == len(axes) else None,
            _axes=axes,
        )

    @property
    def n_parameters(self) -> int:
        r"""D."""
        return len(self.names)

    @property
    def width(self) -> int:
        r"""W."""
        return len(self.parameter_of_column)

    def contains(self, params: Mapping[str, Any]) -> bool:
        r"""Whether every parameter is present with a value that its distribution accepts; others are ignored."""
        space = zip(self.names, self.distributions, strict=True)
        return all(name in params and _accepts(d, params[name]) for name, d in space)

    def to_unit(self, params: Mapping[str, Any]) -> Floats:
        r"""The unit row (D,) of one configuration."""
        return self.to_units([params]).reshape(-1)

    def to_units(self, params: Sequence[Mapping[str, Any]]) -> Floats:
        r"""The unit rows (n, D); numbers outside their range are clipped to it, unknown categories are an error."""
        rows = np.empty((len(params), self.n_parameters))
        for j, axis in enumerate(self._axes):
            try:
                values = [each[axis.name] for each in params]
            except KeyError as error:
                raise EncodingError(f"Parameter {axis.name!r} is missing from a configuration.") from error
            rows[:, j] = axis.units(values)
        return rows

    def from_unit(self, row: ArrayLike) -> dict[str, Any]:
        r"""The configuration nearest to a unit row (D,), in plain Python values that Optuna accepts.

        The one exception is an int range beyond 2^53 in which Optuna, which stores ints as float64, accepts nothing.
        """
        units = np.asarray(row, dtype=np.float64)
        if units.shape != (self.n_parameters,) or np.isnan(units).any():
            raise EncodingError(f"A unit row is {self.n_parameters} numbers without NaN, but got {units!r}.")
        return {axis.name: axis.value(unit) for axis, unit in zip(self._axes, units.tolist(), strict=True)}

    def encode(self, units: ArrayLike) -> Floats:
        r"""The encoded rows (n, W) of unit rows (n, D), not snapped except to the nearest category."""
        units = self._checked(units)
        rows = np.zeros((len(units), self.width))
        start = np.searchsorted(self.parameter_of_column, np.arange(self.n_parameters))
        numeric = [j for j, axis in enumerate(self._axes) if axis.kind != "categorical" and axis.count != 1]
        rows[:, start[numeric]] = 2.0 * units[:, numeric] - 1.0
        for j, axis in enumerate(self._axes):
            if axis.kind == "categorical":
                rows[np.arange(len(units)), start[j] + axis.snap(units[:, j]).astype(np.intp)] = math.sqrt(2.0)
        return rows

    def levels(self, j: int) -> Floats:
        r"""The units of an ordinal, ascending, or the indices of the distinguishable choices of a categorical."""
        if (levels := self._axes[j].levels) is None:
            raise EncodingError(f"Parameter {self.names[j]!r} is continuous: it has no list of levels.")
        return levels.copy()

    def snap(self, units: ArrayLike) -> Floats:
        r"""Each unit (n, D) moved to the nearest admissible one; continuous ones are clipped to [0, 1]."""
        units = self._checked(units)
        columns = [axis.snap(units[:, j]) for j, axis in enumerate(self._axes)]
        return np.stack(columns, axis=1) if columns else units

    def _checked(self, units: ArrayLike) -> Floats:
        rows = np.asarray(units, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_parameters:
            raise EncodingError(f"Unit rows have shape (n, {self.n_parameters}), but got {rows.shape}.")
        return rows


def _axis(name: str, d: BaseDistribution) -> _Axis:
    if isinstance(d, CategoricalDistribution):
        return _Category(name, d)
    if not isinstance(d, FloatDistribution | IntDistribution) or not _storable(d):
        raise EncodingError(
            f"Parameter {name!r} has {d!r}: it must be a float, int or categorical of Optuna, with finite bounds and, "
            "where there is a step, high - low below 1.8e308, because Optuna stores and checks values as float64."
        )
    if isinstance(d, FloatDistribution):
        return _Continuum(name, d) if d.step is None and not d.single() else _Grid(name, d)
    # A log range of large ints that is this narrow is straight, and only a linear grid tells its values apart.
    straight = d.high > _LARGEST_EXACT_INT and d.high - d.low < d.low / 1e3
    return _LogGrid(name, d) if d.log and not d.single() and not straight else _Grid(name, d)


def _storable(distribution: _Numeric) -> bool:
    # Optuna makes such a distribution and fails at its first value, where its own check overflows.
    try:
        low, high = float(distribution.low), float(distribution.high)
    except OverflowError:
        return False
    return math.isfinite(low) and math.isfinite(high) and (not distribution.step or math.isfinite(high - low))


def _contains(distribution: BaseDistribution, internal: float) -> bool:
    # Optuna has no public check, and this is the one it applies to what a sampler suggests.
    return bool(distribution._contains(internal))  # noqa: SLF001


def _accepts(distribution: BaseDistribution, value: Any) -> bool:
    try:
        return _contains(distribution, distribution.to_internal_repr(value))
    except (ValueError, TypeError, OverflowError):
        return False


def _accepted_int(d: IntDistribution, value: int) -> int:
    r"""The value if Optuna accepts it, else one near it that it does.

    Optuna checks float(value) - float(low), which beyond 2^53 moves by whole ulps: what it accepts there is a multiple
    of both the step and the ulp away from low.
    """
    if _contains(d, float(value)):
        return value
    low = int(float(d.low))
    ulp = max(1, int(math.ulp(float(max(abs(low), abs(value), value - low)))))
    period, anchor = math.lcm(d.step, ulp), (low + ulp // 2) // ulp * ulp
    nearby = [anchor + ((value - low) // period + i) * period for i in (-1, 0, 1, 2)]
    nearest_first = sorted([*nearby, d.low, d.high], key=lambda candidate: abs(candidate - value))
    return next((c for c in nearest_first if d.low <= c <= d.high and _contains(d, float(c))), value)


def _accepted_float(d: FloatDistribution, index: int, low: Fraction, step: Fraction) -> float:
    r"""The value at an index, or at the nearest rounder index where Optuna's check of the step accepts it.

    Optuna wants (v - low) / step within 1e-8 of a whole number, which rounding breaks where the step is below about
    1e-8 of the bounds. Rounder indices give shorter decimals and so pass; index 0, `low` itself, always does.
    """
    for rounder in (round(index, -digits) for digits in range(len(str(index)) + 1)):
        for value in (float(low + rounder * step), d.low + rounder * float(step)):
            clipped = min(max(value, d.low), d.high)
            if _contains(d, clipped):
                return clipped
    return d.low


def _numbers(name: str, values: Sequence[Any], d: _Numeric) -> Floats:
    r"""A column of floats clipped to the range."""
    try:
        column = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise EncodingError(f"Parameter {name!r} must be a number: {error}.") from error
    if column.ndim != 1 or np.isnan(column).any():
        raise EncodingError(f"Parameter {name!r} must be a number, without NaN, but got {reprlib.repr(values)}.")
    return np.clip(column, float(d.low), float(d.high))
