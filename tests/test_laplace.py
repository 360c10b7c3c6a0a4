r"""Laplace in function space against closed forms, numerical integration and finite differences."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm

import reference
from boggn import laplace
from boggn.laplace import log_evidence_at, moments_from, whiten
from boggn.likelihood import OPEN, AllThresholds, OneThreshold, SeveralThresholds

CASES = [(kind, link) for kind in ("one", "several", "all") for link in ("logit", "probit")]
CUTS = np.array([-OPEN, -0.8, -0.3, 0.1, 0.6, OPEN])
N = 7
find_mode, log_evidence = jax.jit(laplace.find_mode), jax.jit(laplace.log_evidence)


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def problem(kind, link, padding=0, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (N + padding, 2))
    kernel = reference.matern52_ard(x, x, np.array([0.7, 1.2]), 2.0)
    mean, weight = 0.3 * rng.normal(size=N + padding), np.r_[rng.uniform(0.5, 2.0, N), np.zeros(padding)]
    target = np.sin(3 * x[:, 0]) + 0.2 * rng.normal(size=N + padding)
    if kind == "one":
        return kernel, mean, OneThreshold(jnp.asarray((target > 0) * 1.0), jnp.asarray(weight), link)
    if kind == "several":
        above = np.searchsorted(CUTS, target)
        ends = jnp.asarray(CUTS[above - 1]), jnp.asarray(CUTS[above])
        return kernel, mean, SeveralThresholds(*ends, jnp.asarray(0.3), jnp.asarray(weight), link)
    return kernel, mean, AllThresholds(jnp.asarray(target), jnp.asarray(0.3), jnp.asarray(weight), link)


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_the_mode_is_stationary(kind, link):
    kernel, mean, likelihood = problem(kind, link)
    mode = find_mode(jnp.asarray(kernel), jnp.asarray(mean), likelihood)
    np.testing.assert_allclose(mode.latent, mean + kernel @ mode.dual, atol=1e-12)
    np.testing.assert_allclose(mode.dual, likelihood.gradient(mode.latent), atol=1e-4)
    curvature = likelihood.curvature(mode.latent)
    inverse = np.linalg.inv(kernel + np.diag(1 / curvature))
    np.testing.assert_allclose(mode.whitener.T @ mode.whitener, inverse, rtol=1e-8)
    np.testing.assert_allclose(whiten(jnp.asarray(kernel), curvature), mode.whitener, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(mode.log_det, np.linalg.slogdet(np.eye(N) + kernel * curvature)[1], rtol=1e-10)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_separable_labels_and_a_large_kernel_still_converge(link, seed):
    kernel, mean, likelihood = problem("one", link, seed=seed)
    mode = find_mode(jnp.asarray(1e4 * kernel), jnp.asarray(mean), likelihood)
    np.testing.assert_allclose(mode.dual, likelihood.gradient(mode.latent), atol=1e-4)


def test_the_normal_link_is_gaussian_regression():
    kernel, mean, likelihood = problem("all", "probit")
    likelihood = AllThresholds(likelihood.target, likelihood.scale, jnp.ones(N), "probit")
    value = log_evidence(jnp.asarray(kernel), jnp.asarray(mean), likelihood)
    expected = reference.gaussian_evidence(kernel, mean, np.asarray(likelihood.target), 0.3)
    assert float(value) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_moments_match_the_dense_formula(kind, link):
    kernel, mean, likelihood = problem(kind, link)
    mode = find_mode(jnp.asarray(kernel), jnp.asarray(mean), likelihood)
    cross, prior = kernel[:3] * 0.9, np.diag(kernel)[:3]
    found = moments_from(jnp.asarray(cross), jnp.asarray(prior), jnp.asarray(mean[:3]), mode.dual, mode.whitener)
    inverse = np.linalg.inv(kernel + np.diag(1 / np.asarray(likelihood.curvature(mode.latent))))
    np.testing.assert_allclose(found[0], mean[:3] + cross @ mode.dual, rtol=1e-10)
    np.testing.assert_allclose(found[1], prior - np.diag(cross @ inverse @ cross.T), rtol=1e-8)


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_padding_changes_nothing(kind, link):
    kernel, mean, likelihood = problem(kind, link, padding=4)
    short = jax.tree.map(lambda leaf: leaf[:N] if leaf.ndim else leaf, likelihood)
    padded = find_mode(jnp.asarray(kernel), jnp.asarray(mean), likelihood)
    plain = find_mode(jnp.asarray(kernel[:N, :N]), jnp.asarray(mean[:N]), short)
    # Rounding decides whether Newton takes one more step, so the modes agree to its tolerance only.
    np.testing.assert_allclose(padded.latent[:N], plain.latent, atol=1e-6)
    np.testing.assert_allclose(padded.whitener[:N, :N], plain.whitener, atol=1e-6)
    np.testing.assert_array_equal(padded.whitener[:, N:], 0.0)
    both = [
        log_evidence_at(jnp.asarray(kernel), likelihood, padded),
        log_evidence_at(jnp.asarray(kernel[:N, :N]), short, plain),
    ]
    assert float(both[0]) == pytest.approx(float(both[1]), rel=1e-8)


def exact_evidence(kernel, mean, likelihood) -> float:
    """The integral of the likelihood under the Gaussian prior of one or two latents, by Gauss and Legendre."""
    node, area = np.polynomial.legendre.leggauss(300)
    reach = 9 * np.sqrt(np.diag(kernel))
    axes = np.meshgrid(*(m + r * node for m, r in zip(mean, reach, strict=True)), indexing="ij")
    latent = np.stack([axis.ravel() for axis in axes], axis=1)
    volume = np.prod(np.stack(np.meshgrid(*(r * area for r in reach), indexing="ij")), axis=0).ravel()
    weight = np.asarray(likelihood.weight)
    if isinstance(likelihood, OneThreshold):
        logs = reference.one_threshold(likelihood.link, latent, np.asarray(likelihood.z), weight)
    elif isinstance(likelihood, SeveralThresholds):
        ends = np.asarray(likelihood.lower), np.asarray(likelihood.upper)
        logs = reference.several_thresholds(likelihood.link, latent, *ends, 0.3, weight)
    else:
        data = np.asarray(likelihood.target), float(likelihood.scale), weight
        logs = reference.all_thresholds(likelihood.link, latent, *data)
    return np.log(np.sum(volume * np.exp(logs.sum(axis=1)) * multivariate_normal.pdf(latent, mean, kernel)))


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(("kind", "link"), CASES)
def test_evidence_against_numerical_integration(kind, link, size):
    """Exact for the normal density; elsewhere Laplace's own error, which vanishes with the prior variance.

    A logistic density under a flat prior integrates to one, but by Laplace to sqrt(pi) / 2: 0.12 less in the logarithm
    per observation. A steep step in the middle of the prior is further from a Gaussian.
    """
    kernel, mean, likelihood = problem(kind, link)
    likelihood = jax.tree.map(lambda leaf: leaf[:size] if leaf.ndim else leaf, likelihood)
    for variance, tolerance in ((1.0, (0.2 if kind == "several" else 0.13) * size), (0.01, 2e-3)):
        part = variance * kernel[:size, :size]
        exact = exact_evidence(part, mean[:size], likelihood)
        found = float(log_evidence(jnp.asarray(part), jnp.asarray(mean[:size]), likelihood))
        assert found == pytest.approx(exact, abs=1e-6 if (kind, link) == ("all", "probit") else tolerance)


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_evidence_gradient_against_finite_differences(kind, link):
    """With respect to the kernel, the prior mean and everything the likelihood holds."""
    kernel, mean, likelihood = problem(kind, link)
    rng = np.random.default_rng(1)
    square = rng.normal(size=(N, N))
    towards = (0.1 * (square + square.T) * kernel, rng.normal(size=N), rng.normal(size=N), rng.normal())

    def value(step):
        weight = likelihood.weight * jnp.exp(0.1 * step * towards[2])
        if kind == "one":
            changed = OneThreshold(likelihood.z, weight, link)
        elif kind == "several":
            ends = likelihood.lower + 0.1 * step * towards[2], likelihood.upper + 0.1 * step * towards[3]
            changed = SeveralThresholds(*ends, likelihood.scale * jnp.exp(0.1 * step * towards[3]), weight, link)
        else:
            scale = likelihood.scale * jnp.exp(0.1 * step * towards[3])
            changed = AllThresholds(likelihood.target + 0.1 * step * towards[2], scale, weight, link)
        return laplace.log_evidence(
            jnp.asarray(kernel) + step * towards[0], jnp.asarray(mean) + step * towards[1], changed
        )

    slope = jax.jit(jax.grad(value))(0.0)
    jitted = jax.jit(value)
    h = 1e-3
    difference = (8 * (jitted(h) - jitted(-h)) - (jitted(2 * h) - jitted(-2 * h))) / (12 * h)
    assert float(slope) == pytest.approx(float(difference), rel=2e-5, abs=1e-6)


def test_float32_agrees_with_float64():
    kernel, mean, likelihood = problem("one", "logit")
    double = log_evidence(jnp.asarray(kernel), jnp.asarray(mean), likelihood)
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), likelihood)
    value = log_evidence(jnp.asarray(kernel, jnp.float32), jnp.asarray(mean, jnp.float32), single)
    assert value.dtype == jnp.float32
    assert float(value) == pytest.approx(float(double), rel=1e-4)


def test_evidence_is_invariant_to_the_order_of_the_observations():
    kernel, mean, likelihood = problem("one", "probit")
    order = np.random.default_rng(2).permutation(N)
    shuffled = jax.tree.map(lambda leaf: leaf[order], likelihood)
    value = log_evidence(jnp.asarray(kernel[np.ix_(order, order)]), jnp.asarray(mean[order]), shuffled)
    assert float(value) == pytest.approx(float(log_evidence(jnp.asarray(kernel), jnp.asarray(mean), likelihood)))


def test_one_certain_observation_has_half_the_evidence():
    """A symmetric prior says nothing about one label, and Laplace agrees as its variance falls."""
    likelihood = OneThreshold(jnp.ones(1), jnp.ones(1), "probit")
    value = log_evidence(jnp.full((1, 1), 1e-8), jnp.zeros(1), likelihood)
    assert float(value) == pytest.approx(norm.logcdf(0.0), abs=1e-7)
