"""The finite wide network in weight space against the same model in function space."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from boggn.laplace import find_mode, log_evidence_at, moments_from, whiten
from boggn.likelihood import AllThresholds, OneThreshold
from boggn.network.wide import WideFeatures
from boggn.posterior.features import FeaturePosterior
from boggn.posterior.function import WidePrior

ROWS, UNITS, ASKED = 12, 7, 5


@pytest.fixture(autouse=True)
def _double():
    with jax.enable_x64(True):
        yield


def _model(name):
    rng = np.random.default_rng(0)
    rows = jnp.asarray(rng.uniform(-1, 1, (ROWS, 2)))
    target, weight = jnp.asarray(rng.normal(size=ROWS)), jnp.ones(ROWS).at[-2:].set(0.0)
    likelihood = {
        "all-probit": AllThresholds(target, jnp.asarray(0.1), weight, "probit"),
        "all-logit": AllThresholds(target, jnp.asarray(0.1), weight, "logit"),
        "one-logit": OneThreshold((target < 0).astype(float), weight, "logit"),
        "one-probit": OneThreshold((target < 0).astype(float), weight, "probit"),
    }[name]
    prior = WidePrior(jnp.asarray([-0.3, 0.4]), jnp.asarray(0.2), jnp.arange(2))
    features = WideFeatures.draw(rng, 2, UNITS)
    running = jnp.zeros(ROWS).at[-1].set(30.0)
    posterior = FeaturePosterior.of(prior, features, rows, likelihood, running)
    return posterior, likelihood, running, jnp.asarray(rng.uniform(-1, 1, (ASKED, 2)))


NAMES = ["all-probit", "all-logit", "one-logit", "one-probit"]


@pytest.mark.parametrize("name", NAMES)
def test_weight_space_equals_function_space(name):
    posterior, likelihood, running, asked = _model(name)
    here, there = posterior.jacobian(posterior.rows), posterior.jacobian(asked)
    kernel = here @ here.T
    mode = find_mode(kernel, jnp.zeros(ROWS), likelihood)
    whitener = whiten(kernel, mode.curvature + running)
    mean, variance = moments_from(there @ here.T, jnp.sum(there**2, axis=1), jnp.zeros(()), mode.dual, whitener)
    np.testing.assert_allclose(posterior.moments(asked)[0], mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(posterior.moments(asked)[1], variance, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(posterior.log_evidence(), log_evidence_at(kernel, likelihood, mode), rtol=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_weight_space_evidence_is_the_formula_of_the_paper(name):
    # PAPER.md 5: log p(D | theta) + log p(theta) + P/2 log 2 pi - 1/2 log det H, with S_0 = I.
    posterior, likelihood, _, _ = _model(name)
    here = posterior.jacobian(posterior.rows)
    hessian = here.T @ (likelihood.curvature(posterior.latent)[:, None] * here) + jnp.eye(UNITS)
    expected = (
        jnp.sum(likelihood.log_prob(here @ posterior.mean))
        - 0.5 * posterior.mean @ posterior.mean
        - 0.5 * jnp.linalg.slogdet(hessian)[1]
    )
    np.testing.assert_allclose(posterior.log_evidence(), expected, rtol=1e-9)


def test_the_weights_are_the_mode():
    posterior, likelihood, _, _ = _model("one-logit")
    here = posterior.jacobian(posterior.rows)

    def log_joint(theta):
        return jnp.sum(likelihood.log_prob(here @ theta)) - 0.5 * theta @ theta

    np.testing.assert_allclose(jax.grad(log_joint)(posterior.mean), jnp.zeros(UNITS), atol=1e-6)


def test_moments_at_an_anchor_are_those_of_the_joint_draws():
    posterior, _, _, asked = _model("all-probit")
    anchor = posterior.anchor(jax.nn.one_hot(3, ROWS, dtype=jnp.float64))
    mean, variance, covariance = posterior.anchored_moments(asked, anchor)
    draws = np.asarray(posterior.sample(jax.random.key(0), 20_000, jnp.concatenate([asked, posterior.rows[3:4]])))
    centred = draws - draws.mean(axis=0)
    error = 6.0 * np.sqrt(variance / len(draws)) + 1e-12
    assert np.all(np.abs(draws.mean(axis=0)[:-1] - mean) < error)
    found = (centred[:, :-1] * centred[:, -1:]).mean(axis=0)
    spread = np.sqrt(variance * centred[:, -1].var()) * 6.0 / np.sqrt(len(draws))
    assert np.all(np.abs(found - covariance) < spread)


def test_a_draw_without_noise_is_the_mean_and_has_no_variance():
    posterior, _, _, asked = _model("all-probit")
    value, variance, covariance = posterior.draw(jnp.zeros(UNITS)).anchored_moments(
        asked, posterior.anchor(jnp.zeros(ROWS))
    )
    np.testing.assert_allclose(value, posterior.moments(asked)[0], rtol=1e-10)
    assert not variance.any()
    assert not covariance.any()
