"""The books of a study: who holds a trial, when it is given up, and what counts."""

import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import optuna
import pytest
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.study import Study
from optuna.trial import TrialState

from boggn.product import ledger
from boggn.product.owner import Owner
from boggn.product.storage import open_storage

HERE = Owner.current()
ELSEWHERE = replace(HERE, host="another machine")
REBORN = replace(HERE, born="at another time")


def one_running(owner: Owner | None, beat: float = 0.0) -> Study:
    study = optuna.create_study()
    trial = ledger.claim(study, owner)
    trial.suggest_float("x", 0, 1)
    ledger.storage_of(study).set_trial_system_attr(trial._trial_id, ledger.BEAT, time.time() - beat)
    return study


def test_a_process_is_alive_or_dead_or_cannot_be_seen() -> None:
    assert HERE.is_dead() is False
    assert ELSEWHERE.is_dead() is None
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    owner = replace(HERE, pid=child.pid, born=Owner.current().born)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has collected it
    if Path("/proc/self/stat").exists():
        assert owner.is_dead() is True
        assert REBORN.is_dead() is True  # the number was given to another process
    child.wait()
    assert owner.is_dead() is True
    assert Owner.read(asdict(HERE)) == HERE
    assert Owner.read(None) is Owner.read({"pid": 3}) is None


@pytest.mark.parametrize(
    ("owner", "silent", "lost"),
    [
        (HERE, 1e6, False),
        (REBORN, 0.0, True),
        (ELSEWHERE, 0.0, False),
        (ELSEWHERE, 1e3, True),
        (None, 1e6, False),
    ],
    ids=["alive", "dead", "elsewhere", "elsewhere and silent", "asked by hand"],
)
def test_what_is_given_up(owner: Owner | None, silent: float, lost: bool) -> None:
    if owner is REBORN and not Path("/proc/self/stat").exists():
        pytest.skip("without /proc a number that was used again cannot be told apart")
    study = one_running(owner, silent)
    assert [trial.number for trial in ledger.recover(study)] == ([0] if lost else [])
    assert [trial.state.name for trial in study.trials] == (["FAIL", "WAITING"] if lost else ["RUNNING"])
    assert ledger.counted(study.trials) == 0
    if lost:
        again = ledger.claim(study, HERE)
        assert (again.number, again.params) == (1, study.trials[0].params)
        assert RetryHeartbeatStaleTrialCallback.retried_trial_number(study.trials[1]) == 0
        study.tell(again, 1.0)
        assert ledger.counted(study.trials) == 1


def test_a_trial_that_kills_its_workers_is_a_failure_in_the_end() -> None:
    study = optuna.create_study()
    for number in range(ledger.INTERRUPTIONS):
        trial = ledger.claim(study, REBORN)
        assert trial.number == number
        trial.suggest_float("x", 0, 1)
        ledger.queue_anew(study, study.trials[-1], "dead") if number < 1 else ledger.recover(study)
    assert [trial.state.name for trial in study.trials] == ["FAIL"] * ledger.INTERRUPTIONS
    assert ledger.counted(study.trials) == 1
    assert ledger.attempts(study.trials[-1]) == list(range(ledger.INTERRUPTIONS - 1))


def test_failures_in_a_row() -> None:
    study = optuna.create_study()
    for letter in "FCFXF":
        trial = ledger.claim(study, HERE)
        trial.suggest_float("x", 0, 1)
        if letter == "C":
            study.tell(trial, 1.0)
        elif letter == "F":
            assert ledger.give_up(study, study.trials[-1], "no")
        else:
            ledger.supersede(study, study.trials[-1])
            ledger.give_up(study, study.trials[-1], "interrupted")
    assert [trial.number for trial in ledger.failures_in_a_row(study.trials)] == [2, 4]
    assert not ledger.give_up(study, study.trials[0], "again")
    assert study.trials[0].user_attrs["failure"] == "no"


@pytest.mark.slow
def test_a_storage_is_made_by_many_at_once(tmp_path: Path) -> None:
    code = "import sys; from boggn.product.storage import open_storage; sys.stdin.read(1); open_storage('study.db')"
    words = [sys.executable, "-c", code]
    makers = [subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    for maker in makers:
        assert maker.stdin is not None
        maker.stdin.write(b"x")
        maker.stdin.flush()
    for maker in makers:
        _, told = maker.communicate(timeout=120)
        assert maker.returncode == 0, told.decode()


def test_half_a_line_of_a_killed_process_is_cut_off(tmp_path: Path) -> None:
    path = str(tmp_path / "study.journal")
    study = optuna.create_study(storage=open_storage(path), study_name="a")
    study.add_trial(optuna.create_trial(state=TrialState.COMPLETE, value=1.0))
    with Path(path).open("ab") as file:
        file.write(b'{"op_code":4,"worker')
    study = optuna.load_study(storage=open_storage(path), study_name="a")
    study.add_trial(optuna.create_trial(state=TrialState.COMPLETE, value=2.0))
    again = optuna.load_study(storage=open_storage(path), study_name="a")
    assert [trial.value for trial in again.trials] == [1.0, 2.0]
