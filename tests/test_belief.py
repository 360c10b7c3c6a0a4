r"""What a belief says agrees with the records of the sampler, with simulation, and with the study's direction."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import optuna
import pytest
from scipy.stats import norm

import boggn
from boggn import BOGGNSampler, belief, explain
from boggn.errors import BoggnError, ConfigurationError, EncodingError, StudyError, UnfittedError
from boggn.record import read

N = 24
POINTS = [{"x": x, "kind": kind} for x in np.linspace(-5.0, 10.0, 7) for kind in ("a", "b")]


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5.0, 10.0)
    return (x - 2.0) ** 2 + (3.0 if trial.suggest_categorical("kind", ["a", "b"]) == "b" else 0.0)


def run(sampler: BOGGNSampler, sign: float = 1.0) -> optuna.Study:
    study = optuna.create_study(sampler=sampler, direction="minimize" if sign > 0 else "maximize")
    study.optimize(lambda trial: sign * objective(trial), n_trials=N)
    return study


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    return run(BOGGNSampler(seed=0))


def test_it_agrees_with_what_the_sampler_recorded(study: optuna.Study) -> None:
    trial = study.trials[N - 1]
    stored = json.loads("".join(v for k, v in sorted(trial.system_attrs.items()) if k.startswith("boggn:")))["record"]
    before = belief(study, trials=N - 1)
    assert before.threshold == stored["threshold"]
    assert before.gamma == stored["gamma"]
    assert before.log_evidence == pytest.approx(stored["log_evidence"], rel=1e-9)
    assert before.class_probability([trial.params]).mean[0] == pytest.approx(stored["pi"], rel=1e-6)
    assert before.ratio([trial.params]).mean[0] == pytest.approx(stored["ratio"], rel=1e-6)
    assert before.expected_improvement([trial.params])[0] == pytest.approx(stored["ei"], rel=1e-6)
    assert before.acquisition([trial.params])[0] == pytest.approx(stored["acquisition"], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"thresholds": "one", "link": "logit", "acquisition": "pi"}], ids=["all", "one"]
)
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_bands_are_quantiles_of_simulated_networks(options: dict[str, Any], level: float) -> None:
    believed = belief(run(BOGGNSampler(seed=1, **options)))
    report = believed._report(POINTS)
    head, cut = (getattr(believed._fitted.surrogate.conditioned.acquisition, name) for name in ("head", "cut"))
    draws = np.random.default_rng(0).normal(report.mean, np.sqrt(report.variance), (20_000, len(POINTS)))
    logits = draws if head.warp is None else (float(cut) - draws) / float(head.scale)
    probability = norm.cdf(logits) if head.link == "probit" else 1.0 / (1.0 + np.exp(-logits))
    band = believed.class_probability(POINTS, level=level)
    low, high = np.quantile(probability, [0.5 - level / 2, 0.5 + level / 2], axis=0)
    np.testing.assert_allclose(band.low, low, atol=0.03)
    np.testing.assert_allclose(band.high, high, atol=0.03)
    np.testing.assert_allclose(band.mean, probability.mean(axis=0), atol=0.02)


@pytest.mark.parametrize(("acquisition", "known"), [("pi", {"pi", "ratio"}), ("ei", set())])
def test_with_one_threshold_nothing_is_recorded_or_told_that_is_not_known(acquisition: str, known: set[str]) -> None:
    study = run(BOGGNSampler(seed=1, thresholds="one", acquisition=acquisition))
    stored = read(study.trials[-1])
    assert stored is not None
    assert {"pi", "ratio", "ei"} & stored["record"].keys() == known
    believed = belief(study)
    with pytest.raises(StudyError, match="knows no improvement: use thresholds='all'"):
        believed.expected_improvement(POINTS)
    if not known:
        with pytest.raises(StudyError, match="knows no class probability: use acquisition='pi'"):
            believed.class_probability(POINTS)
    model = explain(study, study.trials[-1].number).model
    assert model is not None
    assert model.expected_improvement is None
    assert (model.class_probability is None) == (not known)


def test_outcomes_are_predicted_where_they_are_known(study: optuna.Study) -> None:
    band = belief(study).outcome([trial.params for trial in study.trials])
    values = np.array([trial.value for trial in study.trials])
    np.testing.assert_allclose(band.mean, values, atol=0.05 * np.ptp(values))
    assert np.all(band.low <= band.mean)
    assert np.all(band.mean <= band.high)


def test_maximising_is_the_mirror_image(study: optuna.Study) -> None:
    there = belief(run(BOGGNSampler(seed=0), sign=-1.0))
    here = belief(study)
    assert there.threshold == -here.threshold
    for mine, other in zip(here.outcome(POINTS), there.outcome(POINTS)[::1], strict=True):
        assert mine.shape == other.shape
    np.testing.assert_allclose(there.outcome(POINTS).mean, -here.outcome(POINTS).mean)
    np.testing.assert_allclose(there.outcome(POINTS).low, -here.outcome(POINTS).high)
    np.testing.assert_allclose(there.class_probability(POINTS).mean, here.class_probability(POINTS).mean)


def test_the_ranking_is_by_expected_outcome(study: optuna.Study) -> None:
    believed = belief(study)
    ranked = believed.ranking()
    assert sorted(ranked) == list(range(N))
    expected = believed.outcome([study.trials[number].params for number in ranked]).mean
    assert np.all(np.diff(expected) >= -1e-6 * np.ptp(expected))
    assert boggn.recommend(study).number == ranked[0]


def test_ratio_is_bounded(study: optuna.Study) -> None:
    believed = belief(study)
    band = believed.ratio(POINTS)
    assert np.all(band.low >= 0.0)
    assert np.all(band.high <= 1.0 / believed.gamma + 1e-12)


def test_no_points_are_no_values(study: optuna.Study) -> None:
    assert belief(study).class_probability([]).mean.shape == (0,)


def test_a_study_of_another_sampler_can_be_believed() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=N)
    assert belief(study).params == ("kind", "x")
    paper = belief(study, sampler=BOGGNSampler.paper(seed=0))
    with pytest.raises(StudyError, match="thresholds='all'"):
        paper.outcome(POINTS)


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda study: belief(study, trials=0), ConfigurationError, "1 to 24"),
        (lambda study: belief(study, trials=N + 1), ConfigurationError, "1 to 24"),
        (lambda study: belief(study, trials=1.5), ConfigurationError, "1.5"),
        (lambda study: belief(study, sampler="tpe"), ConfigurationError, "BOGGNSampler"),
        (lambda study: belief(study, trials=1), UnfittedError, "equal"),
        (lambda study: belief(optuna.create_study()), UnfittedError, "no parameter"),
        (lambda study: belief(study).ratio(POINTS, level=1.0), ConfigurationError, "level"),
        (lambda study: belief(study).ratio({"x": 1.0, "kind": "a"}), ConfigurationError, "list of dictionaries"),
        (lambda study: belief(study).ratio([{"x": 1.0}]), EncodingError, "'kind'"),
        (lambda study: belief(study).ratio([{"x": 1.0, "kind": "c"}]), EncodingError, "not among"),
        (lambda study: belief(study).ratio([{"x": "one", "kind": "a"}]), EncodingError, "number"),
    ],
)
def test_wrong_questions_are_answered_with_what_is_allowed(
    study: optuna.Study, ask: Any, error: type[BoggnError], text: str
) -> None:
    with pytest.raises(error, match=text):
        ask(study)
