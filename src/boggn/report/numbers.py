"""Numbers for people: short texts, and axes with round ticks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LONGEST = 60
WHOLE = 1e6
"""Whole numbers below this are written in full."""
SMALL = 1e-4
"""Numbers below this are written with a power of ten."""
MOST_DIGITS = 12
DECADES = 1.7
"""Positive outcomes that span more powers of ten than this are drawn on a logarithmic axis."""


def short(value: Any, digits: int = 4, *, powered: bool = False) -> str:
    """A value as it is read in a table or a sentence: four significant digits, at most sixty characters.

    `powered` numbers are written with a power of ten, whatever their size.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = str(value)
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\N{HORIZONTAL ELLIPSIS}"
    whole = abs(value) < WHOLE and value == int(value)
    text = str(int(value)) if whole else f"{value:.{digits}g}"
    if powered and value and math.isfinite(value):
        text = f"{value:.{digits - 1}e}"
    mantissa, e, exponent = text.partition("e")
    plain = mantissa.replace("-", MINUS).replace("inf", "\N{INFINITY}")
    if not e:
        return plain
    power = f"10{str(int(exponent)).translate(RAISED)}"
    return power if mantissa == "1" else f"{plain}\N{MULTIPLICATION SIGN}{power}"


def wants_power(values: Iterable[Any]) -> bool:
    """Whether a column of values is better read with powers of ten: one of its numbers is far from one."""
    sizes = [abs(value) for value in values if isinstance(value, float) and value and math.isfinite(value)]
    return any(not SMALL <= size < WHOLE for size in sizes)


def column(values: Sequence[Any], digits: int = 4) -> list[str]:
    """Texts in one notation."""
    powered = wants_power(values)
    return [short(value, digits, powered=powered) for value in values]


def give_or_take(middle: float, half: float, *, powered: bool = False) -> str:
    """A number with the half width of its interval, both to the same decimal, and of the same power if `powered`."""
    size = max(abs(middle), half)
    if powered and 1e-300 < size < math.inf:
        power = math.floor(math.log10(size))
        unit = 10.0**power
        raised = str(power).translate(RAISED)
        return f"({give_or_take(middle / unit, half / unit)})\N{MULTIPLICATION SIGN}10{raised}"
    if math.isfinite(half) and half >= 1e-9 and abs(middle) < 1e6:
        decimals = max(0, 1 - math.floor(math.log10(half)))
        return f"{round(middle, decimals) + 0.0:.{decimals}f} \N{PLUS-MINUS SIGN} {half:.{decimals}f}".replace(
            "-", MINUS
        )
    return f"{short(middle)} \N{PLUS-MINUS SIGN} {short(half, 2)}"


def percent(share: float | None) -> str:
    """A share as a whole percentage; what is not quite nothing or all is not said to be."""
    if share is None:
        return NONE
    if 0.0 < share < 0.005:
        return "<\N{NO-BREAK SPACE}1%"
    return ">\N{NO-BREAK SPACE}99%" if 0.995 < share < 1.0 else f"{100 * share:.0f}%"


def duration(seconds: float) -> str:
    """A length of time, to three digits."""
    unit, size = unit_of(seconds)
    return f"{seconds / size:.3g} {unit}"


def unit_of(seconds: float) -> tuple[str, float]:
    """The unit in which a length of time is best said, and its own length."""
    for unit, size, least in (("days", 86400.0, 2.0), ("h", 3600.0, 1.5), ("min", 60.0, 2.0), ("s", 1.0, 1.0)):
        if seconds >= least * size:
            return unit, size
    return "ms", 1e-3


@final
@dataclass(frozen=True)
class Scale:
    """A numeric axis: where a value stands between 0 and 1. Values beyond its ends stand on them."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, values: Iterable[float], *, log: bool | None = None, margin: float = 0.04) -> Self:
        """The axis of some values, with a little room at its ends; `log=None` leaves the choice to their spread."""
        finite = [value for value in values if math.isfinite(value)]
        low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
        if log is None:
            log = low > 0.0 and math.log10(high) - math.log10(low) > DECADES
        if log and low > 0.0:
            room = max(math.log10(high) - math.log10(low), 0.1) * margin
            return cls(max(low / 10**room, 5e-324), min(high * 10**room, 1e308), log=True)
        room = (high / 2 - low / 2) * 2 * margin or abs(high) * 0.1 or 1.0
        return cls(max(low - room, -8e307), min(high + room, 8e307))

    def on(self, value: float) -> float:
        """Its place; NaN off the axis, where nothing is to be drawn. Rounding takes nothing off it."""
        slack = 0.0 if self.log else 1e-9 * (self.high / 2 - self.low / 2)
        return self.at(value) if self.low - slack <= value <= self.high + slack else math.nan

    def at(self, value: float) -> float:
        """Its place, 0 at the low end; a NaN stands in the middle."""
        if math.isnan(value):
            return 0.5
        clipped = min(max(value, self.low), self.high)
        if self.log:
            return (math.log(clipped) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (clipped / 2 - self.low / 2) / (self.high / 2 - self.low / 2)  # high - low may overflow

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values with their places, at most so many."""
        values = _decades(self.low, self.high, most) if self.log else _round_values(self.low, self.high, most)
        return [(self.at(value), label) for value, label in zip(values, apart(values), strict=True)]


def robust(values: Sequence[float], sign: float) -> Scale:
    """An axis on which the better outcomes can be told apart: far outliers on the bad side stand on its end.

    `sign` is 1 where small outcomes are the better ones, and -1 where large ones are.
    """
    finite = sorted(sign * value for value in values if math.isfinite(value))
    if not finite:
        return Scale(0.0, 1.0)
    if sign > 0 and (everything := Scale.around(finite)).log:
        return everything
    best, upper = finite[0], finite[(3 * len(finite)) // 4]
    limit = upper + 2.0 * (upper - best)
    return Scale.around([sign * value for value in finite if value <= limit] or [sign * best], log=False)


def _round_values(low: float, high: float, most: int) -> list[float]:
    raw = high / most - low / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / most))
    values = [10.0**power for power in range(first, last + 1, stride) if -324 < power < 309]
    if len(values) >= 3:
        return values
    fine = [factor * 10.0**power for power in range(first - 1, last + 1) for factor in (1, 2, 5)]
    fine = [value for value in fine if low <= value <= high]
    return fine[:: math.ceil(len(fine) / most)] if len(fine) >= 3 else _round_values(low, high, most)


def apart(values: Sequence[float], digits: int = 3, *, powered: bool = False) -> list[str]:
    """Labels that differ wherever their values do, where twelve digits are enough for that."""
    different = len(set(values))
    while True:
        labels = [short(0.0 if abs(value) < 1e-300 else float(value), digits, powered=powered) for value in values]
        if len(set(labels)) == different or digits >= MOST_DIGITS:
            return labels
        digits += 1
