r"""Class probabilities: the formula, quadrature and Monte Carlo agree, at one threshold and at every one."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import reference
from boggn import predictive
from boggn.predictive import Head
from boggn.warp import Warp

probability, log_probability, probability_by_quadrature, probability_by_sampling = (
    jax.jit(way, static_argnums=0)
    for way in (
        predictive.probability,
        predictive.log_probability,
        predictive.probability_by_quadrature,
        predictive.probability_by_sampling,
    )
)
LINKS = ["logit", "probit"]
MEANS, VARIANCES = (grid.ravel() for grid in np.meshgrid([-6.0, -1.0, 0.0, 0.4, 3.0], [1e-12, 0.1, 1.0, 9.0]))
FORMULA_ERROR = {"logit": 0.02, "probit": 1e-14}
"""MacKay's formula is an approximation for the logistic function, and exact for the normal one."""


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@functools.cache
def exact(link):
    return np.array([reference.quadrature_predictive(link, m, v) for m, v in zip(MEANS, VARIANCES, strict=True)])


@pytest.mark.parametrize("link", LINKS)
def test_the_formula_is_near_the_integral(link):
    np.testing.assert_allclose(probability(link, MEANS, VARIANCES), exact(link), atol=max(FORMULA_ERROR[link], 1e-11))


def test_the_formula_of_the_logit_is_the_papers():
    expected = reference.probit_predictive(MEANS, VARIANCES)
    np.testing.assert_allclose(probability("logit", MEANS, VARIANCES), expected, rtol=1e-13)


def test_the_formula_of_the_probit_is_exact():
    np.testing.assert_allclose(probability("probit", MEANS, VARIANCES), exact("probit"), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("link", LINKS)
def test_quadrature_is_the_integral(link):
    found = probability_by_quadrature(link, jnp.asarray(MEANS), jnp.asarray(VARIANCES))
    np.testing.assert_allclose(found, exact(link), atol=1e-6)
    coarse = VARIANCES <= 1.0
    np.testing.assert_allclose(found[coarse], exact(link)[coarse], atol=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_monte_carlo_is_the_integral(link):
    count = 200_000
    noise = np.random.default_rng(0).standard_normal((count, 1))
    samples = MEANS + np.sqrt(VARIANCES) * noise
    standard_error = reference.LINKS[link].cdf(samples).std(axis=0) / np.sqrt(count)
    found = np.asarray(probability_by_sampling(link, jnp.asarray(samples)))
    assert np.all(np.abs(found - exact(link)) <= 4.5 * standard_error + 1e-9)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_without_variance_it_is_the_link(link, x64):
    means = np.linspace(-5, 5, MEANS.size)
    with jax.enable_x64(x64):
        mean, variance = jnp.asarray(means), jnp.full(MEANS.size, 1e-14)
        samples = mean + jnp.zeros((3, 1))
        ways = (
            probability(link, mean, variance),
            jnp.exp(log_probability(link, mean, variance)),
            probability_by_quadrature(link, mean, variance),
            probability_by_sampling(link, samples),
        )
    for way in ways:
        assert way.dtype == (jnp.float64 if x64 else jnp.float32)
        np.testing.assert_allclose(way, reference.LINKS[link].cdf(means), rtol=1e-6 if x64 else 1e-4, atol=1e-7)


@settings(max_examples=50)
@given(st.sampled_from(LINKS), st.floats(-30, 30), st.floats(0, 1e6))
def test_probabilities_of_both_classes_sum_to_one(link, mean, variance):
    with jax.enable_x64(True):
        both = [
            way(link, jnp.asarray(sign * mean), jnp.asarray(variance))
            for way in (probability, probability_by_quadrature)
            for sign in (1, -1)
        ]
        negative = float(log_probability(link, jnp.asarray(-abs(mean)), jnp.asarray(variance)))
    assert float(both[0] + both[1]) == pytest.approx(1.0, abs=1e-12)
    assert float(both[2] + both[3]) == pytest.approx(1.0, abs=1e-12)
    assert negative <= np.log(0.5) + 1e-12
    assert min(both) >= 0.0


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("link", LINKS)
def test_the_logarithm_survives_the_tail(link, x64):
    means = np.resize([-1e4, -300.0, -40.0, -8.0, 0.0, 40.0], MEANS.size)
    with jax.enable_x64(x64):
        mean = jnp.asarray(means)
        found = log_probability(link, mean, jnp.zeros(MEANS.size))
        slope = jax.grad(lambda m: jnp.sum(log_probability(link, m, jnp.zeros(MEANS.size))))(mean)
    np.testing.assert_allclose(found, reference.LINKS[link].logcdf(means), rtol=1e-12 if x64 else 1e-4, atol=1e-30)
    assert np.all(np.isfinite(slope))


# ------------------------------------------------------------------------------------------------------------ the head


def test_without_a_warp_the_latent_is_the_logit():
    head = Head(None, jnp.ones(()), "logit")
    assert head.logit(0.3, 0.2, 99.0) == (0.3, 0.2)


@pytest.mark.parametrize("cut", [-2.0, 0.0, 1.5])
def test_probability_at_a_threshold_is_that_of_a_noisy_latent(cut):
    head = Head(Warp(jnp.asarray(0.0), jnp.asarray(0.0), jnp.asarray(1.0)), jnp.asarray(0.4), "probit")
    found = probability("probit", *head.logit(jnp.asarray(0.7), jnp.asarray(0.3), cut))
    # T = g + s e with e standard normal: T ~ N(m, v + s^2).
    assert float(found) == pytest.approx(norm.cdf(cut, 0.7, np.sqrt(0.3 + 0.16)), rel=1e-13)


@settings(max_examples=50)
@given(st.sampled_from(LINKS), st.floats(-3, 3), st.floats(1e-6, 4), st.floats(1e-3, 1), st.floats(-4, 4))
def test_probability_rises_with_the_threshold(link, mean, variance, scale, cut):
    with jax.enable_x64(True):
        head = Head(Warp(jnp.asarray(0.0), jnp.asarray(0.0), jnp.asarray(1.0)), jnp.asarray(scale), link)
        cuts = [log_probability(link, *head.logit(mean, variance, cut + move)) for move in (0.0, 0.1)]
    assert float(cuts[0]) <= float(cuts[1])
