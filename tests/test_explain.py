r"""What a trial's record says, and that it can be read without the sampler that wrote it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import RandomSampler
from optuna.study import Study
from optuna.trial import Trial

from boggn import BOGGNSampler, Explanation, StudyError, explain
from boggn.errors import ConfigurationError
from boggn.record import KEY, read, running_params, write

N_STARTUP = 4
N_TRIALS = 8
LONGEST = 2045
SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(-5.0, 10.0), "y": FloatDistribution(0.0, 15.0)}


def bowl(trial: Trial) -> float:
    return (trial.suggest_float("x", -5.0, 10.0) - 2.0) ** 2 + (trial.suggest_float("y", 0.0, 15.0) - 3.0) ** 2


def run(n_trials: int = N_TRIALS, **options: object) -> Study:
    study = optuna.create_study(sampler=BOGGNSampler(seed=0, n_startup_trials=N_STARTUP), **options)
    study.optimize(bowl, n_trials=n_trials)
    return study


@pytest.fixture(scope="module")
def study() -> Study:
    return run()


# --------------------------------------------------------------------------------------------------------- the model
@pytest.mark.parametrize("number", range(N_STARTUP, N_TRIALS))
def test_a_suggestion_tells_what_the_model_thought(study: Study, number: int) -> None:
    explanation = explain(study, number)
    trial = study.trials[number]
    assert explanation.trial_number == number
    assert explanation.params == trial.params
    assert explanation.value == trial.value
    assert explanation.random is None
    model = explanation.model
    assert model is not None
    assert "wide" in model.name
    assert model.observations == number
    assert model.running == 0
    assert model.gamma == 1 / 3
    assert model.threshold == sorted(t.value for t in study.trials[:number])[math.ceil(number / 3) - 1]
    assert math.isfinite(model.log_evidence)
    assert model.scales
    assert 0.0 <= model.class_probability <= 1.0
    assert math.isclose(model.ratio, model.class_probability / model.gamma)
    assert model.expected_improvement >= 0.0
    assert math.isfinite(model.acquisition)
    assert model.fit_seconds >= 0.0
    assert model.maximise_seconds > 0.0


def test_the_record_holds_the_parameters_as_optuna_stores_them(study: Study) -> None:
    for trial in study.trials[1:]:
        stored = read(trial)
        assert stored is not None
        assert stored["params"] == trial.params


def test_running_trials_are_counted() -> None:
    study = run()
    last = [study.ask(SPACE) for _ in range(3)][-1]
    explanation = explain(study, last.number)
    assert explanation.value is None
    assert explanation.model is not None
    assert explanation.model.running == 2
    assert " and 2 running trials" in str(explanation)
    assert "outcome: none yet" in str(explanation)


def test_the_threshold_is_an_outcome_when_maximising_too() -> None:
    study = optuna.create_study(sampler=BOGGNSampler(seed=0, n_startup_trials=N_STARTUP), direction="maximize")
    study.optimize(lambda trial: -bowl(trial), n_trials=N_TRIALS)
    model = explain(study, N_TRIALS - 1).model
    assert model is not None
    assert model.threshold in [trial.value for trial in study.trials[:-1]]


# ---------------------------------------------------------------------------------------------------- random reasons
def test_random_points_say_why(study: Study) -> None:
    assert explain(study, 0).random == "no model was asked for this trial"
    for number in range(1, N_STARTUP):
        explanation = explain(study, number)
        assert explanation.model is None
        assert explanation.random == "startup"


def test_the_share_of_random_points_says_so() -> None:
    study = optuna.create_study(sampler=BOGGNSampler(seed=0, n_startup_trials=2, epsilon=1.0))
    study.optimize(bowl, n_trials=4)
    assert explain(study, 3).random == "epsilon"


def test_equal_outcomes_say_so() -> None:
    study = optuna.create_study(sampler=BOGGNSampler(seed=0, n_startup_trials=2))
    study.optimize(lambda trial: 0.0 * bowl(trial), n_trials=4)
    assert explain(study, 3).random == "all outcomes are equal"


def test_trials_of_another_sampler_and_of_the_user() -> None:
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    study.enqueue_trial({"x": 1.0, "y": 1.0})
    study.optimize(bowl, n_trials=2)
    assert explain(study, 0).random == "enqueued by the user"
    assert explain(study, 1).random == "no model was asked for this trial"


def test_an_enqueued_trial_is_the_users_however_late() -> None:
    study = run()
    study.enqueue_trial({"x": 1.0, "y": 1.0})
    study.optimize(bowl, n_trials=1)
    explanation = explain(study, N_TRIALS)
    assert explanation.params == {"x": 1.0, "y": 1.0}
    assert explanation.model is None
    assert explanation.random == "enqueued by the user"


# -------------------------------------------------------------------------------------------------------------- text
def test_the_text_reads_well(study: Study) -> None:
    text = str(explain(study, N_TRIALS - 1))
    assert text.startswith(f"Trial {N_TRIALS - 1}: x=")
    for part in (
        "model: ",
        f"{N_TRIALS - 1} outcomes",
        "scales: ",
        "P(outcome <= ",
        "expected improvement",
        "outcome: ",
    ):
        assert part in text
    assert all(len(line) <= 160 for line in text.splitlines())
    assert "suggested at random, because: startup" in str(explain(study, 1))


def test_explanations_are_values(study: Study) -> None:
    assert explain(study, N_TRIALS - 1) == explain(study, N_TRIALS - 1)
    assert isinstance(explain(study, 0), Explanation)


# ----------------------------------------------------------------------------------------------------------- storage
def test_a_stored_study_is_explained_without_the_sampler(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    written = run(storage=url, study_name="stored")
    reopened = optuna.load_study(study_name="stored", storage=url)
    for number in range(N_TRIALS):
        assert explain(reopened, number) == explain(written, number)


def test_explaining_loads_no_jax(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'study.db'}"
    run(storage=url, study_name="stored")
    code = (
        "import sys, optuna, boggn\n"
        f"study = optuna.load_study(study_name='stored', storage={url!r})\n"
        f"print(boggn.explain(study, {N_TRIALS - 1}).model.observations, 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(N_TRIALS - 1), "False"]


def test_long_records_are_stored_in_parts() -> None:
    space: dict[str, BaseDistribution] = {f"a_parameter_{i:03d}": FloatDistribution(0.0, 1.0) for i in range(200)}
    study = optuna.create_study(sampler=BOGGNSampler(seed=0, n_startup_trials=N_STARTUP))
    for _ in range(2):
        trial = study.ask(space)
        study.tell(trial, trial.params["a_parameter_000"])
    stored = study.trials[-1]
    parts = [value for key, value in stored.system_attrs.items() if key.startswith(f"{KEY}:")]
    assert len(parts) > 1
    assert all(len(part) <= LONGEST for part in parts)
    record = read(stored)
    assert record is not None
    assert record["params"] == stored.params
    assert explain(study, 1).random == "startup"


def test_a_record_half_written_is_not_read() -> None:
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    trial = study.ask({"x": FloatDistribution(0.0, 1.0)})
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(0.0, 1.0)}
    write(study, trial._get_latest_trial(), {"x": 0.5}, space, {"random": "a" * 3 * LONGEST})
    whole = study.trials[0]
    assert read(whole) == {"params": {"x": 0.5}, "record": {"random": "a" * 3 * LONGEST}}
    half = study.trials[0]
    del half.system_attrs[f"{KEY}:1"]
    assert read(half) is None
    assert running_params(half, space) == trial.params


def test_a_record_is_json_that_anyone_can_read(study: Study) -> None:
    text = study.trials[-1].system_attrs[f"{KEY}:0"]
    assert json.loads(text).keys() == {"params", "record"}


# ------------------------------------------------------------------------------------------------------------ errors
def test_what_is_not_there_cannot_be_explained(study: Study) -> None:
    with pytest.raises(StudyError, match="no trials yet"):
        explain(optuna.create_study(), 0)
    with pytest.raises(StudyError, match=f"no trial {N_TRIALS}: the study has trials 0 to {N_TRIALS - 1}"):
        explain(study, N_TRIALS)
    with pytest.raises(StudyError, match="no trial -1"):
        explain(study, -1)
    for number in (True, 1.0, "1", None):
        with pytest.raises(ConfigurationError, match=r"`trial_number` must be a whole number, but got"):
            explain(study, number)  # type: ignore[arg-type]
