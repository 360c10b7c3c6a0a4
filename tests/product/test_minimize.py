"""`boggn.minimize`: one call, that goes on where the last one was, and says what was wrong with the question."""

import inspect
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

import boggn
from boggn import BoggnError, StudyError
from boggn.product.space import from_json, parse_space, to_json

CHEAP: dict[str, Any] = {"n_startup_trials": 1000, "seed": 0, "progress": False}
"""Without a fit, a trial takes a millisecond."""


def square(parameters: dict[str, Any]) -> float:
    return float((parameters["x"] - 0.3) ** 2)


# ------------------------------------------------------------------------------------------------------------- space
@pytest.mark.parametrize(
    ("written", "distribution"),
    [
        ((0.0, 1.0), FloatDistribution(0.0, 1.0)),
        ((0, 1.0), FloatDistribution(0.0, 1.0)),
        ((1, 8), IntDistribution(1, 8)),
        ((1e-5, 1e-1, "log"), FloatDistribution(1e-5, 1e-1, log=True)),
        ((1, 1024, "log"), IntDistribution(1, 1024, log=True)),
        ((32, 256, 32), IntDistribution(32, 256, step=32)),
        ((32, 250, 32), IntDistribution(32, 224, step=32)),
        ((0.0, 1.0, 0.25), FloatDistribution(0.0, 1.0, step=0.25)),
        ((0.0, 0.95, 0.1), FloatDistribution(0.0, 0.9, step=0.1)),
        (["a", "b"], CategoricalDistribution(("a", "b"))),
        ({"choices": [1, None, True]}, CategoricalDistribution((1, None, True))),
        ({"low": 1, "high": 3}, IntDistribution(1, 3)),
        ({"low": 1, "high": 3, "type": "float"}, FloatDistribution(1, 3)),
        (IntDistribution(0, 5), IntDistribution(0, 5)),
    ],
    ids=repr,
)
def test_a_parameter_may_be_written_in_short(written: Any, distribution: Any) -> None:
    parsed = parse_space({"x": written})
    assert parsed == {"x": distribution}
    assert from_json(to_json(parsed)) == parsed


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({}, "one parameter at least"),
        ([("x", (0, 1))], "a dictionary"),
        ({3: (0, 1)}, "whose keys are names"),
        ({"x": (1.0, 0.0)}, "`x` is an empty range: low 1.0 is above high 0.0"),
        ({"x": (0.0, 1.0, "log")}, "`x` is on a logarithmic scale, so its low must be above 0"),
        ({"x": (0.0, float("inf"))}, "`x.high` must be a finite number"),
        ({"x": (0.0, "1")}, "`x.high` must be a finite number"),
        ({"x": (0.0, 1.0, 2.0)}, "`x.step` must be at most"),
        ({"x": (0.0, 1.0, -0.1)}, "`x.step` must be a positive number"),
        ({"x": (1, 2, 3, 4)}, "choices are a list"),
        ({"x": "abc"}, "an Optuna distribution"),
        ({"x": []}, "one at least"),
        ({"x": ["a", "a"]}, "without a repetition"),
        ({"x": [{"a": 1}]}, "a list of texts"),
        ({"x": {"low": 0}}, "`x` needs `high`"),
        ({"x": {"low": 0, "high": 1, "lgo": True}}, "`x` has no setting `lgo`"),
        ({"x": {"choices": [1], "low": 0}}, "cannot have `low`"),
        ({"x": {"low": 0.5, "high": 2, "type": "int"}}, "not all whole numbers"),
        ({"x": {"low": 1, "high": 2, "log": True, "step": 1}}, "leave one of them out"),
    ],
    ids=repr,
)
def test_a_wrong_space_is_refused_with_the_parameter_and_what_is_allowed(space: Any, said: str) -> None:
    with pytest.raises(BoggnError) as caught:
        boggn.minimize(square, space, 1, **CHEAP)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_trials": 0}, "`n_trials` must be"),
        ({"failure_limit": 0}, "`failure_limit` must be"),
        ({"n_jobs": 0}, "`n_jobs` must be"),
        ({"direction": "down"}, "'minimize' or 'maximize'"),
        ({"direction": "minimize", "directions": ["minimize"]}, "leave one of them out"),
        ({"storage": "study.txt"}, "a file that ends in .db"),
        ({"storage": "sqlite:///no/such/folder/study.db"}, "cannot be opened"),
        ({"gama": 0.3}, "no such option"),
        ({"gamma": 3}, "`gamma` must be"),
        ({"sampler": "tpe"}, "an Optuna sampler or None"),
        *[({"timeout": wrong}, "`timeout` must be a number of seconds above 0") for wrong in ("10m", -1, 0, math.nan)],
    ],
    ids=repr,
)
def test_a_wrong_option_is_refused(options: Any, said: str) -> None:
    with pytest.raises(BoggnError) as caught:
        boggn.minimize(square, {"x": (0.0, 1.0)}, **(CHEAP | {"n_trials": 1} | options))
    assert said in str(caught.value)


# -------------------------------------------------------------------------------------------------------------- runs
def test_the_docstring_says_what_counts() -> None:
    text = inspect.getdoc(boggn.minimize) or ""
    assert "one dictionary" in text
    assert "those that failed included" in text


def test_the_second_call_adds_nothing_and_a_third_goes_on(tmp_path: Path) -> None:
    calls = []

    def objective(parameters: dict[str, Any]) -> float:
        calls.append(parameters)
        if len(calls) == 3:
            raise ValueError("bad luck")
        return square(parameters)

    storage = str(tmp_path / "study.db")
    for total, said in ((6, 6), (6, 6), (9, 9)):
        study = boggn.minimize(objective, {"x": (0.0, 1.0)}, total, storage=storage, **CHEAP)
        assert len(calls) == len(study.trials) == said
    assert study.trials[2].state == TrialState.FAIL
    assert study.trials[2].user_attrs["failure"] == "ValueError: bad luck"
    assert len({trial.params["x"] for trial in study.trials}) == 9


def test_the_first_trials_are_spread_over_the_space() -> None:
    study = boggn.minimize(square, {"x": (0.0, 1.0)}, 8, **CHEAP)
    eighths = {int(8 * trial.params["x"]) for trial in study.trials}
    assert len(eighths) >= 7  # a scrambled Sobol sequence; eight random points would hit five


def test_the_seed_decides_and_is_kept_with_the_study(tmp_path: Path) -> None:
    points = []
    for calls in ((5,), (2, 5)):
        for total in calls:
            study = boggn.minimize(square, {"x": (0.0, 1.0)}, total, storage=str(tmp_path / f"{calls}.db"), **CHEAP)
        points.append([trial.params["x"] for trial in study.trials])
    assert points[0] == points[1]
    unseeded = CHEAP | {"seed": None, "storage": str(tmp_path / "free.db")}
    boggn.minimize(square, {"x": (0.0, 1.0)}, 2, **unseeded)
    seed = boggn.minimize(square, {"x": (0.0, 1.0)}, 3, **unseeded).user_attrs["boggn:seed"]
    again = boggn.minimize(square, {"x": (0.0, 1.0)}, 3, **(CHEAP | {"seed": seed}))
    stored = optuna.load_study(storage=f"sqlite:///{tmp_path / 'free.db'}", study_name="boggn")
    assert [trial.params for trial in stored.trials] == [trial.params for trial in again.trials]


def test_values_of_numpy_count_and_what_is_no_number_fails_its_trial() -> None:
    returned = iter([np.float32(1.0), np.array(2.0), 3, None, "4", [5.0, 6.0], math.nan, True, math.inf, -math.inf])
    study = boggn.minimize(lambda _: next(returned), {"x": (0.0, 1.0)}, 10, **CHEAP)
    assert [trial.state.name[0] for trial in study.trials] == list("CCCFFFFFCF")
    reasons = [trial.user_attrs.get("failure", "") for trial in study.trials]
    assert "returned None, which is not a number" in reasons[3]
    assert "2 values where the study has 1" in reasons[5]
    assert "NaN" in reasons[6]
    assert "-inf, and nothing could be better" in reasons[9]


def test_a_script_that_leaves_ends_its_trial_and_not_the_study() -> None:
    study = boggn.minimize(lambda _: sys.exit("no data"), {"x": (0.0, 1.0)}, 2, **CHEAP)
    assert [trial.state.name[0] for trial in study.trials] == ["F", "F"]
    assert study.trials[0].user_attrs["failure"] == "SystemExit: no data"


def test_several_directions_with_another_sampler() -> None:
    sampler = optuna.samplers.RandomSampler(seed=0)
    directions = ["minimize", "maximize"]
    study = boggn.minimize(
        lambda p: (p["x"], p["x"] ** 2), {"x": (0.0, 1.0)}, 5, directions=directions, sampler=sampler, progress=False
    )
    assert len(study.best_trials) == 5
    with pytest.raises(BoggnError, match="optimises one objective, but this study has 2"):
        boggn.minimize(lambda p: (p["x"], 1.0), {"x": (0.0, 1.0)}, 5, directions=directions, progress=False)
    with pytest.raises(BoggnError, match="is to minimize and maximize, not to minimize"):
        boggn.minimize(square, {"x": (0.0, 1.0)}, 6, storage=study._storage, study_name=study.study_name, **CHEAP)


def test_failures_in_a_row_end_the_study_with_their_reason() -> None:
    def objective(_: dict[str, Any]) -> float:
        raise OSError("disk full")

    with pytest.raises(StudyError, match=r"last 4 trials .* trial 3, with 'OSError: disk full'"):
        boggn.minimize(objective, {"x": (0.0, 1.0)}, 50, failure_limit=4, **CHEAP)


def test_another_space_is_refused_and_other_bounds_are_not(tmp_path: Path) -> None:
    storage = str(tmp_path / "study.db")
    boggn.minimize(square, {"x": (0.0, 1.0), "k": ["a", "b"]}, 2, storage=storage, **CHEAP)
    boggn.minimize(square, {"x": (0.0, 2.0), "k": ["a", "b"]}, 3, storage=storage, **CHEAP)
    for space, said in (
        ({"x": (0.0, 1.0)}, "'k' is gone"),
        ({"x": (0.0, 1.0), "k": ["a", "b"], "z": (0, 1)}, "'z' is new"),
        ({"x": (0.0, 1.0), "k": ["a", "c"]}, "'k' was"),
        ({"x": (0, 1), "k": ["a", "b"]}, "'x' was"),
    ):
        with pytest.raises(StudyError, match=said):
            boggn.minimize(square, space, 4, storage=storage, **CHEAP)


def test_threads_and_callbacks() -> None:
    seen = []
    study = boggn.minimize(
        square, {"x": (0.0, 1.0)}, 12, n_jobs=3, callbacks=[lambda _, trial: seen.append(trial.number)], **CHEAP
    )
    assert sorted(seen) == list(range(12))
    assert len({trial.params["x"] for trial in study.trials}) == 12


INTERRUPTED = """
    import os, signal, sys, boggn
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    def objective(parameters):
        if len(study_of().trials) == 4:
            os.kill(os.getpid(), {signal})
        return parameters["x"]
    def study_of():
        import optuna
        return optuna.load_study(storage="sqlite:///study.db", study_name="boggn")
    boggn.minimize(objective, {{"x": (0.0, 1.0)}}, 8, storage="study.db", seed=0, n_startup_trials=100)
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT"])
def test_an_interrupted_trial_is_tried_again_and_counted_once(name: str, tmp_path: Path) -> None:
    script = textwrap.dedent(INTERRUPTED).format(signal=f"signal.{name}")
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    if name == "SIGKILL":
        assert done.returncode == -signal.SIGKILL
    else:
        assert "KeyboardInterrupt" in done.stderr
    storage = str(tmp_path / "study.db")
    study = boggn.minimize(lambda p: p["x"], {"x": (0.0, 1.0)}, 8, storage=storage, **CHEAP)
    states = [trial.state for trial in study.trials]
    assert states.count(TrialState.COMPLETE) == 8
    assert states.count(TrialState.FAIL) == 1
    assert study.trials[3].user_attrs["failure"].startswith("interrupted")
    successor = next(trial for trial in study.trials if trial.system_attrs.get("retry_history") == [3])
    assert successor.params == study.trials[3].params


def test_the_trial_of_a_living_process_is_left_alone(tmp_path: Path) -> None:
    script = """
        import time, boggn
        boggn.minimize(lambda p: time.sleep(60), {"x": (0.0, 1.0)}, 1, storage="study.db", seed=0)
    """
    storage = str(tmp_path / "study.db")
    other = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        while not _running(tmp_path / "study.db"):
            assert other.poll() is None
            time.sleep(0.05)
        study = boggn.minimize(square, {"x": (0.0, 1.0)}, 2, storage=storage, **CHEAP)
        assert [trial.state.name for trial in study.trials] == ["RUNNING", "COMPLETE", "COMPLETE"]
    finally:
        other.kill()
        other.wait()
    study = boggn.minimize(square, {"x": (0.0, 1.0)}, 3, storage=storage, **CHEAP)
    assert [trial.state.name for trial in study.trials] == ["FAIL", "COMPLETE", "COMPLETE", "COMPLETE"]


def _running(path: Path) -> bool:
    if not path.exists():
        return False
    try:
        study = optuna.load_study(storage=f"sqlite:///{path}", study_name="boggn")
    except Exception:  # noqa: BLE001  the other process is still making its tables
        return False
    return any("boggn:owner" in trial.system_attrs for trial in study.trials)
