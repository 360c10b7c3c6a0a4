r"""The sampler in a study: reproducible, restartable, parallel, and at ease with whatever a study may do to it."""

from __future__ import annotations

import itertools
import json
import logging
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.pruners import HyperbandPruner
from optuna.samplers import BaseSampler, PartialFixedSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState

from boggn import BOGGNSampler
from boggn.record import read

N_STARTUP = 4
N_TRIALS = 10
SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(-5.0, 10.0), "y": FloatDistribution(0.0, 15.0)}


def bowl(trial: Trial) -> float:
    return value_of({"x": trial.suggest_float("x", -5.0, 10.0), "y": trial.suggest_float("y", 0.0, 15.0)})


def value_of(params: dict[str, Any]) -> float:
    return float((params["x"] - 2.0) ** 2 + (params["y"] - 3.0) ** 2)


def make(seed: int = 0, **options: Any) -> BOGGNSampler:
    return BOGGNSampler(seed=seed, **({"n_startup_trials": N_STARTUP} | options))


def run(sampler: BaseSampler, n_trials: int = N_TRIALS, **options: Any) -> Study:
    study = optuna.create_study(sampler=sampler, **options)
    study.optimize(bowl, n_trials=n_trials)
    return study


def points(study: Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.get_trials(deepcopy=False)]


def record(trial: FrozenTrial) -> dict[str, Any]:
    stored = read(trial)
    assert stored is not None
    return dict(stored["record"])


def was_modelled(trial: FrozenTrial) -> bool:
    stored = read(trial)
    return stored is not None and "model" in stored["record"]


# --------------------------------------------------------------------------------------------------- reproducibility
def test_the_seed_decides_the_study() -> None:
    study = run(make(1))
    assert all(map(was_modelled, study.trials[N_STARTUP:]))
    assert points(study) == points(run(make(1)))
    assert all(p != q for p, q in zip(points(study), points(run(make(2))), strict=True))


def test_the_papers_preset_is_reproducible() -> None:
    first, second = (run(BOGGNSampler.paper(seed=1, n_startup_trials=N_STARTUP)) for _ in range(2))
    assert any(map(was_modelled, first.trials))
    assert points(first) == points(second)


def test_without_a_seed_studies_differ() -> None:
    first, second = (run(BOGGNSampler(), n_trials=2) for _ in range(2))
    assert points(first) != points(second)


def test_reseeding_changes_what_is_sampled_and_doing_so_twice_changes_nothing() -> None:
    once, twice = make(), make()
    once.reseed_rng()
    twice.reseed_rng()
    twice.reseed_rng()
    reseeded = points(run(once))
    assert reseeded == points(run(twice))
    assert all(p != q for p, q in zip(reseeded, points(run(make())), strict=True))


def test_another_process_suggests_the_same() -> None:
    code = f"""
import json
import optuna
from boggn import BOGGNSampler

def bowl(trial):
    x, y = trial.suggest_float("x", -5.0, 10.0), trial.suggest_float("y", 0.0, 15.0)
    return float((x - 2.0) ** 2 + (y - 3.0) ** 2)

study = optuna.create_study(sampler=BOGGNSampler(seed=7, n_startup_trials={N_STARTUP}))
study.optimize(bowl, n_trials={N_STARTUP + 3})
print(json.dumps([trial.params for trial in study.trials]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == points(run(make(7), N_STARTUP + 3))


def test_a_suggestion_is_a_function_of_seed_number_and_history() -> None:
    study = run(make())
    copy = optuna.create_study(sampler=make())
    copy.add_trials(study.trials)
    expected = study.ask(SPACE).params
    assert copy.ask(SPACE).params == expected


def test_a_sampler_used_elsewhere_suggests_the_same() -> None:
    used = make()
    run(used, direction="maximize")
    assert points(run(used)) == points(run(make()))


def test_pickling_keeps_what_comes_next() -> None:
    study = run(make())
    copy = optuna.create_study(sampler=pickle.loads(pickle.dumps(study.sampler)))  # noqa: S301  our own bytes
    copy.add_trials(study.trials)
    assert copy.ask(SPACE).params == study.ask(SPACE).params


def test_pickling_a_sampler_without_a_seed_keeps_the_one_it_drew() -> None:
    sampler = BOGGNSampler()
    copy = pickle.loads(pickle.dumps(sampler))  # noqa: S301  our own bytes
    assert points(run(sampler, n_trials=2)) == points(run(copy, n_trials=2))


def test_a_study_resumes_from_its_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    run(make(), N_STARTUP + 2, storage=url, study_name="resumed")
    resumed = optuna.load_study(study_name="resumed", storage=url, sampler=make())
    resumed.optimize(bowl, n_trials=4)
    assert points(resumed) == points(run(make(), N_STARTUP + 6))


def test_maximising_is_minimising_the_negative() -> None:
    mirrored = optuna.create_study(sampler=make(), direction="maximize")
    mirrored.optimize(lambda trial: -bowl(trial), n_trials=N_TRIALS)
    assert points(mirrored) == points(run(make()))


def test_it_finds_the_bottom_of_a_bowl() -> None:
    assert run(make(), 20).best_value < 0.01


# ---------------------------------------------------------------------------------------------------------- parallel
class Snapshot:
    r"""A study as one trial saw it; what is written on its trials goes nowhere unless there is a study behind it."""

    def __init__(self, trials: Sequence[FrozenTrial], study: Study | None = None) -> None:
        self.trials = trials
        self.direction = optuna.study.StudyDirection.MINIMIZE
        self.directions = [self.direction]
        self._storage: Any = SimpleNamespace(set_trial_system_attr=lambda *_: None)
        if study is not None:
            self._storage = study._storage

    def get_trials(self, deepcopy: bool = True, states: Sequence[TrialState] | None = None) -> list[FrozenTrial]:
        return [trial for trial in self.trials if states is None or trial.state in states]


class Recording(BOGGNSampler):
    r"""Remembers what every trial saw and got."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: list[tuple[FrozenTrial, list[FrozenTrial], dict[str, BaseDistribution], dict[str, Any]]] = []

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        visible = study.get_trials(deepcopy=True)
        params = super().sample_relative(Snapshot(visible, study), trial, search_space)  # type: ignore[arg-type]
        self.calls.append((trial, visible, search_space, params))
        return params


def run_in_parallel(sampler: BaseSampler, n_jobs: int = 4, n_trials: int = 16) -> Study:
    together = threading.Barrier(n_jobs)

    def objective(trial: Trial) -> float:
        value = bowl(trial)
        if trial.number < n_jobs:  # until a trial has finished nobody knows the search space
            together.wait(timeout=60)
        return value

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=n_trials, n_jobs=n_jobs)
    return study


def test_parallel_threads_reproduce_the_start_and_can_be_replayed() -> None:
    n_startup = 8
    sampler = Recording(seed=3, n_startup_trials=n_startup)
    study = run_in_parallel(sampler)
    again = run_in_parallel(make(3, n_startup_trials=n_startup))
    assert points(study)[:n_startup] == points(again)[:n_startup]
    for one in (study, again):
        assert len({tuple(params.items()) for params in points(one)}) == len(one.trials)
    assert any(map(was_modelled, study.trials))
    for trial, visible, space, params in sampler.calls:
        alone = make(3, n_startup_trials=n_startup)
        alone.reseed_rng()
        assert alone.sample_relative(Snapshot(visible), trial, space) == params  # type: ignore[arg-type]


def distances(asked: list[dict[str, Any]]) -> list[float]:
    r"""Between all pairs of points, in the unit cube."""
    cube = np.array([[(p["x"] + 5.0) / 15.0, p["y"] / 15.0] for p in asked])
    return [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(cube, 2)]


@pytest.mark.parametrize("seed", range(3))
def test_asks_without_answers_spread_out(seed: int) -> None:
    told = N_STARTUP + 2
    study = run(make(seed), told)
    apart = distances([study.ask(SPACE).params for _ in range(8)])
    assert min(apart) > 0.01
    assert np.median(apart) > 0.1
    assert [record(trial)["running"] for trial in study.trials[told:]] == list(range(8))


def test_asks_without_answers_differ_even_where_the_optimum_is_known() -> None:
    study = run(make(), 2 * N_TRIALS)
    assert min(distances([study.ask(SPACE).params for _ in range(8)])) > 0.0


def test_a_running_trial_is_seen_before_it_asks_for_its_parameters() -> None:
    study = run(make())
    silent, next_one = study.ask(), study.ask()
    assert silent.relative_params != next_one.relative_params
    assert record(study.trials[next_one.number])["running"] == 1


# ---------------------------------------------------------------------------------------------------- other people's
def test_enqueued_trials_are_run_as_they_are_and_learned_from() -> None:
    study = run(make())
    study.enqueue_trial({"x": 2.0, "y": 3.0})
    study.enqueue_trial({"x": 2.5})
    study.optimize(bowl, n_trials=3)
    whole, part, after = study.trials[-3:]
    assert whole.params == {"x": 2.0, "y": 3.0}
    assert whole.value == 0.0
    assert part.params["x"] == 2.5
    assert record(after)["observations"] == N_TRIALS + 2


def test_fixed_parameters_are_left_out_of_the_model() -> None:
    study = run(make())
    study.sampler = PartialFixedSampler({"x": 0.5}, study.sampler)
    study.optimize(bowl, n_trials=3)
    for trial in study.trials[-3:]:
        stored = read(trial)
        assert trial.params["x"] == 0.5
        assert stored is not None
        assert stored["params"] == {"y": trial.params["y"]}
        assert was_modelled(trial)


@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (0.0, 20.0), (20.0, 30.0), (10.0, 30.0)])
def test_ranges_may_change_at_any_time(low: float, high: float) -> None:
    def objective(trial: Trial, low: float, high: float) -> float:
        return trial.suggest_float("x", low, high) + trial.suggest_int("n", int(low), int(high))

    study = optuna.create_study(sampler=make(warn_independent_sampling=False))
    study.optimize(lambda trial: objective(trial, 0.0, 10.0), n_trials=8)
    study.optimize(lambda trial: objective(trial, low, high), n_trials=8)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 16
    for trial in study.trials[8:]:
        assert all(low <= value <= high for value in trial.params.values())
    last = study.trials[-1]
    inside = [t for t in study.trials[:-1] if all(low <= value <= high for value in t.params.values())]
    assert was_modelled(last)
    assert record(last)["observations"] == len(inside)


@pytest.mark.parametrize("other", [RandomSampler(seed=0), TPESampler(seed=0)], ids=["random", "tpe"])
def test_a_history_of_another_sampler_is_learned_from(other: BaseSampler) -> None:
    source = run(other, 12)
    study = optuna.create_study(sampler=BOGGNSampler(seed=0))
    study.add_trials(source.trials)
    trial = study.ask(SPACE)
    assert record(study.trials[-1])["observations"] == 12
    assert SPACE["x"]._contains(trial.params["x"])
    source.sampler = make()
    assert source.ask(SPACE).params.keys() == SPACE.keys()
    assert was_modelled(source.trials[-1])


def test_failed_trials_are_not_learned_from() -> None:
    study = run(make())
    failed = study.ask(SPACE)
    study.tell(failed, state=TrialState.FAIL)
    study.ask(SPACE)
    assert record(study.trials[-1])["observations"] == N_TRIALS
    assert record(study.trials[-1])["running"] == 0


def test_hyperband_with_pruning() -> None:
    def objective(trial: Trial) -> float:
        value = bowl(trial)
        for step in range(1, 10):
            trial.report(value + 10.0 / step, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return value

    pruner = HyperbandPruner(min_resource=1, max_resource=9, reduction_factor=3)
    # Hyperband deals trials to its brackets by the name of the study.
    study = optuna.create_study(study_name="hyperband", sampler=make(), pruner=pruner)
    study.optimize(objective, n_trials=25)
    states = [trial.state for trial in study.trials]
    assert set(states) == {TrialState.COMPLETE, TrialState.PRUNED}
    modelled = [trial for trial in study.trials if was_modelled(trial)]
    assert modelled
    assert all(record(trial)["observations"] < trial.number for trial in modelled[-3:])


def test_a_pruned_trial_counts_with_its_last_report() -> None:
    study = run(make())
    pruned = study.ask(SPACE)
    pruned.report(-1e6, step=1)
    study.tell(pruned, state=TrialState.PRUNED)
    mute = study.ask(SPACE)
    study.tell(mute, state=TrialState.PRUNED)
    study.ask(SPACE)
    last = record(study.trials[-1])
    assert last["observations"] == N_TRIALS + 1
    finished = [trial.value for trial in study.trials[:N_TRIALS]]
    assert last["threshold"] in finished  # the report counts as no better than the median


# ------------------------------------------------------------------------------------------- conditional parameters
def conditional(trial: Trial) -> float:
    if trial.suggest_categorical("kind", ["a", "b"]) == "a":
        return trial.suggest_float("x", 0.0, 1.0)
    return trial.suggest_float("z", -1.0, 0.0)


def complaints(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [entry for entry in caplog.records if entry.name.startswith("boggn")]


def test_conditional_parameters_are_sampled_alone_and_one_is_told(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(sampler=make())
    with caplog.at_level(logging.WARNING):
        study.optimize(conditional, n_trials=N_STARTUP)
        assert complaints(caplog) == []
        study.optimize(conditional, n_trials=6)
    assert {trial.params["kind"] for trial in study.trials} == {"a", "b"}
    told = complaints(caplog)
    assert told
    assert {entry.levelno for entry in told} == {logging.WARNING}
    assert "'x'" in told[0].getMessage() or "'z'" in told[0].getMessage()
    assert "warn_independent_sampling=False" in told[0].getMessage()


def test_the_warning_can_be_silenced(caplog: pytest.LogCaptureFixture) -> None:
    study = optuna.create_study(sampler=make(warn_independent_sampling=False))
    with caplog.at_level(logging.WARNING):
        study.optimize(conditional, n_trials=N_STARTUP + 6)
    assert complaints(caplog) == []


def test_shared_parameters_cause_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run(make())
    assert complaints(caplog) == []


class Spy(RandomSampler):
    r"""Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__(seed=0)
        self.calls: list[str] = []

    def reseed_rng(self) -> None:
        self.calls.append("reseed")
        super().reseed_rng()

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        self.calls.append("before")

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        self.calls.append(param_name)
        return super().sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        self.calls.append(f"after {state.name}")


def test_the_independent_sampler_is_told_of_everything() -> None:
    spy = Spy()
    sampler = make(independent_sampler=spy)
    run(sampler, 2)
    assert spy.calls == ["before", "x", "y", "after COMPLETE", "before", "after COMPLETE"]
    sampler.reseed_rng()
    assert spy.calls[-1] == "reseed"


def test_one_discrete_configuration_is_not_repeated_when_told_so() -> None:
    def objective(trial: Trial) -> float:
        return trial.suggest_int("n", 0, 4) + trial.suggest_categorical("c", [0, 5, 10])

    study = optuna.create_study(sampler=make(deterministic_objective=True, warn_independent_sampling=False))
    study.optimize(objective, n_trials=N_STARTUP)
    before = {tuple(sorted(p.items())) for p in points(study)}
    study.optimize(objective, n_trials=15 - len(before))
    assert len({tuple(sorted(p.items())) for p in points(study)}) == 15
    study.optimize(objective, n_trials=1)  # with nothing new left it repeats one


# ------------------------------------------------------------------------------------------------- several thresholds
@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"thresholds": 5}, {"thresholds": 1, "network": "mlp:8:tanh", "link": "logit"}],
    ids=["wide", "mlp"],
)
def test_several_thresholds_suggest_by_a_model_and_again_the_same(options: dict[str, Any]) -> None:
    study, again = run(make(**options)), run(make(**options))
    assert points(study) == points(again)
    for trial in study.trials[N_STARTUP:]:
        found = record(trial)
        assert "random" not in found
        assert {"noise", "warp offset"} <= found["scales"].keys()
        assert 0 <= found["pi"] <= 1
        assert found["ei"] >= 0
    assert f"{options['thresholds']} threshold" in record(study.trials[-1])["model"]


@pytest.mark.slow
def test_several_thresholds_are_at_ease_with_tied_outcomes() -> None:
    study = optuna.create_study(sampler=make(thresholds=5))
    study.optimize(lambda trial: float(round(bowl(trial) / 40)), n_trials=N_TRIALS)
    assert len({trial.value for trial in study.trials}) < N_TRIALS
    assert all("random" not in record(trial) for trial in study.trials[N_STARTUP:])


# ------------------------------------------------------------------------------------------------ economies of training
def trained(**options: Any) -> BOGGNSampler:
    small: dict[str, Any] = {"seed": 0, "n_startup_trials": N_STARTUP, "network": "mlp:8:tanh", "epsilon": 0.0}
    return BOGGNSampler.paper(**(small | options))


@pytest.mark.slow
@pytest.mark.parametrize("patience", [None, 3])
def test_a_warm_start_is_found_again_by_a_sampler_that_does_not_remember_it(patience: int | None) -> None:
    study = run(trained(warm_start=True, patience=patience), 14)
    steps = [record(trial)["training_steps"] for trial in study.trials[N_STARTUP:]]
    if patience is None:  # random weights up to the tenth trial, from there on its network
        assert steps == 7 * [500] + 3 * [100]
    else:
        assert sum(steps) < 7 * 500
    for number in (10, 13):
        other = optuna.create_study(sampler=trained(warm_start=True, patience=patience))
        other.add_trials(study.trials[:number])
        asked = other.ask(SPACE)
        assert asked.params == study.trials[number].params
        found, before = record(other.trials[-1]), record(study.trials[number])
        assert found["log_evidence"] == before["log_evidence"]
        assert found["training_steps"] == before["training_steps"] + (0 if number == 10 else steps[6])


@pytest.mark.slow
def test_a_warm_start_depends_on_no_trial_since_the_last_tenth() -> None:
    """Whatever came after it, and in whatever order it was asked for."""
    study = run(trained(warm_start=True), 13)
    sampler = trained(warm_start=True)
    for number in (12, 11, 13):
        other = optuna.create_study(sampler=sampler)
        other.add_trials(study.trials[:number])
        expected = optuna.create_study(sampler=trained(warm_start=True))
        expected.add_trials(study.trials[:number])
        assert other.ask(SPACE).params == expected.ask(SPACE).params


@pytest.mark.slow
def test_patience_saves_steps_and_says_how_many() -> None:
    study = run(trained(patience=2), 8)
    steps = [record(trial)["training_steps"] for trial in study.trials[N_STARTUP:]]
    assert all(0 < count <= 500 for count in steps)  # up to 32 observations each step is an epoch
    assert sum(steps) < 500 * len(steps)
    assert "training_steps" not in record(run(make(), N_STARTUP + 1).trials[-1])
