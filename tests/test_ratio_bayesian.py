r"""The Bayesian network's ratio: dense Newton in NumPy, Monte Carlo, the paper's E[pi] / gamma, and its band."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from boggn.errors import ConfigurationError
from boggn.ratio import BayesianRatio, log_relative

pytestmark = pytest.mark.slow
SIZES = (20, 35)


def samples():
    rng = np.random.default_rng(0)
    return rng.normal(1.0, 0.7, (SIZES[0], 2)), rng.normal(0.0, 1.0, (SIZES[1], 2))


@pytest.fixture(scope="module")
def wide():
    return BayesianRatio(random_state=0).fit(*samples())


@pytest.fixture(scope="module")
def perceptron():
    return BayesianRatio("mlp:8:tanh", random_state=0).fit(*samples())


def moments(model, x):
    return model._moments(model._standard(x))


def test_the_wide_network_is_a_dense_laplace_approximation(wide):
    rows = np.concatenate(samples())
    z = np.repeat([1.0, 0.0], SIZES)
    asked = np.random.default_rng(1).normal(size=(5, 2))
    base = math.log(SIZES[0] / SIZES[1])
    prior = wide.posterior_.prior
    lengths, amplitude = np.exp(np.asarray(prior.log_lengths)[:2]), math.exp(float(prior.log_amplitude))

    def kernel(left, right):
        scaled = [0.5 * (part - wide.center_) / wide.spread_ / lengths for part in (left, right)]
        q = math.sqrt(5.0) * np.sqrt(np.sum((scaled[0][:, None] - scaled[1]) ** 2, axis=2))
        return amplitude * (1 + q + q**2 / 3) * np.exp(-q)

    # Log l / g has prior N(0, K); the logit of a row is that plus the base logit.
    covariance = kernel(rows, rows) + 1e-10 * np.eye(len(rows))
    precision, latent = np.linalg.inv(covariance), np.zeros(len(rows))
    for _ in range(50):
        pi = expit(latent + base)
        hessian = np.diag(pi * (1 - pi)) + precision
        latent = latent + np.linalg.solve(hessian, z - pi - precision @ latent)
    pi = expit(latent + base)
    cross = kernel(asked, rows)
    spread = np.linalg.inv(covariance + np.diag(1 / (pi * (1 - pi))))
    mean, deviation = moments(wide, asked)
    np.testing.assert_allclose(mean, cross @ (z - pi), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation**2, amplitude - np.sum((cross @ spread) * cross, axis=1), rtol=1e-5)


@pytest.mark.parametrize("name", ["wide", "perceptron"])
@pytest.mark.parametrize("gamma", [0.1, 0.6])
def test_ratio_and_band_are_those_of_draws(name, gamma, request):
    model = request.getfixturevalue(name)
    model.set_params(gamma=gamma)
    asked = np.random.default_rng(1).normal(size=(6, 2))
    mean, deviation = moments(model, asked)
    draws = np.exp(log_relative(np.random.default_rng(2).normal(mean, deviation, (40_000, 6)), gamma))
    band = model.ratio_band(asked, level=0.8)
    np.testing.assert_allclose(band.mean, draws.mean(axis=0), rtol=0.03)
    np.testing.assert_allclose(band.low, np.quantile(draws, 0.1, axis=0), rtol=0.05)
    np.testing.assert_allclose(band.high, np.quantile(draws, 0.9, axis=0), rtol=0.05)
    assert np.all(band.high <= 1 / gamma)
    np.testing.assert_array_equal(model.ratio(asked), band.mean)


@pytest.mark.parametrize("name", ["wide", "perceptron"])
def test_at_the_share_of_the_samples_it_is_the_papers(name, request):
    model = request.getfixturevalue(name)
    gamma = SIZES[0] / sum(SIZES)
    model.set_params(gamma=gamma)
    asked = np.random.default_rng(1).normal(size=(4, 2))
    mean, deviation = moments(model, asked)
    logits = mean + math.log(SIZES[0] / SIZES[1]) + deviation * np.random.default_rng(3).normal(size=(40_000, 4))
    np.testing.assert_allclose(model.ratio(asked), expit(logits).mean(axis=0) / gamma, rtol=0.03)


def test_far_from_all_rows_nothing_is_known(wide):
    wide.set_params(gamma=0.5)
    far, near = wide.ratio_band([[1e3, -1e3]]), wide.ratio_band([[0.5, 0.5]])
    assert far.mean[0] == pytest.approx(1.0, abs=1e-6)
    assert far.high[0] - far.low[0] > 2 * (near.high[0] - near.low[0])


def test_of_many_rows_some_are_drawn_and_shares_are_kept():
    rng = np.random.default_rng(0)
    model = BayesianRatio(max_rows=60, random_state=0).fit(rng.normal(1, 1, 100), rng.normal(0, 1, 200))
    assert int(np.sum(np.asarray(model.posterior_.curvature) > 0)) == 60
    assert model.base_logit_ == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("level", [0.0, 1.0, True, "most"])
def test_a_level_outside_its_range(wide, level):
    with pytest.raises(ConfigurationError, match="`level` must be a number strictly between 0 and 1"):
        wide.ratio_band([[0.0, 0.0]], level=level)
