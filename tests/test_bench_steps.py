"""Tasks whose evaluations have steps, and the methods that end them early: every step is paid for, and none twice."""

import math

import numpy as np
import pytest

from boggn.bench import methods, run, tasks
from boggn.bench.optimiser import PruningOptimiser
from boggn.bench.task import Task
from boggn.errors import StudyError


def job(method: str, task: str = "branin-steps", evals: int = 6, seed: int = 0) -> run.Job:
    return run.Job(task, method, seed, evals)


@pytest.mark.parametrize("name", tasks.GROUPS["steps"])
def test_the_last_value_of_a_curve_is_the_outcome(name: str) -> None:
    task, rng = tasks.get(name), np.random.default_rng(0)
    optimiser = methods.get("random").start(task, 0, 1)
    for _ in range(3):
        params = optimiser.ask()
        curve = task.curve(params, rng) if task.curve else []
        assert len(curve) == task.steps
        assert curve[-1] == task.function(params, rng)
        assert np.all(np.isfinite(curve))
        optimiser.tell(params, curve[-1])


def test_a_slow_curve_ranks_points_wrongly_at_first_and_rightly_at_last() -> None:
    task, rng = tasks.get("branin-steps"), np.random.default_rng(0)
    assert task.curve is not None
    best, near = {"x0": -math.pi, "x1": 12.275}, {"x0": 9.42478, "x1": 3.475}
    curves = [task.curve(params, rng) for params in (best, near)]
    assert curves[0][2] > curves[1][2] + 5.0
    assert curves[0][-1] == pytest.approx(curves[1][-1], abs=1.0)
    assert task.regret(best) == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("method", ["hyperband", "bohb", "boggn-hyperband:n_startup_trials=100"])
def test_steps_are_the_budget(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.get("branin-steps")
    used: list[int] = []
    watch = PruningOptimiser.watch
    monkeypatch.setattr(PruningOptimiser, "watch", lambda self, values: used.append(watch(self, values)) or used[-1])
    row = run.execute(job(method))
    assert row["error"] is None
    assert sum(used) == 6 * task.steps
    assert len(used) > 6
    assert min(used) < task.steps
    assert len(row["regrets"]) == len(row["values"]) == 6
    assert len(row["ask_seconds"]) == len(used)
    finished = [regret for regret in row["regrets"] if math.isfinite(regret)]
    assert finished == sorted(finished, reverse=True)
    assert len(finished) > 3
    assert [value - task.optimum for value in row["values"]] == pytest.approx(row["regrets"])


def test_a_run_is_a_function_of_its_seed() -> None:
    first, again, other = (run.execute(job("hyperband", seed=seed)) for seed in (1, 1, 2))
    assert first["values"] == again["values"]
    assert first["values"] != other["values"]


def test_methods_that_do_not_prune_pay_whole_evaluations() -> None:
    row = run.execute(job("random"))
    assert len(row["values"]) == len(row["ask_seconds"]) == 6


def test_hyperband_needs_steps() -> None:
    row = run.execute(job("hyperband", task="branin"))
    assert "'branin' has none" in row["error"]
    with pytest.raises(StudyError, match="needs a task whose evaluations have steps"):
        methods.get("bohb").start(tasks.get("camel"), 0, 3)


def test_what_is_watched_was_asked_for() -> None:
    task = tasks.get("branin-steps")
    assert isinstance(task, Task)
    optimiser = methods.get("hyperband").start(task, 0, 3)
    assert isinstance(optimiser, PruningOptimiser)
    with pytest.raises(StudyError, match="Ask for a point"):
        optimiser.watch([1.0])
