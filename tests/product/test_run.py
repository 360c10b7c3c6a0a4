"""`boggn run` with real processes: whatever an objective does, its trial says why, and the study goes on."""

import json
import math
import os
import random
import signal
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import FrozenTrial, TrialState

from boggn.product.process import CHUNK, Capture, run
from boggn.product.studyfile import load
from boggn.product.worker import study_of
from commandline import SHARED, command, spawn

CHEAP = "[sampler]\nn_startup_trials = 100000\n"
"""Without a fit, a suggestion takes a millisecond."""


def write(folder: Path, objective: str, space: str = "x = { low = 0.0, high = 1.0 }", rest: str = "") -> Path:
    path = folder / "study.toml"
    path.write_text(
        f"[objective]\n{objective}\n[space]\n{space}\n[budget]\ntrials = 4\n{rest}\n{CHEAP}", encoding="utf-8"
    )
    return path


def trials(path: Path) -> list[FrozenTrial]:
    return study_of(load(path)).trials


def wait_until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def processes_with(text: str) -> list[int]:
    """The processes whose command line has this text; Linux alone can tell."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if text in words and state != "Z":
                found.append(int(entry.name))
    return found


on_linux = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc")

# ------------------------------------------------------------------------------------------------- broken objectives
WILD = """
case "$1" in
  good) echo 1.5 ;;
  exit) exit 1 ;;
  says) echo "no such data set" >&2; exit 3 ;;
  text) echo hello ;;
  two) echo 1 2 ;;
  nothing) ;;
  nan) echo nan ;;
  binary) head -c 3000 /dev/urandom; printf '\\n\\200\\201\\n' ;;
  hang) sleep 987 ;;
  deaf) trap '' TERM; while :; do sleep 1; done ;;
  killed) kill -9 $$ ;;
  memory) python3 -c 'raise MemoryError' ;;
  big) yes | head -c 100000000; echo 2.5 ;;
  line) head -c 100000000 /dev/zero | tr '\\0' x; echo; echo 3.5 ;;
  noise) head -c 100000000 /dev/zero >&2; echo 4.5 ;;
  folder) rm -rf "$BOGGN_FOLDER"; echo 5.5 ;;
  all) rm -rf "$BOGGN_FOLDER/.."; echo 6.5 ;;
  child) sleep 876.5 & echo 7.5 ;;
  daemon) setsid sleep 876.25 & echo 8.5 ;;
  closed) exec >&- 2>&-; sleep 0.1 ;;
  space) sed -i 's/high = 1.0/high = 2.0/' study.toml; echo 9.5 ;;
  bool) echo True ;;
  endless) echo -inf ;;
  worst) echo inf ;;
  red) printf '\\033[31m10.5\\033[0m\\n' ;;
  units) echo '12 ms' ;;
esac
"""
REASONS: dict[str, str | float] = {
    "good": 1.5,
    "exit": "exit status 1",
    "says": "exit status 3: 'no such data set'",
    "text": "its last line has 'hello', which is not a number",
    "two": "its last line has 2 numbers, but one is wanted: '1 2'",
    "nothing": "it printed nothing: the last line should be the value",
    "nan": "its last line has NaN",
    "binary": "which is not a number",
    "hang": "not finished after 2 seconds (objective.timeout)",
    "deaf": "not finished after 2 seconds (objective.timeout)",
    "killed": "killed by SIGKILL, perhaps for want of memory",
    "memory": "exit status 1: 'MemoryError'",
    "big": 2.5,
    "line": 3.5,
    "noise": 4.5,
    "folder": 5.5,
    "all": 6.5,
    "child": 7.5,
    "daemon": 8.5,
    "closed": "it printed nothing",
    "space": 9.5,
    "endless": "its last line has -inf, and nothing could be better",
    "worst": math.inf,
    "red": 10.5,
    "bool": "'True', which is not a number",
    "units": "'ms', which is not a number",
}


@pytest.mark.slow
@on_linux
def test_whatever_an_objective_does_its_trial_says_why_and_the_study_goes_on(folder: Path) -> None:
    (folder / "wild.sh").write_text(WILD, encoding="utf-8")
    kinds = json.dumps(list(REASONS))
    objective = "command = 'sh wild.sh {kind}'\ntimeout = 2"
    path = write(folder, objective, f"x = {{ low = 0.0, high = 1.0 }}\nkind = {kinds}")
    study = study_of(load(path))
    for kind in REASONS:
        study.enqueue_trial({"kind": kind})
    done = spawn(
        "run", path, "--set", f"budget.trials={len(REASONS)}", "--set", "objective.timeout=2", "--workers", "2"
    )
    assert done.returncode == 0, done.stderr
    finished = study.trials
    assert len(finished) == len(REASONS)
    for trial, (kind, expected) in zip(finished, REASONS.items(), strict=True):
        if isinstance(expected, float):
            assert (kind, trial.state, trial.values) == (kind, TrialState.COMPLETE, [expected])
        else:
            assert (kind, trial.state) == (kind, TrialState.FAIL)
            assert expected in trial.user_attrs["failure"]
    assert processes_with("sleep 987") == processes_with("sleep 876.") == processes_with("wild.sh") == []
    for trial in finished:
        for name in ("stdout.txt", "stderr.txt"):
            log = Path(trial.user_attrs["folder"]) / name
            assert not log.exists() or log.stat().st_size < 3 << 20
    again = spawn("run", path)  # the file was changed on the way
    assert again.returncode == 0
    assert len(study.trials) == len(REASONS)


def test_a_stream_is_kept_within_bounds(tmp_path: Path) -> None:
    lines: list[str] = []
    tracemalloc.start()
    with Capture(tmp_path / "out", lines.append) as capture:
        capture.take(b"first\n")
        for _ in range(100_000_000 // CHUNK):
            capture.take(b"x" * CHUNK)
        capture.take(b"\nlast\n\n  \n")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    assert capture.last_line == "last"
    written = (tmp_path / "out").read_bytes()
    assert written.startswith(b"first\nxxx")
    assert written.endswith(b"last\n\n  \n")
    assert b"bytes are left out here" in written
    assert len(written) < 3 << 20
    assert lines[0] == "first"


def test_a_command_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing-here"):
        run(["./nothing-here"], cwd=tmp_path, env={}, logs=tmp_path, on_lines=print, should_stop=lambda _: None)


@pytest.mark.slow
def test_failures_in_a_row_end_the_run_with_status_1(folder: Path) -> None:
    path = write(folder, "command = 'sh -c \"echo {x} >&2; exit 7\"'", rest="failures = 3")
    done = spawn("run", path, "--set", "budget.trials=50")
    assert done.returncode == 1
    assert "the last 3 trials all failed (budget.failures); trial 2: exit status 7" in done.stdout
    assert len(trials(path)) == 3
    path.write_text(path.read_text(encoding="utf-8").replace("exit 7", "echo 1"), encoding="utf-8")
    assert spawn("run", path).returncode == 0  # put right, it goes on
    assert [trial.state.name[0] for trial in trials(path)] == list("FFFC")


@pytest.mark.slow
def test_a_run_whose_trials_all_fail_has_status_1(folder: Path) -> None:
    path = write(folder, "command = 'sh -c false {x}'")
    done = spawn("run", path)
    assert done.returncode == 1
    assert "4 trials: 4 failed. Ended because" in done.stdout


# ------------------------------------------------------------------------------------------------ what objectives say
FUNCTION = """
import os
import random
def main(parameters):
    assert sorted(parameters) == ["k", "n", "x"] and type(parameters["n"]) is int and parameters["k"] is True
    assert os.environ["BOGGN_PARAM_n"] == str(parameters["n"])
    print("accuracy: 0.5")
    return {value}
"""


JSON_SCRIPT = """
import json, os, sys
n = json.load(open(os.environ["BOGGN_PARAMETERS"]))["n"]
json.dump({"a": {"b": n / 2}}, open(sys.argv[1], "w"))
print("accuracy: 0.5")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "rest", "values"),
    [
        ("function = 'train:main'", "", [2.5]),
        (
            f"command = ['{{python}}', '-c', '''{JSON_SCRIPT}''', '{{result}}']",
            "[result]\nread = 'json'\nkey = 'a.b'",
            [2.5],
        ),
        (
            "command = 'echo loss=9 loss=2.5 accuracy: 0.5; echo end'\nshell = true",
            "[result]\nread = 'regex'\npattern = 'loss=(\\S+)'",
            [2.5],
        ),
        (
            "command = 'echo accuracy: $A; echo 2.5, 3'\nshell = true\nenv = { A = '0.{n}' }\ncwd = 'trial'",
            "[study]\ndirections = ['minimize', 'maximize']",
            [2.5, 3.0],
        ),
    ],
    ids=["function", "json", "regex", "shell"],
)
def test_values_and_metrics_are_read(objective: str, rest: str, values: list[float], folder: Path) -> None:
    (folder / "train.py").write_text(FUNCTION.replace("{value}", "2.5"), encoding="utf-8")
    metrics = "\n[result.metrics]\naccuracy = 'accuracy: (\\S+)'\n"
    path = write(
        folder, objective, "x = { low = 0.0, high = 1.0 }\nn = { low = 5, high = 5 }\nk = [true]", rest + metrics
    )
    if len(values) > 1:
        path.write_text(
            path.read_text(encoding="utf-8").replace(CHEAP, "[sampler]\nname = 'random'\n"), encoding="utf-8"
        )
    done = spawn("run", path, "--set", "budget.trials=1")
    assert done.returncode == 0, done.stderr
    (trial,) = trials(path)
    assert trial.values == values, trial.user_attrs
    assert trial.user_attrs["accuracy"] == 0.5


@pytest.mark.slow
def test_a_hopeless_trial_is_pruned_by_what_it_prints(folder: Path) -> None:
    script = "for i in 1 2 3 4 5; do echo step=$i value={x}; sleep 0.2; done; echo {x}"
    pruner = "[pruner]\nname = 'median'\nn_startup_trials = 1\nn_warmup_steps = 1"
    path = write(folder, f"command = '{script}'\nshell = true", rest=pruner)
    study = study_of(load(path))
    for x in (0.1, 0.9, 0.05):
        study.enqueue_trial({"x": x})
    assert spawn("run", path, "--set", "budget.trials=3").returncode == 0
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert study.trials[0].intermediate_values == dict.fromkeys(range(1, 6), 0.1)
    assert len(study.trials[1].intermediate_values) < 5


@pytest.mark.slow
def test_a_trial_that_fails_is_tried_again_as_often_as_asked(folder: Path) -> None:
    path = write(folder, "command = 'test -e {x} && echo 1 || (touch {x}; exit 1)'\nshell = true\nretries = 1")
    assert spawn("run", path, "--set", "budget.trials=2").returncode == 0
    assert [trial.state.name for trial in trials(path)] == ["FAIL", "COMPLETE", "FAIL", "COMPLETE"]
    assert trials(path)[1].params == trials(path)[0].params


# ----------------------------------------------------------------------------------------------------- interruptions
@pytest.mark.slow
@on_linux
@pytest.mark.parametrize("number", ["SIGINT", "SIGINT twice", "SIGKILL"])
def test_a_run_that_is_stopped_goes_on(number: str, folder: Path) -> None:
    go = folder / "go"
    path = write(folder, f"command = 'sh -c \"until [ -e {go} ]; do sleep 0.1; done; echo {{x}}\"'")
    process = subprocess.Popen(
        command("run", path, "--workers", "2"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    wait_until(lambda: len(processes_with(f"until [ -e {go} ]")) == 2)
    process.send_signal(getattr(signal, number.split(maxsplit=1)[0]))
    time.sleep(0.5)
    if number == "SIGINT twice":
        process.send_signal(signal.SIGINT)
    elif number == "SIGINT":
        go.touch()
    _, told = process.communicate(timeout=120)
    assert "Traceback" not in told
    assert process.returncode == (-signal.SIGKILL if number == "SIGKILL" else 130)
    wait_until(lambda: processes_with(str(folder)) == [])
    states = [trial.state.name for trial in trials(path)]
    if number == "SIGINT":
        assert states == ["COMPLETE", "COMPLETE"]
    elif number != "SIGKILL":
        assert sorted(states) == ["FAIL", "FAIL", "WAITING", "WAITING"]
    go.touch()
    assert spawn("run", path, "--workers", "2").returncode == 0
    ended = trials(path)
    assert [trial.state for trial in ended].count(TrialState.COMPLETE) == 4
    assert all(trial.state in {TrialState.COMPLETE, TrialState.FAIL} for trial in ended)
    lost = [trial for trial in ended if trial.state == TrialState.FAIL]
    assert len(lost) == (0 if number == "SIGINT" else 2)
    assert all(trial.user_attrs["failure"].startswith("interrupted") for trial in lost)


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize(("storage", "total", "kills"), [("study.db", 200, 10), ("study.journal", 40, 3)])
def test_four_workers_share_a_study_and_are_killed(storage: str, total: int, kills: int, folder: Path) -> None:
    """No point twice, no trial lost, the count exact; in the longer run a model suggests the last twenty."""
    modelled = 20 if total >= 200 else 0
    path = folder / "study.toml"
    path.write_text(SHARED.format(storage=storage, total=total, startup=total - modelled), encoding="utf-8")
    dice = random.Random(0)
    process = subprocess.Popen(command("run", path), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        killed = 0
        while killed < kills and process.poll() is None:
            time.sleep(dice.uniform(0.1, 0.5))
            at_work = [pid for pid in processes_with("boggn.product.worker") if _parent(pid) == process.pid]
            if len(at_work) >= 2:
                os.kill(dice.choice(at_work), signal.SIGKILL)
                killed += 1
        out, told = process.communicate(timeout=900)
    finally:
        process.kill()
    assert process.returncode == 0, (out, told)
    assert killed == kills
    ended = trials(path)
    complete = [trial for trial in ended if trial.state == TrialState.COMPLETE]
    assert len(complete) == total
    lost = [trial for trial in ended if trial.state != TrialState.COMPLETE]
    assert all(trial.state == TrialState.FAIL for trial in lost)
    assert all("has died" in trial.user_attrs["failure"] for trial in lost)
    assert len({tuple(trial.params.values()) for trial in complete}) == total
    assert sum('"model"' in trial.system_attrs.get("boggn:0", "") for trial in complete) >= modelled - 5


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
