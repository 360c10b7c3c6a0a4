"""The evidence of the trials ranks networks as it should, and says what it ranked."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import RandomSampler
from scipy.optimize import minimize

import reference
from boggn import MLP, BOGGNSampler, belief, select
from boggn.errors import ConfigurationError, UnfittedError

N = 30
SPACE: dict[str, BaseDistribution] = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(-1.0, 1.0)}
LINEAR, CURVED = MLP(()), "mlp:8:tanh"
CLASSIFIER = {"thresholds": "one", "link": "logit", "acquisition": "pi"}


def study_of(function: Callable[[float, float], float], count: int = N) -> optuna.Study:
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    for _ in range(count):
        trial = study.ask(SPACE)
        study.tell(trial, function(**trial.params))
    return study


def plane(x: float, y: float) -> float:
    return math.exp(1.5 * x - y)


def wave(x: float, y: float) -> float:
    return math.exp(2.0 * math.sin(4.0 * x) + y)


@pytest.mark.slow
@pytest.mark.parametrize(("function", "winner"), [(plane, str(LINEAR)), (wave, CURVED)])
def test_the_network_the_outcomes_were_made_by_wins(function: Callable[[float, float], float], winner: str) -> None:
    found = select(study_of(function), networks=[LINEAR, CURVED])
    assert str(found.best.network) == winner
    assert found.best.log_evidence > found.candidates[1].log_evidence + 10.0
    assert found.probabilities()[0] > 0.999
    assert found.observations == N
    assert {str(candidate.network): candidate.parameters for candidate in found.candidates} == {
        str(LINEAR): 3,
        CURVED: 33,
    }
    header, titles, first, second = str(found).splitlines()
    assert header.endswith(f"of {N} outcomes")
    assert "log evidence" in titles
    assert first.startswith(winner)
    assert f"{found.best.log_evidence:.2f}" in first
    assert f"{found.best.log_evidence - found.candidates[1].log_evidence:.2f}" in second


def test_a_grid_of_priors_is_ranked_by_the_evidence_of_logistic_regression() -> None:
    """Without a hidden layer and at one threshold, each is a Laplace approximation that NumPy makes too."""
    study = study_of(plane)
    grid = [100.0, 1.0, 0.01]
    found = select(study, networks=[LINEAR], prior_precisions=grid, sampler=BOGGNSampler(**CLASSIFIER))  # type: ignore[arg-type]
    values = np.array([trial.value for trial in study.trials])
    z = (values <= np.sort(values)[math.ceil(N / 3) - 1]) * 1.0
    J = np.array([[trial.params["x"], trial.params["y"], 1.0] for trial in study.trials])
    expected = {}
    for delta in grid:
        prior = np.full(3, delta)

        def score(theta: np.ndarray, prior: np.ndarray = prior) -> float:
            return float(prior @ theta**2 / 2 - reference.one_threshold("logit", J @ theta, z, np.ones(N)).sum())

        theta = minimize(score, np.zeros(3), method="BFGS", options={"gtol": 1e-8}).x
        H = reference.ggn_precision(J, reference.one_threshold_curvature("logit", J @ theta, z, np.ones(N)), prior)
        logs = reference.one_threshold("logit", J @ theta, z, np.ones(N)).sum()
        expected[delta] = reference.log_evidence(logs, theta, prior, H)
    assert [one.prior_precision for one in found.candidates] == sorted(grid, key=lambda delta: -expected[delta])
    for candidate in found.candidates:
        assert candidate.log_evidence == pytest.approx(expected[float(candidate.prior_precision)], abs=1e-5)


def test_evidence_is_the_density_of_the_outcomes_whatever_the_warp() -> None:
    """In closed form for the wide network: log N(T; 0, K + s^2 I) + sum log dT/du, T = (log(u + c) - mean) / sd."""
    study = study_of(wave)
    believed = belief(study)
    model = believed._fitted.surrogate.conditioned
    prior, head = model.posterior.prior, model.acquisition.head
    rows = np.array([[trial.params["x"], trial.params["y"]] for trial in study.trials])
    shifted = believed._fitted.surrogate.scale.utility(np.array([trial.value for trial in study.trials]))
    shifted += math.exp(float(head.warp.log_offset))
    target = (np.log(shifted) - np.log(shifted).mean()) / np.log(shifted).std()
    K = reference.matern52_ard(rows, rows, np.exp(prior.log_lengths[:2]), math.exp(float(prior.log_amplitude)))
    expected = reference.gaussian_evidence(K, np.zeros(N), target, float(head.scale))
    expected -= np.sum(np.log(shifted * np.log(shifted).std()))
    assert believed.log_evidence == pytest.approx(expected, abs=1e-4)


def test_what_cannot_be_ranked() -> None:
    study = study_of(plane, 4)
    for name, value in {"networks": "wide", "prior_precisions": [], "restarts": 0, "sampler": RandomSampler()}.items():
        with pytest.raises(ConfigurationError, match=f"`{name}`"):
            select(study, **{name: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="`network`"):
        select(study, networks=["cnn"])
    with pytest.raises(ConfigurationError, match="`prior_precision`"):
        select(study, networks=[LINEAR], prior_precisions=[-1.0])
    with pytest.raises(UnfittedError, match="all outcomes are equal"):
        select(study_of(lambda x, y: 0.0, 4), networks=[LINEAR])
