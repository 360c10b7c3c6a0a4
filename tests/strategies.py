r"""Hypothesis strategies for Optuna's distributions, search spaces and parameters.

Stepped distributions are built so that the range is a whole number of steps: Optuna warns and shrinks it otherwise.
"""

from __future__ import annotations

import string
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

LARGEST = 1e308
names = st.text(string.ascii_lowercase, min_size=1, max_size=3)
choices = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=True, allow_infinity=True), st.text(max_size=3)
)


@st.composite
def floats(draw: st.DrawFn, largest: float = LARGEST) -> FloatDistribution:
    ends = st.floats(-largest, largest).map(lambda end: end + 0.0)  # -0.0 is no bound of its own
    low, high = sorted([draw(ends), draw(ends)])
    return FloatDistribution(low, high)


@st.composite
def log_floats(draw: st.DrawFn, smallest: float = 5e-324, largest: float = LARGEST) -> FloatDistribution:
    ends = st.floats(smallest, largest, allow_subnormal=True)
    low, high = sorted([draw(ends), draw(ends)])
    return FloatDistribution(low, high, log=True)


@st.composite
def stepped_floats(draw: st.DrawFn, most_steps: int = 10_000) -> FloatDistribution:
    unit = Decimal(1).scaleb(draw(st.integers(-6, 3)))
    step = draw(st.integers(1, 99)) * unit
    low = draw(st.integers(-500, 500)) * unit
    steps = draw(st.integers(0, most_steps))
    return FloatDistribution(float(low), float(low + steps * step), step=float(step))


@st.composite
def ints(draw: st.DrawFn, largest: int = 2**53, most_steps: int = 2**50) -> IntDistribution:
    step = draw(st.one_of(st.just(1), st.integers(2, 10)))
    low = draw(st.integers(-largest, largest - 1))
    steps = draw(st.one_of(st.integers(0, 200), st.integers(0, most_steps)))
    return IntDistribution(low, low + min(steps, (largest - low) // step) * step, step=step)


@st.composite
def log_ints(draw: st.DrawFn, largest: int = 2**43) -> IntDistribution:
    ends = st.one_of(st.integers(1, 300), st.integers(1, largest))
    low, high = sorted([draw(ends), draw(ends)])
    return IntDistribution(low, high, log=True)


@st.composite
def categoricals(draw: st.DrawFn, most: int = 8) -> CategoricalDistribution:
    return CategoricalDistribution(draw(st.lists(choices, min_size=1, max_size=most)))


def grids() -> st.SearchStrategy[BaseDistribution]:
    r"""Whatever has finitely many values and a float64 can tell apart."""
    return st.one_of(stepped_floats(), ints(), log_ints(), categoricals())


def distributions() -> st.SearchStrategy[BaseDistribution]:
    return st.one_of(floats(), log_floats(), grids())


def spaces(most: int = 5) -> st.SearchStrategy[dict[str, BaseDistribution]]:
    return st.dictionaries(names, distributions(), max_size=most)


@st.composite
def values(draw: st.DrawFn, distribution: BaseDistribution) -> Any:
    r"""A value of the distribution, on its grid where it has one."""
    if isinstance(distribution, CategoricalDistribution):
        return draw(st.sampled_from(distribution.choices))
    assert isinstance(distribution, FloatDistribution | IntDistribution)
    low, high, step = distribution.low, distribution.high, distribution.step
    if step is None:
        return draw(st.floats(low, high))
    if isinstance(distribution, IntDistribution):
        return low + step * draw(st.integers(0, (distribution.high - distribution.low) // distribution.step))
    steps = int((Decimal(repr(high)) - Decimal(repr(low))) / Decimal(repr(step)))
    return float(Decimal(repr(low)) + draw(st.integers(0, steps)) * Decimal(repr(step)))


@st.composite
def params(draw: st.DrawFn, space: dict[str, BaseDistribution]) -> dict[str, Any]:
    return {name: draw(values(distribution)) for name, distribution in space.items()}


@st.composite
def spaces_with_params(draw: st.DrawFn, most: int = 5) -> tuple[dict[str, BaseDistribution], list[dict[str, Any]]]:
    r"""A space and a few configurations of it."""
    space = draw(spaces(most))
    return space, draw(st.lists(params(space), max_size=4))
