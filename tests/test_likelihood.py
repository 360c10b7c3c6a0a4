r"""Every likelihood x link, in both precisions, against autodiff and against the reference."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import reference
from boggn.likelihood import (
    OPEN,
    AllThresholds,
    Likelihood,
    OneThreshold,
    SeveralThresholds,
    link_cdf,
    link_log_cdf,
    link_sd,
)

LINKS = ("logit", "probit")
DTYPES = (jnp.float32, jnp.float64)
LATENT = np.array([-4.0, -1.3, -0.2, 0.0, 0.4, 1.7, 3.5, 0.9])
Z = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
TARGET = np.array([-3.0, -1.5, 0.3, 0.0, -0.6, 2.2, 3.1, 0.5])
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 0.0])
LOWER = np.array([-np.inf, -2.0, 0.1, -0.6, -np.inf, 2.0, 3.0, -np.inf])
UPPER = np.array([-3.0, -1.4, 0.4, 0.9, -0.6, np.inf, 3.3, np.inf])
SCALE = 0.7
FORMS = {"one": "one_threshold", "several": "several_thresholds", "all": "all_thresholds"}


def build(kind: str, link: str, dtype) -> Likelihood:
    weight = jnp.asarray(WEIGHT, dtype)
    if kind == "one":
        return OneThreshold(jnp.asarray(Z, dtype), weight, link)
    scale = jnp.asarray(SCALE, dtype)
    if kind == "several":
        ends = (jnp.asarray(np.clip(end, -OPEN, OPEN), dtype) for end in (LOWER, UPPER))
        return SeveralThresholds(*ends, scale, weight, link)
    return AllThresholds(jnp.asarray(TARGET, dtype), scale, weight, link)


def expected(kind: str, link: str, suffix: str) -> np.ndarray:
    data = {"one": (Z, WEIGHT), "several": (LOWER, UPPER, SCALE, WEIGHT), "all": (TARGET, SCALE, WEIGHT)}[kind]
    return getattr(reference, FORMS[kind] + suffix)(link, LATENT, *data)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kind", list(FORMS))
class TestDerivatives:
    def test_match_the_reference(self, kind, link, dtype):
        with jax.enable_x64(dtype == jnp.float64):
            likelihood, latent = build(kind, link, dtype), jnp.asarray(LATENT, dtype)
            tolerance = 1e-12 if dtype == jnp.float64 else 3e-5
            for method, suffix in (("log_prob", ""), ("gradient", "_gradient"), ("curvature", "_curvature")):
                value = getattr(likelihood, method)(latent)
                assert value.dtype == dtype
                np.testing.assert_allclose(value, expected(kind, link, suffix), rtol=tolerance, atol=tolerance)

    def test_match_autodiff(self, kind, link, dtype):
        with jax.enable_x64(dtype == jnp.float64):
            likelihood, latent = build(kind, link, dtype), jnp.asarray(LATENT, dtype)
            gradient = jax.grad(lambda f: jnp.sum(likelihood.log_prob(f)))(latent)
            bend = jax.grad(lambda f: jnp.sum(likelihood.gradient(f)))(latent)
            tolerance = 1e-12 if dtype == jnp.float64 else 3e-5
            np.testing.assert_allclose(likelihood.gradient(latent), gradient, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(likelihood.curvature(latent), -bend, rtol=tolerance, atol=tolerance)

    def test_padding_says_nothing(self, kind, link, dtype):
        with jax.enable_x64(dtype == jnp.float64):
            likelihood, latent = build(kind, link, dtype), jnp.asarray(LATENT, dtype)
            for method in ("log_prob", "gradient", "curvature"):
                assert getattr(likelihood, method)(latent)[-1] == 0.0

    def test_survive_the_tails(self, kind, link, dtype):
        with jax.enable_x64(dtype == jnp.float64):
            likelihood = build(kind, link, dtype)
            for far in (-60.0, 60.0):
                latent = jnp.full(LATENT.shape, far, dtype)
                for method in ("log_prob", "gradient", "curvature"):
                    assert jnp.all(jnp.isfinite(getattr(likelihood, method)(latent)))
                assert jnp.all(likelihood.curvature(latent) >= 0.0)


@pytest.mark.parametrize("link", LINKS)
def test_links_match_scipy(link):
    with jax.enable_x64(True):
        logit = np.linspace(-30.0, 30.0, 41)
        distribution = reference.LINKS[link]
        np.testing.assert_allclose(link_cdf(link, jnp.asarray(logit)), distribution.cdf(logit), rtol=1e-10)
        np.testing.assert_allclose(
            link_log_cdf(link, jnp.asarray(logit)), distribution.logcdf(logit), rtol=1e-10, atol=1e-15
        )
    assert link_sd(link) == pytest.approx(distribution.std(), rel=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_all_thresholds_is_the_density_of_proportional_odds(link):
    """d/dt P(y <= t | x) at the observed value, by autodiff of the class probability."""
    with jax.enable_x64(True):
        likelihood = build("all", link, jnp.float64)

        def probability(target):
            return jnp.sum(link_cdf(link, (target - LATENT) / SCALE))

        density = jax.grad(probability)(jnp.asarray(TARGET))
        np.testing.assert_allclose(likelihood.log_prob(jnp.asarray(LATENT)), WEIGHT * jnp.log(density), rtol=1e-10)


def between(link, lower, upper, latent=0.0, scale=1.0):
    """Log-likelihood, gradient and curvature of one outcome between two thresholds, by the library."""
    ends = (jnp.clip(jnp.asarray([end], jnp.float64), -OPEN, OPEN) for end in (lower, upper))
    likelihood = SeveralThresholds(*ends, jnp.asarray(scale), jnp.ones(1), link)
    at = jnp.full(1, latent)
    return np.array([float(f(at)[0]) for f in (likelihood.log_prob, likelihood.gradient, likelihood.curvature)])


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("lower", "upper"), [(30.0, 40.0), (-np.inf, -200.0), (99.0, 99.5), (-0.2, 50.0), (4.0, 4.01)])
def test_between_two_thresholds_against_quadrature(link, lower, upper):
    """Densities are divided by their largest, so that the quadrature does not underflow."""
    nearest = np.clip(0.0, lower, upper)
    low, high = max(lower, nearest - 60), min(upper, nearest + 60)
    logpdf = reference.LINKS[link].logpdf

    def moment(f):
        def integrand(r):
            return f(r) * np.exp(logpdf(r) - logpdf(nearest))

        near = [
            point for step in (0.01, 0.1, 1, 10) for point in (nearest - step, nearest + step) if low < point < high
        ]
        return integrate.quad(integrand, low, high, points=near, epsabs=1e-14, epsrel=1e-11, limit=500)[0]

    mass = moment(np.ones_like)
    # By parts: the mean of -d log F' over the interval, and of its square and slope.
    score = (lambda r: r) if link == "probit" else (lambda r: np.tanh(r / 2))
    bend = np.ones_like if link == "probit" else (lambda r: 2 * reference.LINKS["logit"].pdf(r))
    mean = moment(score) / mass
    curvature = (moment(bend) - moment(lambda r: (score(r) - mean) ** 2)) / mass
    with jax.enable_x64(True):
        found = between(link, lower, upper)
    np.testing.assert_allclose(found[:2], [np.log(mass) + logpdf(nearest), mean], rtol=1e-9)
    assert found[2] == pytest.approx(curvature, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("link", LINKS)
def test_the_intervals_of_all_thresholds_have_all_the_probability(link):
    cuts = np.array([-np.inf, -1.0, -0.99, 0.3, 2.0, 7.0, np.inf])
    with jax.enable_x64(True):
        for latent in (-3.0, 0.2, 9.0):
            parts = [between(link, low, high, latent, 0.4)[0] for low, high in itertools.pairwise(cuts)]
            assert np.exp(parts).sum() == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("link", LINKS)
def test_one_threshold_of_several_is_the_label(link):
    """z = 1 is y below the threshold, whose logit is (T - g) / s."""
    with jax.enable_x64(True):
        for z, lower, upper in ((1.0, -np.inf, 0.4), (0.0, 0.4, np.inf)):
            label = OneThreshold(jnp.asarray([z]), jnp.ones(1), link)
            logit = jnp.asarray([(0.4 - 1.3) / 0.6])
            direct = [float(f(logit)[0]) for f in (label.log_prob, label.gradient, label.curvature)]
            expected = direct * np.array([1.0, -1 / 0.6, 1 / 0.36])
            np.testing.assert_allclose(between(link, lower, upper, 1.3, 0.6), expected, rtol=1e-10)


@pytest.mark.parametrize("link", LINKS)
def test_narrow_intervals_tend_to_the_density(link):
    """With the square of their width, until they are too narrow for two numbers: then they are the density."""
    with jax.enable_x64(True):
        density = AllThresholds(jnp.asarray([0.7]), jnp.asarray(0.1), jnp.ones(1), link)
        at = jnp.asarray([0.45])
        limit = [float(f(at)[0]) for f in (density.log_prob, density.gradient, density.curvature)]
        errors = []
        for width in (1e-2, 1e-3, 1e-6, 0.0):
            found = between(link, 0.7 - width / 2, 0.7 + width / 2, 0.45, 0.1)
            found[0] -= np.log(width or np.finfo(float).eps)
            errors.append(np.abs(found / limit - 1).max())
    assert errors[1] == pytest.approx(errors[0] / 100, rel=0.05)
    assert max(errors[2:]) < 1e-9
