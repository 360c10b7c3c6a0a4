r"""Every likelihood x link, in both precisions, against autodiff and against the reference."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from boggn.likelihood import AllThresholds, Likelihood, OneThreshold, link_cdf, link_log_cdf, link_sd

LINKS = ("logit", "probit")
DTYPES = (jnp.float32, jnp.float64)
LATENT = np.array([-4.0, -1.3, -0.2, 0.0, 0.4, 1.7, 3.5, 0.9])
Z = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0])
TARGET = np.array([-3.0, -1.5, 0.3, 0.0, -0.6, 2.2, 3.1, 0.5])
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0, 1.0, 0.0])
SCALE = 0.7


def build(kind: str, link: str, dtype) -> Likelihood:
    weight = jnp.asarray(WEIGHT, dtype)
    if kind == "one":
        return OneThreshold(jnp.asarray(Z, dtype), weight, link)
    return AllThresholds(jnp.asarray(TARGET, dtype), jnp.asarray(SCALE, dtype), weight, link)


def expected(kind: str, link: str, suffix: str) -> np.ndarray:
    data = (Z, WEIGHT) if kind == "one" else (TARGET, SCALE, WEIGHT)
    name = {"one": "one_threshold", "all": "all_thresholds"}[kind] + suffix
    return getattr(reference, name)(link, LATENT, *data)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kind", ["one", "all"])
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
