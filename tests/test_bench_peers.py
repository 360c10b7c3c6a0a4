"""The seam to peers: a made-up one that does all that peers do, then every peer that is installed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from boggn.bench import cost, methods, peers, run, tasks
from boggn.bench.optimiser import check
from boggn.bench.peers.client import PeerOptimiser, encode_space
from boggn.errors import StudyError

ADAPTER = """
import math, os, random
PACKAGES = ("pip",)

class Adapter:
    def __init__(self, space, seed, evals, noisy, options):
        print("this line is no answer")
        self.mode, self.seed, self.evals, self.told = options.pop("mode"), seed, evals, []
        if options:
            raise TypeError(f"unknown options {options}")

    def ask(self):
        if self.mode == "raises" and len(self.told) == 2:
            raise ZeroDivisionError("by design")
        if self.mode == "dies" and len(self.told) == 2:
            os.write(2, b"out of everything")
            os._exit(9)
        if self.mode == "optimum":
            return {"x0": math.pi, "x1": 2.275}
        if self.mode == "rounding":
            return {"x0": math.nextafter(10.0, 11.0), "x1": -1e-12}
        if self.mode == "nan":
            return {"x0": float("nan"), "x1": 1.0}
        return {"x0": random.uniform(-5, 10), "x1": float(len(self.told))}

    def tell(self, params, value):
        self.told.append((params, value))
"""


@pytest.fixture
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = tmp_path / "made_up"
    adapter.with_suffix(".py").write_text(ADAPTER)
    monkeypatch.setitem(peers.PEERS, "made-up", peers.Peer(str(adapter), "json", "made-up", "for tests"))


def execute(mode: str, task: str = "branin", evals: int = 4) -> run.Row:
    return run.execute(run.Job(task, f"made-up:mode={mode}", 0, evals))


@pytest.mark.usefixtures("made_up")
def test_a_method_that_returns_the_optimum_at_once_has_no_regret() -> None:
    row = execute("optimum")
    assert row["error"] is None
    assert row["regrets"] == pytest.approx([0.0] * 4, abs=1e-12)
    assert row["duplicates"] == 3
    assert row["versions"]["pip"]
    assert 0 <= row["cpu_seconds"] < 60
    assert 1e6 < row["peak_bytes"] < 1e9


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize(
    ("mode", "values", "said"),
    [
        ("raises", 2, "ZeroDivisionError: by design"),
        ("dies", 2, "ended with exit code 9.\nout of everything"),
        ("nan", 0, "the method proposed nan"),
        ("optimum,wings=2", 0, "unknown options {'wings': 2}"),
    ],
)
def test_the_failure_of_a_peer_is_in_the_row(mode: str, values: int, said: str) -> None:
    row = execute(mode)
    assert said in row["error"]
    assert len(row["values"]) == values


@pytest.mark.usefixtures("made_up")
def test_a_peer_draws_the_same_again_and_is_put_on_the_bound_it_missed_by_rounding() -> None:
    first, again = execute("random"), execute("random")
    assert first["values"] == again["values"]
    row = execute("rounding", evals=1)
    assert row["values"] == [tasks.get("branin").function({"x0": 10.0, "x1": 0.0}, None)]  # type: ignore[arg-type]


@pytest.mark.usefixtures("made_up")
def test_a_peer_leaves_when_it_is_closed() -> None:
    optimiser = PeerOptimiser("made-up", tasks.get("branin"), 0, 3, {"mode": "random"})
    optimiser.tell({"x0": 0.0, "x1": 1.0}, 3.0)
    assert optimiser.ask()["x1"] == 1.0
    pid = optimiser._process.pid
    optimiser.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_spaces_are_told_with_categories_as_numbers_and_with_conditions() -> None:
    encoded = encode_space(tasks.get("pipeline"))
    assert encoded["model"] == {"kind": "categorical", "count": 3}
    assert encoded["trees"] == {"kind": "int", "low": 10, "high": 1000, "log": True, "parent": ["model", [0]]}
    assert encoded["gamma"]["parent"] == ["kernel", [1]]


@pytest.mark.parametrize(
    "params",
    [
        {"model": "svm", "kernel": "rbf", "cost": 1.0},
        {"model": "svm", "kernel": "linear", "cost": 1.0, "gamma": 1.0},
        {"model": "svm", "kernel": "cubic", "cost": 1.0},
        {"model": "network", "rate": 0.1, "layers": 2.5},
        {"model": "network", "rate": 2.0, "layers": 2},
    ],
)
def test_a_point_must_be_in_the_space(params: dict[str, Any]) -> None:
    with pytest.raises(StudyError, match="the method proposed"):
        check(tasks.get("pipeline"), params)


@pytest.mark.slow
@pytest.mark.parametrize("name", peers.PEERS)
@pytest.mark.parametrize("task", ["branin-noise", "mixed", "pipeline"])
def test_an_installed_peer_runs_on_every_kind_of_space(name: str, task: str) -> None:
    if missing := methods.absent(name):
        pytest.skip(f"{missing} is not installed; `make peers` does it")
    row = run.execute(run.Job(task, name, 1, 12))
    assert row["error"] is None
    assert len(row["values"]) == 12
    assert row["duplicates"] < 12
    if task == "mixed":
        assert len(cost.measure(run.Job("cost", name, 0, 5), asks=1)["ask_seconds"]) == 1
