r"""What a task is: a space, a function to minimise over it, and its minimum.

Notation
--------
x        a point, `(d,)`
f(x)     the noise-free value; the optimiser may see a noisy one
regret   f(x) - min f, always of the noise-free value
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from optuna.distributions import BaseDistribution

Params = Mapping[str, Any]


class Condition(NamedTuple):
    """A parameter is there only where its parent, a categorical before it in the space, has one of these values."""

    parent: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    r"""A function to minimise whose noise-free minimum is known, or whose best known value is.

    `function(params, rng)` is what the optimiser observes; all its randomness comes from `rng`.
    """

    name: str
    space: Mapping[str, BaseDistribution]
    function: Callable[[Params, np.random.Generator], float]
    regret: Callable[[Params], float]
    optimum: float
    description: str
    noisy: bool = False
    conditions: Mapping[str, Condition] = field(default_factory=dict)
    steps: int = 1
    curve: Callable[[Params, np.random.Generator], Sequence[float]] | None = None
    """Values after each of so many steps of an evaluation, the last one that of `function`; it may end in between."""

    def values(self, params: Params, rng: np.random.Generator) -> Sequence[float]:
        """What an evaluation shows after each of its steps, of which there may be but one."""
        return [self.function(params, rng)] if self.curve is None else self.curve(params, rng)

    def is_active(self, name: str, params: Params) -> bool:
        """Whether a parameter is there, given those before it in the space."""
        if name not in self.conditions:
            return True
        parent, values = self.conditions[name]
        return parent in params and params[parent] in values
