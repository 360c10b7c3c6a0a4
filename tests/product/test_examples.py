"""The examples run, with few trials, away from where they are kept."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from boggn.product.studyfile import load
from boggn.product.worker import study_of
from commandline import spawn

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

pytestmark = pytest.mark.slow


def taken(name: str, folder: Path) -> Path:
    shutil.copytree(EXAMPLES / name, folder / name, ignore=shutil.ignore_patterns("*.trials", "*.db*"))
    return folder / name / "study.toml"


def python(*arguments: str | Path) -> str:
    words = [sys.executable, *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("awk") is None, reason="awk is not installed")
def test_growth_in_awk(folder: Path) -> None:
    path = taken("growth", folder)
    study = study_of(load(path))
    study.enqueue_trial({"rate": 0.5470, "capacity": 663.0, "start": 9.14})  # the textbook's fit
    assert spawn("run", path, "--set", "budget.trials=4").returncode == 0
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4
    assert study.trials[0].value < 4.0
    assert study.best_trial.number == 0
    assert study.trials[0].user_attrs["worst"] < 15.0


def test_boosting_is_pruned(folder: Path) -> None:
    path = taken("boosting", folder)
    study = study_of(load(path))
    common = {"depth": 3, "subsample": 0.8, "columns": 0.8, "l2": 1.0, "gamma": 0.001}
    study.enqueue_trial({"learning_rate": 0.3, **common})
    study.enqueue_trial({"learning_rate": 0.01, **common})
    done = spawn("run", path, "--set", "budget.trials=2", "--set", "pruner.n_startup_trials=1")
    assert done.returncode == 0, done.stdout
    assert [trial.state.name for trial in study.trials] == ["COMPLETE", "PRUNED"]
    assert study.trials[0].user_attrs["accuracy"] > 0.9
    assert len(study.trials[0].intermediate_values) == 60


def test_digits_and_their_comparison(folder: Path) -> None:
    path = taken("digits", folder)
    assert spawn("run", path, "--set", "budget.trials=3").returncode == 0
    study = study_of(load(path))
    assert all(0.0 < trial.user_attrs["worst_fold"] <= trial.value <= 1.0 for trial in study.trials)
    compare = [path.with_name("compare.py"), "--seeds", 1, "--trials"]
    said = python(*compare, 2)
    assert "\x1b" not in said
    assert "boggn, seed 0" in said
    grown = python(*compare, 12)
    assert "random search   12 trials" in grown
    assert python(*compare, 12).splitlines()[-6:] == grown.splitlines()[-6:]


def test_coffee_by_hand(folder: Path) -> None:
    path = taken("coffee", folder)
    assert "3 told." in python(path.with_name("taste.py"), "--simulate", "--cups", 3)
    assert [trial.state.name for trial in study_of(load(path)).trials] == ["COMPLETE"] * 3


def test_spirals_in_jax(folder: Path) -> None:
    storage = folder / "spirals.db"
    said = python(EXAMPLES / "spirals.py", "--trials", 2, "--epochs", 2, "--storage", storage)
    assert "2 trials, best log loss" in said


def test_what_init_writes_runs_as_it_is(folder: Path) -> None:
    path = folder / "study.toml"
    assert spawn("init", path).returncode == 0
    done = spawn("run", path, "--set", "budget.trials=3")
    assert done.returncode == 0, done.stderr
    assert "3 trials: 3 complete, 0 failed. Ended because 3 trials have finished." in done.stdout
    assert study_of(load(path)).trials[0].intermediate_values.keys() == {0, 1, 2}
