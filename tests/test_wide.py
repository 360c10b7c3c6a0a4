r"""The wide network: its kernel, its finite width, and its posterior against dense formulas of Gaussian processes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from boggn.likelihood import AllThresholds, OneThreshold
from boggn.network.wide import WideFeatures, matern52, prior_covariance, squared_distance
from boggn.posterior.function import FunctionPosterior, WidePrior

CASES = [(kind, link) for kind in ("one", "all") for link in ("logit", "probit")]
N, B, NOISE = 9, 5, 0.15
COLUMN = np.array([0, 1, 1])
LOG_LENGTHS, LOG_AMPLITUDE = np.log([0.6, 1.3]), 0.4
LENGTHS = np.exp(LOG_LENGTHS[COLUMN])

condition = jax.jit(FunctionPosterior.of)
moments = jax.jit(lambda posterior, rows: posterior.moments(rows))
covariance = jax.jit(lambda posterior, left, right: posterior.covariance(left, right))


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def prior(log_amplitude=LOG_AMPLITUDE):
    return WidePrior(jnp.asarray(LOG_LENGTHS), jnp.asarray(log_amplitude), jnp.asarray(COLUMN))


def dense(left, right):
    return reference.matern52_ard(left, right, LENGTHS, np.exp(LOG_AMPLITUDE))


def points(count=N, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, (count, 3))


# Compiling is what takes time here, so the tests share one shape: some of the N rows may be running, one padding.
SEEN, PENDING = 5, 3
WEIGHT = np.repeat([1.0, 0.0], [SEEN, N - SEEN])
RUNNING = np.repeat([0.0, 1.0, 0.0], [SEEN, PENDING, 1])


def outcomes(rows):
    return np.sin(3 * rows[:, 0]) + rows[:, 1] + 0.1 * np.cos(50 * rows[:, 2])


def likelihood_of(kind, link, target, weight=None):
    weight = jnp.ones(len(target)) if weight is None else jnp.asarray(weight)
    if kind == "one":
        return OneThreshold(jnp.asarray((target < 0.2) * 1.0), weight, link)
    return AllThresholds(jnp.asarray(target), jnp.asarray(NOISE), weight, link)


def written_out(kind, link, target):
    """Log-likelihood, gradient and curvature of the same likelihood, from the reference."""
    forms = (
        getattr(reference, f"{kind}_threshold{'s' * (kind == 'all')}{end}") for end in ("", "_gradient", "_curvature")
    )
    if kind == "one":
        return [lambda g, form=form: form(link, g, (target < 0.2) * 1.0, np.ones(len(g))) for form in forms]
    return [lambda g, form=form: form(link, g, target, NOISE, np.ones(len(g))) for form in forms]


def posterior_of(kind, link, rows, weight=None, running=None):
    running = jnp.zeros(len(rows)) if running is None else jnp.asarray(running)
    return condition(prior(), jnp.asarray(rows), likelihood_of(kind, link, outcomes(rows), weight), running)


# --------------------------------------------------------------------------------------------------------- the kernel


@pytest.mark.parametrize("x64", [False, True])
def test_the_kernel_is_matern_five_halves(x64):
    left, right = points(6), points(4, seed=1)
    with jax.enable_x64(x64):
        found = prior_covariance(jnp.asarray(left), jnp.asarray(right), LOG_LENGTHS, LOG_AMPLITUDE, COLUMN)
        assert found.dtype == (jnp.float64 if x64 else jnp.float32)
    np.testing.assert_allclose(found, dense(left, right), rtol=1e-12 if x64 else 1e-5)


def test_its_diagonal_is_the_prior_variance():
    rows = jnp.asarray(points())
    np.testing.assert_allclose(jnp.diag(prior().covariance(rows, rows)), prior().variance(rows), rtol=1e-14)
    np.testing.assert_allclose(prior().variance(rows), np.exp(LOG_AMPLITUDE))


@pytest.mark.parametrize("squared", [1e-4, 0.3, 2.0, 30.0])
def test_the_slope_in_the_squared_distance(squared):
    step = 1e-5 * squared
    high, low = (float(matern52(squared + move)) for move in (step, -step))
    assert float(jax.grad(matern52)(squared)) == pytest.approx((high - low) / (2 * step), rel=1e-5)


@pytest.mark.parametrize("x64", [False, True])
def test_gradients_are_finite_where_points_coincide(x64):
    rows = np.vstack([points(4), points(4), np.zeros((2, 3))])
    with jax.enable_x64(x64):

        def total(rows, log_lengths, log_amplitude):
            return jnp.sum(prior_covariance(rows, rows, log_lengths, log_amplitude, COLUMN) ** 2)

        slopes = jax.jit(jax.grad(total, argnums=(0, 1, 2)))(jnp.asarray(rows), LOG_LENGTHS, LOG_AMPLITUDE)
        at_zero = jax.grad(matern52)(jnp.zeros(()))
    assert float(at_zero) == pytest.approx(-5 / 6)
    for slope in slopes:
        assert np.all(np.isfinite(slope))


def test_gradients_of_the_kernel_against_finite_differences():
    rows, mix = points(5), np.random.default_rng(2).normal(size=(5, 5))

    @jax.jit
    @jax.value_and_grad
    def total(hyper, rows):
        return jnp.sum(mix * prior_covariance(rows, rows, hyper[:2], hyper[2], COLUMN))

    hyper, step = np.r_[LOG_LENGTHS, LOG_AMPLITUDE], 1e-6
    for move, slope in zip(np.eye(3) * step, total(hyper, rows)[1], strict=True):
        difference = (total(hyper + move, rows)[0] - total(hyper - move, rows)[0]) / (2 * step)
        assert float(slope) == pytest.approx(float(difference), rel=1e-7)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.floats(-3, 3))
def test_squared_distances_are_never_negative(seed, log_scale):
    rows = 10.0**log_scale * points(6, seed)
    with jax.enable_x64(True):
        found = np.asarray(squared_distance(jnp.asarray(rows), jnp.asarray(rows)))
    expected = np.sum((rows[:, None] - rows[None]) ** 2, axis=-1)
    assert found.min() >= 0.0
    np.testing.assert_allclose(found, expected, atol=1e-14 * 100.0**log_scale)


# ------------------------------------------------------------------------------------------------------- finite width


def test_finite_width_converges_at_the_rate_of_monte_carlo():
    # One unit gives 2 cos(u) cos(v), of mean k(r) and variance (1 + k(2r)) / 2 + 1/2 - k(r)^2: the error of M units
    # has this variance over M, at every M. The mean square over draws is within its standard error of that.
    rows, draws, rng = points(6), 300, np.random.default_rng(0)
    exact, pairs = dense(rows, rows) / np.exp(LOG_AMPLITUDE), np.triu_indices(6, 1)
    twice = reference.matern52_ard(2 * rows, 2 * rows, LENGTHS, 1.0)
    variance = (1 + twice) / 2 + 0.5 - exact**2
    for width in (16, 64, 256, 1024):
        scaled = np.empty((draws, len(pairs[0])))
        for draw in range(draws):
            features = WideFeatures.draw(rng, 3, width)
            J = np.sqrt(2 / width) * np.cos(
                (rows / LENGTHS) @ np.asarray(features.frequency).T + np.asarray(features.phase)
            )
            scaled[draw] = (width * (J @ J.T - exact) ** 2 / variance)[pairs]
        per_draw = scaled.mean(axis=1)
        standard_error = per_draw.std() / np.sqrt(draws)
        assert abs(per_draw.mean() - 1.0) < 4 * standard_error
        assert standard_error < 0.1


@pytest.mark.parametrize("x64", [False, True])
def test_the_jacobian_is_the_hidden_layer(x64):
    with jax.enable_x64(x64):
        features = WideFeatures.draw(np.random.default_rng(0), 3, 7)
        found = features.jacobian(jnp.asarray(points()), LOG_LENGTHS, LOG_AMPLITUDE, COLUMN)
        assert found.dtype == (jnp.float64 if x64 else jnp.float32)
        angle = (points() / LENGTHS) @ np.asarray(features.frequency).T + np.asarray(features.phase)
    expected = np.sqrt(2 * np.exp(LOG_AMPLITUDE) / 7) * np.cos(angle)
    np.testing.assert_allclose(found, expected, rtol=1e-12 if x64 else 1e-4, atol=0 if x64 else 1e-5)


def test_a_width_is_drawn_from_the_generator_alone():
    one, other = (WideFeatures.draw(np.random.default_rng(5), 3, 8) for _ in range(2))
    np.testing.assert_array_equal(one.frequency, other.frequency)
    np.testing.assert_array_equal(one.phase, other.phase)


@partial(jax.tree_util.register_dataclass, data_fields=["features"], meta_fields=[])
@dataclass(frozen=True)
class FinitePrior:
    """The same network at finite width, in the place of the kernel."""

    features: WideFeatures

    def jacobian(self, rows):
        return self.features.jacobian(rows, LOG_LENGTHS, LOG_AMPLITUDE, COLUMN)

    def covariance(self, left, right):
        return self.jacobian(left) @ self.jacobian(right).T

    def variance(self, rows):
        return jnp.sum(self.jacobian(rows) ** 2, axis=1)


@pytest.mark.parametrize("width", [4, 12])
def test_function_space_is_ridge_regression_on_the_same_features(width):
    rows, new = jnp.asarray(points()), jnp.asarray(points(B, seed=1))
    finite, target = FinitePrior(WideFeatures.draw(np.random.default_rng(1), 3, width)), outcomes(points())
    posterior = condition(finite, rows, likelihood_of("all", "probit", target), jnp.zeros(N))
    mean, variance = moments(posterior, new)
    J, J_star = np.asarray(finite.jacobian(rows)), np.asarray(finite.jacobian(new))
    H = J.T @ J / NOISE**2 + np.eye(width)
    weights = np.linalg.solve(H, J.T @ target / NOISE**2)
    np.testing.assert_allclose(mean, J_star @ weights, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(variance, np.diag(J_star @ np.linalg.solve(H, J_star.T)), rtol=1e-8, atol=1e-12)
    log_likelihood = np.sum(reference.all_thresholds("probit", J @ weights, target, NOISE, np.ones(N)))
    expected = reference.log_evidence(log_likelihood, weights, np.ones(width), H)
    assert float(posterior.log_evidence()) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("kind", "link"), [("one", "probit"), ("all", "logit")])
def test_function_space_is_laplace_in_weight_space(kind, link):
    rows, new, width = jnp.asarray(points()), jnp.asarray(points(B, seed=1)), 12
    finite = FinitePrior(WideFeatures.draw(np.random.default_rng(1), 3, width))
    likelihood = likelihood_of(kind, link, outcomes(points()))
    posterior = condition(finite, rows, likelihood, jnp.zeros(N))
    mean, variance = moments(posterior, new)
    J, J_star = np.asarray(finite.jacobian(rows)), np.asarray(finite.jacobian(new))

    def log_posterior(theta):
        return np.sum(log_prob(J @ theta)) - 0.5 * theta @ theta

    log_prob, gradient, curvature = written_out(kind, link, outcomes(points()))
    theta = np.zeros(width)
    for _ in range(100):  # the mode of the weights, by Newton's method with halved steps
        H = reference.ggn_precision(J, curvature(J @ theta), np.ones(width))
        step = np.linalg.solve(H, J.T @ gradient(J @ theta) - theta)
        while log_posterior(theta + step) < log_posterior(theta) - 1e-12:
            step /= 2
        theta += step
    assert np.abs(step).max() < 1e-8
    np.testing.assert_allclose(mean, J_star @ theta, atol=1e-5)
    np.testing.assert_allclose(variance, np.diag(reference.weight_space_covariance(J_star, H)), rtol=1e-4)
    expected = reference.log_evidence(np.sum(log_prob(J @ theta)), theta, np.ones(width), H)
    assert float(posterior.log_evidence()) == pytest.approx(expected, rel=1e-5)


# ------------------------------------------------------------------------------------------------------- the posterior


def gaussian_process(rows, target, noise_variances, new):
    """Mean and covariance of Gaussian process regression, by a dense inverse."""
    cross, inverse = dense(new, rows), np.linalg.inv(dense(rows, rows) + np.diag(noise_variances))
    return cross @ inverse @ target, dense(new, new) - cross @ inverse @ cross.T


def test_the_normal_link_is_a_gaussian_process():
    rows, new = points(), points(B, seed=1)
    posterior, target = posterior_of("all", "probit", rows), outcomes(rows)
    mean, cov = gaussian_process(rows, target, np.full(N, NOISE**2), new)
    found_mean, found_variance = moments(posterior, new)
    np.testing.assert_allclose(found_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found_variance, np.diag(cov), rtol=1e-9)
    np.testing.assert_allclose(covariance(posterior, new, new), cov, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(covariance(posterior, new, rows[:B]), covariance(posterior, rows[:B], new).T, atol=1e-12)
    expected = reference.gaussian_evidence(dense(rows, rows), np.zeros(N), target, NOISE)
    assert float(posterior.log_evidence()) == pytest.approx(expected, rel=1e-11)
    np.testing.assert_allclose(posterior.latent[:B], moments(posterior, rows[:B])[0], atol=1e-10)


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_moments_are_the_dense_formula_at_the_mode(kind, link):
    rows, new = points(), points(B, seed=1)
    posterior = posterior_of(kind, link, rows)
    _, gradient, curvature_at = written_out(kind, link, outcomes(rows))
    curvature = curvature_at(np.asarray(posterior.latent))
    np.testing.assert_allclose(posterior.dual, gradient(np.asarray(posterior.latent)), atol=1e-5)
    mean, variance = moments(posterior, new)
    np.testing.assert_allclose(mean, dense(new, rows) @ posterior.dual, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variance, np.diag(gaussian_process(rows, np.zeros(N), 1 / curvature, new)[1]), rtol=1e-8)


def test_moments_at_an_anchor_are_the_moments_and_a_column_of_the_covariance():
    rows, new = points(), points(B, seed=1)
    posterior = posterior_of("all", "probit", rows)

    @jax.jit
    def anchored(posterior, unit):
        return posterior.anchored_moments(new, posterior.anchor(unit))

    mean, variance, shared = anchored(posterior, jnp.zeros(N).at[3].set(1.0))
    np.testing.assert_allclose((mean, variance), moments(posterior, new), rtol=1e-12)
    exact = gaussian_process(rows, outcomes(rows), np.full(N, NOISE**2), np.vstack([new, rows[3:4]]))[1]
    np.testing.assert_allclose(shared, exact[:B, B], rtol=1e-8, atol=1e-11)


def test_float32_agrees_with_float64():
    rows, new = points(), points(B, seed=1)
    found = moments(posterior_of("all", "probit", rows), new)
    with jax.enable_x64(False):
        single = moments(posterior_of("all", "probit", rows), jnp.asarray(new))
        assert single[0].dtype == jnp.float32
    np.testing.assert_allclose(single, found, rtol=2e-3, atol=2e-4)


def test_far_from_the_observations_the_prior_returns():
    mean, variance = moments(posterior_of("all", "logit", points()), np.full((B, 3), 40.0))
    np.testing.assert_allclose(mean, 0.0, atol=1e-12)
    np.testing.assert_allclose(variance, np.exp(LOG_AMPLITUDE), rtol=1e-12)


@pytest.mark.parametrize(("kind", "link"), [("one", "probit"), ("all", "logit")])
def test_padding_changes_nothing(kind, link):
    rows, new = points(), points(B, seed=1)
    padded = np.vstack([rows, points(6, seed=3), np.zeros((1, 3))])
    plain, wider = posterior_of(kind, link, rows), posterior_of(kind, link, padded, np.r_[np.ones(N), np.zeros(7)])
    np.testing.assert_allclose(moments(wider, new), moments(plain, new), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(covariance(wider, new, new), covariance(plain, new, new), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(wider.log_evidence(), plain.log_evidence(), rtol=1e-12)
    np.testing.assert_allclose(wider.latent[:N], plain.latent, rtol=1e-10)
    np.testing.assert_array_equal(wider.dual[N:], 0.0)


def test_padding_the_width_changes_nothing():
    rows, new = points(), points(B, seed=1)
    wide = WidePrior(jnp.r_[prior().log_lengths, 0.3], jnp.asarray(LOG_AMPLITUDE), jnp.r_[COLUMN, 0])
    likelihood = likelihood_of("all", "probit", outcomes(rows))
    padded = condition(wide, np.pad(rows, ((0, 0), (0, 1))), likelihood, jnp.zeros(N))
    expected = moments(posterior_of("all", "probit", rows), new)
    np.testing.assert_allclose(moments(padded, np.pad(new, ((0, 0), (0, 1)))), expected, rtol=1e-11)


# ------------------------------------------------------------------------------------------------------ running points


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_a_running_row_leaves_the_mean_and_takes_the_variance(kind, link):
    rows, new = points(), points(B, seed=1)
    without = posterior_of(kind, link, rows, WEIGHT)
    with_running = posterior_of(kind, link, rows, WEIGHT, 1e8 * RUNNING)
    np.testing.assert_array_equal(moments(with_running, new)[0], moments(without, new)[0])
    assert float(with_running.log_evidence()) == float(without.log_evidence())
    running = rows[SEEN : SEEN + PENDING]
    assert np.all(moments(with_running, running)[1] < 1e-7)
    assert np.all(moments(without, running)[1] > 1e-2)
    assert np.all(moments(with_running, new)[1] < moments(without, new)[1] + 1e-12)


def test_a_running_row_is_the_fantasy_that_it_comes_out_at_its_mean():
    rows, new = points(), points(B, seed=1)
    found = posterior_of("all", "probit", rows, WEIGHT, RUNNING / NOISE**2)
    shown, target = rows[: SEEN + PENDING], outcomes(rows)[:SEEN]
    fantasy = gaussian_process(shown[:SEEN], target, np.full(SEEN, NOISE**2), shown[SEEN:])[0]
    mean, cov = gaussian_process(shown, np.r_[target, fantasy], np.full(SEEN + PENDING, NOISE**2), new)
    np.testing.assert_allclose(moments(found, new)[0], mean, rtol=1e-8)
    np.testing.assert_allclose(covariance(found, new, new), cov, rtol=1e-7, atol=1e-10)


# -------------------------------------------------------------------------------------------------- samples, gradients


def test_joint_draws_have_the_moments():
    posterior, new, count = posterior_of("all", "logit", points()), jnp.asarray(points(B, seed=1)), 40_000
    draws = np.asarray(posterior.sample(jax.random.key(0), count, new))
    assert draws.shape == (count, B)
    (mean, variance), cov = moments(posterior, new), np.asarray(covariance(posterior, new, new))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / count))
    standard_error = np.sqrt((np.outer(np.diag(cov), np.diag(cov)) + cov**2) / count)
    assert np.all(np.abs(np.cov(draws.T) - cov) < 5 * standard_error)


def test_draws_as_functions_have_the_moments_of_the_posterior():
    # Matheron's rule with a fresh hidden layer per draw: means and covariances are exact at any width.
    rows, new, count, width = points(), points(B, seed=1), 8000, 32
    posterior, rng = posterior_of("all", "probit", rows, WEIGHT, RUNNING / NOISE**2), np.random.default_rng(0)
    first = jnp.zeros(len(rows)).at[0].set(1.0)
    features = WideFeatures.draw(rng, 3, count * width)
    many = WideFeatures(features.frequency.reshape(count, width, 3), features.phase.reshape(count, width))

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, 0))
    def draw(hidden, weights, noise):
        return posterior.draw(hidden, weights, noise).anchored_moments(new, posterior.anchor(first))[0]

    draws = np.asarray(draw(many, rng.standard_normal((count, width)), rng.standard_normal((count, len(rows)))))
    (mean, variance), cov = moments(posterior, new), np.asarray(covariance(posterior, new, new))
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / count))
    centred = draws - np.asarray(mean)
    products = centred[:, :, None] * centred[:, None, :]
    assert np.all(np.abs(products.mean(axis=0) - cov) < 5 * products.std(axis=0) / np.sqrt(count))


def test_gradients_of_the_moments_in_x():
    posterior = posterior_of("all", "logit", points())

    @jax.jit
    @jax.value_and_grad
    def total(row):
        mean, variance = posterior.moments(row[None])
        return mean[0] + 2.0 * variance[0]

    x, step = points(1, seed=7)[0], 1e-5
    for move, slope in zip(step * np.eye(3), total(x)[1], strict=True):
        assert float(slope) == pytest.approx(float(total(x + move)[0] - total(x - move)[0]) / (2 * step), rel=1e-5)
    assert np.all(np.isfinite(total(points()[0])[1]))  # at an observation, where a distance is zero
