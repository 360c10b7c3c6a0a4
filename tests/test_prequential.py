r"""Prequential scores: those of the records against a hand computation, and those of refitted models."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import optuna
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from boggn import BOGGNSampler, prequential
from boggn.errors import ConfigurationError
from boggn.prequential import Prediction, Prequential

N = 22


def objective(trial: optuna.Trial) -> float:
    return (trial.suggest_float("x", -5.0, 10.0) - 2.0) ** 2 + trial.suggest_float("y", 0.0, 1.0)


@pytest.fixture(scope="module", params=["minimize", "maximize"])
def study(request: pytest.FixtureRequest) -> optuna.Study:
    sign = 1.0 if request.param == "minimize" else -1.0
    study = optuna.create_study(sampler=BOGGNSampler(seed=0), direction=request.param)
    study.optimize(lambda trial: sign * objective(trial), n_trials=N)
    return study


def made_up(seed: int = 0, count: int = 400) -> Prequential:
    rng = np.random.default_rng(seed)
    probability = rng.random(count)
    return Prequential(
        tuple(Prediction(n, float(p), bool(rng.random() < p)) for n, p in enumerate(probability.tolist()))
    )


def columns(made: Prequential) -> tuple[list[bool], list[float]]:
    return [p.good for p in made.predictions], [p.class_probability for p in made.predictions]


def test_the_records_are_scored_as_they_stand(study: optuna.Study) -> None:
    made = prequential(study)
    better = np.less_equal if study.direction == optuna.study.StudyDirection.MINIMIZE else np.greater_equal
    assert [p.trial_number for p in made.predictions] == list(range(10, N))
    for prediction in made.predictions:
        trial = study.trials[prediction.trial_number]
        parts = sorted((k, v) for k, v in trial.system_attrs.items() if k.startswith("boggn:"))
        record = json.loads("".join(v for _, v in parts))["record"]
        assert prediction.class_probability == record["pi"]
        assert prediction.good == better(trial.value, record["threshold"])


def test_refitting_the_same_model_says_the_same(study: optuna.Study) -> None:
    again = prequential(study, sampler=BOGGNSampler(seed=0))
    for made, remade in zip(prequential(study).predictions, again.predictions, strict=True):
        assert remade.class_probability == pytest.approx(made.class_probability, rel=1e-6)
        assert remade.good == made.good


def test_every_so_many(study: optuna.Study) -> None:
    made = prequential(study, sampler=BOGGNSampler(seed=0), first=11, every=4)
    assert [p.trial_number for p in made.predictions] == [11, 15, 19]


def test_scores_agree_with_scikit_learn() -> None:
    made = made_up()
    good, probability = columns(made)
    assert made.log_loss == pytest.approx(log_loss(good, probability))
    assert made.brier == pytest.approx(brier_score_loss(good, probability))


def test_what_is_calibrated_has_little_error_and_what_is_not_has_much() -> None:
    made = made_up(count=4000)
    turned = Prequential(tuple(p._replace(class_probability=1.0 - p.class_probability) for p in made.predictions))
    assert made.calibration_error < 0.05
    assert turned.calibration_error > 0.4
    assert turned.log_loss > made.log_loss


@pytest.mark.parametrize("bins", [1, 3, 7, 400, 1000])
def test_bins_hold_everything_in_equal_parts(bins: int) -> None:
    found = made_up().reliability(bins)
    sizes = [one.size for one in found]
    assert sum(sizes) == 400
    assert max(sizes) - min(sizes) <= 1
    assert [one.class_probability for one in found] == sorted(one.class_probability for one in found)


def test_a_certain_mistake_has_a_finite_price() -> None:
    made = Prequential((Prediction(0, 0.0, True),))
    assert math.isfinite(made.log_loss)
    assert made.log_loss > 20


def test_nothing_to_score() -> None:
    made = prequential(optuna.create_study())
    assert made.predictions == ()
    assert math.isnan(made.log_loss)
    assert str(made) == "no predictions yet"


def test_the_text_has_the_scores() -> None:
    made = made_up()
    assert str(made).startswith(f"400 predictions: log-loss {made.log_loss:.3f}")


@pytest.mark.parametrize("wrong", [{"first": 0}, {"every": 0}, {"every": 1.5}, {"first": True}])
def test_wrong_numbers(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        prequential(optuna.create_study(), **wrong)
