from __future__ import annotations

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from click.testing import Result
from typer.testing import CliRunner

from boggn import cli
from boggn.bench import cost, methods, peers, report, run, tasks
from boggn.bench.optimiser import OptunaOptimiser
from boggn.errors import BoggnError, MissingPackageError, StudyError


def test_unknown_names_are_refused_before_any_run() -> None:
    with pytest.raises(StudyError, match=r"'brainin'.*branin"):
        tasks.expand(["paper", "brainin"])
    with pytest.raises(StudyError, match=r"'bogn'.*boggn"):
        methods.get("bogn")
    with pytest.raises(StudyError, match="'link' is not"):
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


def hanging(job: run.Job) -> run.Row:
    child = subprocess.Popen(["sleep", "600"])  # as a peer that the run started
    with Path(os.environ["CHILDREN"]).open("a") as file:
        print(child.pid, file=file)
    time.sleep(600)
    return run.execute(job)


def is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_a_run_that_takes_too_long_is_stopped_with_what_it_started_and_the_next_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children = tmp_path / "children"
    monkeypatch.setenv("CHILDREN", str(children))
    began = iter(run.run_jobs(jobs("random"), 2, hanging, limit=8))
    assert [row["error"] for row in began] == ["Stopped: the run took longer than 8 s."] * 2
    pids = [int(line) for line in children.read_text().split()]
    assert len(pids) == 2
    if not Path("/proc/self").exists():
        pytest.skip("whether a process is alive is read from /proc, which is not here")
    assert not any(map(is_alive, pids))


def test_what_is_not_installed_is_recorded_as_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(peers.PEERS, "nobody", peers.Peer("nobody", "no_such_module", "nobody", "is nowhere"))
    out = tmp_path / "runs.jsonl"
    assert run.run(jobs("nobody", "random"), out, 0) == 0
    assert "nobody is absent" in capsys.readouterr().err
    rows = run.read_rows(out)
    assert [(row["method"], row.get("absent", False)) for row in rows] == [
        ("nobody", True),
        ("nobody", True),
        ("random", False),
        ("random", False),
    ]
    assert "Absent, so not compared: nobody." in report.markdown(rows, [5])
    with pytest.raises(MissingPackageError, match="'nobody' is absent"):
        methods.get("nobody").start(tasks.get("branin"), 0, 5)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines() if path.exists() else []


@pytest.mark.slow
def test_a_runner_killed_and_started_again_loses_no_run_and_repeats_none(tmp_path: Path) -> None:
    out = tmp_path / "runs.jsonl"
    command = [sys.executable, "-m", "boggn", "bench", "run", "--tasks", "branin,camel", "--methods", "random"]
    command += ["--seeds", "4", "--evals", "5", "--jobs", "2", "--out", str(out)]
    for wanted in (1, 3):
        runner = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while len(lines_of(out)) < wanted:
            assert runner.poll() is None
            time.sleep(0.01)
        runner.send_signal(signal.SIGKILL)
        runner.wait()
        before = lines_of(out)
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    rows = [json.loads(line) for line in lines_of(out)]
    done = [run.key(row) for row in rows]
    wanted_jobs = {run.Job(task, "random", seed, 5) for task in ("branin", "camel") for seed in range(4)}
    assert lines_of(out)[: len(before)] == before
    assert set(done) == wanted_jobs
    assert len(done) == len(wanted_jobs)
    assert all(row["error"] is None and row["peak_bytes"] > 1e7 and row["cpu_seconds"] > 0 for row in rows)


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


def boggn(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, ["bench", *arguments])


@pytest.mark.slow
def test_command_line_runs_and_reports(tmp_path: Path) -> None:
    out, page = tmp_path / "runs.jsonl", tmp_path / "page.html"
    common = ["--tasks", "branin,mixed", "--seeds", "1-2", "--evals", "4,mixed=3", "--out", str(out)]
    assert boggn("run", "--methods", "random,tpe", *common).exit_code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    # Seed by seed, so that a comparison that is stopped is not lopsided.
    assert [(row["seed"], row["task"], row["method"], row["evals"]) for row in rows] == [
        (seed, task, method, evals)
        for seed in (1, 2)
        for task, evals in (("branin", 4), ("mixed", 3))
        for method in ("random", "tpe")
    ]
    assert {"versions", "machine", "commit", "duplicates", "start_seconds"} <= set(rows[0])
    said = boggn("report", str(out), "--reference", "random", "--markdown").stdout
    assert "| mixed |" in said
    assert "2 tasks, 4 blocks" in said
    assert "Tests against random" in boggn("report", str(out), "--reference", "random").stdout
    assert boggn("report", str(out), "--html", str(page)).exit_code == 0
    assert "2 methods on 2 tasks" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--methods", "nobody"], "'nobody'.*known are boggn"),
        (["--methods", "random", "--seeds", "0"], "`seeds` must be"),
        (["--methods", "random", "--evals", "5,camel=2"], "not among the tasks: camel"),
        (["--methods", "random", "--evals", "5,branin"], "`evals` must be"),
    ],
)
def test_a_wrong_question_is_refused_before_any_run(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = boggn("run", "--tasks", "branin", "--out", str(tmp_path / "runs.jsonl"), *arguments)
    assert isinstance(done.exception, BoggnError)
    assert re.search(said, str(done.exception))
    assert not (tmp_path / "runs.jsonl").exists()


@pytest.mark.slow
def test_lists_of_tasks_and_methods() -> None:
    listed = boggn("tasks").stdout
    assert all(name in listed for name in ["branin", "pipeline", "conditional", "svm-digits", "training ="])
    listed = boggn("methods").stdout
    assert all(name in listed for name in ["boggn-paper", "smac", "hebo", "make peers"])


def told(method: str, count: int) -> run.Row:
    return cost.measure(run.Job("cost", method, 0, count), asks=2)


@pytest.mark.parametrize("method", ["random", "tpe"])
def test_scaling_tells_points_that_the_method_did_not_ask_for(method: str) -> None:
    row = told(method, 30)
    assert len(row["tell_seconds"]) == 30
    assert len(row["ask_seconds"]) == 2
    assert row["peak_bytes"] > 1e7


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
