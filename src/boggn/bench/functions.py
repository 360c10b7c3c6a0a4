r"""Test functions of the literature over boxes, shifted where their minimum would be easy to guess."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import FloatDistribution

from boggn.bench.task import Params, Task

Vector = NDArray[np.float64]

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


def wave_noise(x: Vector) -> float:
    return 0.02 + 0.3 * float(x[1]) ** 2


def branin_noise(x: Vector) -> float:
    return 0.2 + 0.3 * float(x[1])


WAVE_FLOOR, WAVE_MINIMISER = np.array([0.37, 0.61, 0.44]), 0.2755018270436702

# Off centre and on no grid, so that no sampler meets the optimum by symmetry or by rounding.
ACKLEY_SHIFT = np.array([2.31, -1.17, 4.43, 0.86, -2.69])
LEVY_SHIFT = np.array([3.73, -4.21, 1.58, -2.37])
LEVY20_SHIFT = np.round(6 * np.sin(1.7 * np.arange(1, 21)), 2)
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


def shifted_rotated_ackley(x: Vector) -> float:
    return ackley(_rotation(5) @ (x - ACKLEY_SHIFT))


def shifted_levy(x: Vector) -> float:
    shift = LEVY_SHIFT if len(x) == len(LEVY_SHIFT) else LEVY20_SHIFT
    return levy(x - shift + 1)


def embedded_hartmann6(x: Vector) -> float:
    """Hartmann 6 in every fourth coordinate; the others do nothing."""
    return hartmann6(x[1::4])


def shifted_rastrigin(x: Vector) -> float:
    return rastrigin(x - RASTRIGIN_SHIFT)


SLOW_STEPS = 27


def slow_branin(x: Vector) -> list[float]:
    """Branin's value as a model that trains would show it: from above, slowly where x1 is large, the last one exact."""
    step = np.arange(1, SLOW_STEPS + 1) / SLOW_STEPS
    lag = np.exp(-(8.0 - 0.4 * x[1]) * step)
    return list(branin(x) + 60.0 * np.where(step < 1.0, lag, 0.0))


def over_box(
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
