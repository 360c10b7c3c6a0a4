"""`boggn ask` and `boggn tell`: JSON in and out, in any order, any number of times."""

import contextlib
import io
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

import boggn
from boggn.product.studyfile import load
from boggn.product.worker import study_of
from commandline import call, command, spawn

STUDY = """\
[objective]
command = "echo {x}"
[space]
x = { low = 0.0, high = 1.0 }
k = ["a", "b"]
[budget]
trials = 30
[sampler]
n_startup_trials = 1000
"""


@pytest.fixture
def path(folder: Path) -> Path:
    path = folder / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


Talk = Any


@pytest.fixture
def talk(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Talk:
    """Run a command with JSON on its input; its output as JSON, or its complaint."""

    def talk(*arguments: Any, say: Any = None) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO(say if isinstance(say, str) else json.dumps(say)))
        status = call(*arguments)
        told = capsys.readouterr()
        if status == 0:
            return json.loads(told.out)
        assert status == 2
        assert told.err.count("\n") == 1
        return told.err

    return talk


def test_a_batch_is_asked_and_told_in_any_order_and_twice(path: Path, talk: Talk) -> None:
    asked = talk("ask", path, "--n", 8)
    assert [each["trial"] for each in asked] == list(range(8))
    assert len({int(8 * each["parameters"]["x"]) for each in asked}) >= 6  # spread out
    assert talk("ask", path, "--open") == asked
    outcomes = [{"trial": each["trial"], "value": each["parameters"]["x"]} for each in reversed(asked[1:])]
    assert talk("tell", path, say=outcomes) == [
        {"trial": each["trial"], "state": "complete", "new": True} for each in outcomes
    ]
    assert all(not each["new"] for each in talk("tell", path, say=outcomes))
    assert talk("ask", path, "--open") == asked[:1]
    assert talk("tell", path, "--trial", 0, "--failed", "it broke") == [{"trial": 0, "state": "fail", "new": True}]
    assert talk("tell", path, "--trial", 0, "--failed", "it broke") == [{"trial": 0, "state": "fail", "new": False}]
    assert talk("ask", path)[0]["trial"] == 8
    study = study_of(load(path))
    assert study.trials[0].user_attrs["failure"] == "it broke"
    assert [trial.value for trial in study.trials[1:8]] == [trial.params["x"] for trial in study.trials[1:8]]


def test_metrics_are_kept(path: Path, talk: Talk) -> None:
    talk("ask", path)
    talk("tell", path, say={"trial": 0, "value": 1, "metrics": {"hours": 3, "who": "me"}})
    attributes = study_of(load(path)).trials[0].user_attrs
    assert (attributes["hours"], attributes["who"]) == (3, "me")


WRONG: list[tuple[Any, str]] = [
    ("{", "This is not JSON"),
    (3, "An outcome is"),
    ([{"value": 1}], "An outcome is"),
    ({"trial": 9, "value": 1}, "There is no trial 9: the study has 0 to 1"),
    ({"trial": "0", "value": 1}, "There is no trial '0'"),
    ({"trial": 0}, "either a value, values or failed"),
    ({"trial": 0, "value": 1, "failed": "no"}, "either a value, values or failed"),
    ({"trial": 0, "value": "1"}, "which is not a number"),
    ({"trial": 0, "value": None}, "which is not a number"),
    ('{"trial": 0, "value": NaN}', "NaN: has it failed?"),
    ({"trial": 0, "values": [1, 2]}, "needs 1 value(s)"),
    ({"trial": 0, "vale": 1}, "no 'vale'"),
    ({"trial": 0, "value": 1, "metrics": 3}, "must be a table"),
    ({"trial": 1, "value": 2}, "was told [1.0] before"),
    ([{"trial": 0, "value": 1}, {"trial": 1, "failed": "late"}], "was told [1.0] before"),
]


def test_what_is_told_wrong_changes_nothing(path: Path, talk: Talk) -> None:
    talk("ask", path, "--n", 2)
    talk("tell", path, "--trial", 1, "--value", 1)
    for say, said in WRONG:
        assert said in talk("tell", path, say=say)
    assert [trial.state for trial in study_of(load(path)).trials] == [TrialState.RUNNING, TrialState.COMPLETE]


def test_a_storage_and_a_name_will_do(path: Path, folder: Path, talk: Talk) -> None:
    study_of(load(path))
    database = folder / "study.db"
    asked = talk("ask", database)
    assert sorted(asked[0]["parameters"]) == ["k", "x"]
    assert talk("tell", f"sqlite:///{database}", "--study", "study", "--trial", 0, "--value", 2)[0]["new"]
    assert "no study other. There are: 'study'" in talk("ask", database, "--study", "other")
    boggn.minimize(lambda p: p["z"], {"z": (0, 1)}, 1, storage=str(database), study_name="second", seed=0)
    assert "several studies: say which with --study. There are: 'study', 'second'" in talk("ask", database)
    assert "There is no file" in talk("ask", folder / "none.db")
    assert "There is no file" in talk("ask", folder)


@pytest.mark.slow
def test_run_leaves_what_was_asked_by_hand_alone(path: Path, talk: Talk) -> None:
    talk("ask", path, "--n", 2)
    done = spawn("run", path, "--set", "budget.trials=3")
    assert done.returncode == 0, done.stderr
    states = [trial.state.name for trial in study_of(load(path)).trials]
    assert states == ["RUNNING", "RUNNING", "COMPLETE", "COMPLETE", "COMPLETE"]


def test_explain(path: Path, capsys: pytest.CaptureFixture[str], talk: Talk) -> None:
    talk("ask", path, "--n", 2)
    talk("tell", path, say=[{"trial": 0, "value": 2}, {"trial": 1, "value": 1}])
    assert call("explain", path) == 0
    assert "Trial 1:" in capsys.readouterr().out
    assert call("explain", path, "--trial", 0) == 0
    assert "suggested at random, because" in capsys.readouterr().out
    assert call("explain", path, "--trial", 5) == 2
    assert "There is no trial 5" in capsys.readouterr().err


def test_init_writes_what_a_dry_run_understands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "new" / "mine.toml"
    assert call("init", path) == 0
    assert call("run", path, "--dry-run") == 0
    assert "train.py --learning-rate" in capsys.readouterr().out
    assert call("init", path) == 2
    assert "exists already" in capsys.readouterr().err
    assert call("init", path, "--force") == 0


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("schema") == 0
    assert json.loads(capsys.readouterr().out)["title"] == "StudyFile"


@pytest.mark.parametrize("name", ["init", "run", "ask", "tell", "explain", "dashboard", "schema"])
def test_every_command_has_a_page_of_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(name, "--help") == 0
    text = capsys.readouterr().out
    assert "Usage" in text
    assert "\x1b" not in text
    assert name in {"init", "schema"} or "For instance" in text


@pytest.mark.slow
def test_dashboard_shows_the_study(path: Path, talk: Talk) -> None:
    pytest.importorskip("optuna_dashboard", reason="the extra `dashboard` is not installed")
    talk("ask", path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        command("dashboard", path, "--port", port), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + 120
        answer = None
        while answer is None:
            assert server.poll() is None
            assert time.monotonic() < deadline
            with contextlib.suppress(OSError):
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies", timeout=60).read()
            time.sleep(0.1)
        assert [each["study_name"] for each in json.loads(answer)["study_summaries"]] == ["study"]
    finally:
        server.terminate()
        server.communicate()


def test_dashboard_says_what_to_install(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "optuna_dashboard", None)
    assert call("dashboard", path) == 2
    assert "pip install 'boggn[dashboard]'" in capsys.readouterr().err
