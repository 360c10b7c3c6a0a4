r"""Expected improvement against quadrature over thresholds, Monte Carlo, and itself across branches."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

import reference
from boggn import acquisition
from boggn.acquisition import UCB_WIDTH, Acquisition, Incumbent, Moments
from boggn.likelihood import AllThresholds
from boggn.posterior.function import FunctionPosterior, WidePrior
from boggn.predictive import Head
from boggn.warp import Warp

log_ei = jax.jit(acquisition.log_expected_improvement)
judge = jax.jit(lambda rule, point: rule(point))


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def arrays(*numbers):
    return [jnp.asarray(number) for number in numbers]


def warp_of(log_offset=0.0, center=0.0, spread=1.0):
    return Warp(*arrays(log_offset, center, spread))


UNIT = (0.0, 0.0, 1.0)


def standard(z, step):
    """log EI where the incumbent is certain at u + c = 1 and the point has this z and this deviation of U."""
    z, step = np.broadcast_arrays(z, step)
    point = Moments(*arrays(-z * step, step**2, 0.0 * step))
    return log_ei(point, Incumbent(*arrays(0.0, 0.0)), warp_of(*UNIT))


def oracle(z, step):
    """log of phi(z) int_0^inf (1 - exp(-S t)) exp(z t - t^2 / 2) dt: a sum of positive terms, so that nothing cancels.

    R(z) = int_0^inf exp(z t - t^2 / 2) dt.
    """
    peak = max(z, 0.0)
    width = 1.0 / max(1.0, -z)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    cuts = np.linspace(max(0.0, peak - 12.0), peak + 45.0 * width if z < 0 else peak + 12.0, 120)
    half = 0.5 * np.diff(cuts)[:, None]
    t = cuts[:-1, None] + half * (1.0 + nodes)
    # phi(z) exp(z t - t^2 / 2) = phi(z - t), and the largest of these is taken out.
    largest = norm.logpdf(z - peak)
    return largest + np.log(np.sum(half * weights * -np.expm1(-step * t) * np.exp(norm.logpdf(z - t) - largest)))


# ----------------------------------------------------------------------------------------- what it is the value of


@pytest.mark.parametrize("warp", [UNIT, (-3.0, 0.4, 1.7), (4.0, 4.2, 0.05)])
@pytest.mark.parametrize(("mean", "variance", "best"), [(0.3, 0.5, -0.2), (-0.5, 0.01, -0.4), (1.0, 1.5, -1.0)])
def test_a_certain_incumbent_gives_the_integral_over_all_thresholds(warp, mean, variance, best):
    log_offset, center, spread = warp
    offset, mass = np.exp(log_offset), norm(mean, np.sqrt(variance))

    def below(t):
        """P(u <= t): the class probability of the latent at the threshold t."""
        return mass.cdf((np.log(t + offset) - center) / spread)

    top = np.exp(center + spread * best) - offset
    expected = integrate.quad(below, -offset, top, epsabs=0.0, epsrel=1e-9, limit=400)[0]
    found = log_ei(Moments(*arrays(mean, variance, 0.0)), Incumbent(*arrays(best, 0.0)), warp_of(*warp))
    assert float(found) == pytest.approx(np.log(expected), abs=1e-7)


@pytest.mark.parametrize("correlation", [-0.6, 0.0, 0.5, 0.95])
@pytest.mark.parametrize(("mean", "variance"), [(0.2, 0.3), (-0.3, 0.05)])
def test_an_uncertain_incumbent_gives_the_mean_of_the_exchange(mean, variance, correlation):
    best, best_variance, count = -0.1, 0.2, 1_000_000
    covariance = correlation * np.sqrt(variance * best_variance)
    chol = np.linalg.cholesky([[variance, covariance], [covariance, best_variance]])
    noise = np.random.default_rng(0).standard_normal((count, 2)) @ chol.T
    utility = np.exp(0.2 + 1.3 * (noise + np.array([mean, best])))
    gain = np.maximum(utility[:, 1] - utility[:, 0], 0.0)
    point, incumbent = Moments(*arrays(mean, variance, covariance)), Incumbent(*arrays(best, best_variance))
    found = float(jnp.exp(log_ei(point, incumbent, warp_of(-1.0, 0.2, 1.3))))
    assert abs(found - gain.mean()) < 4.5 * gain.std() / np.sqrt(count)


def test_the_offset_of_the_warp_cancels():
    point, incumbent = Moments(*arrays(0.1, 0.3, 0.05)), Incumbent(*arrays(0.0, 0.1))
    values = [float(log_ei(point, incumbent, warp_of(offset, 0.3, 0.9))) for offset in (-7.0, 0.0, 6.0)]
    assert values[0] == values[1] == values[2]


def test_without_much_of_a_warp_it_is_the_classical_formula():
    # A tiny spread makes exp linear: EI tends to spread * exp(center) * S (phi(d) + d Phi(d)).
    mean, variance, best, spread = 0.4, 0.25, 0.1, 1e-5
    found = log_ei(Moments(*arrays(mean, variance, 0.0)), Incumbent(*arrays(best, 0.0)), warp_of(3.0, 0.0, spread))
    d = (best - mean) / np.sqrt(variance)
    expected = np.log(spread * np.sqrt(variance) * (norm.pdf(d) + d * norm.cdf(d)))
    assert float(found) == pytest.approx(expected, abs=1e-4)


# ------------------------------------------------------------------------------------------------------ the tails

DEVIATIONS = [1e-9, 1e-6, 9e-5, 1.1e-4, 1e-3, 1.1e-3, 0.03, 1.0, 8.0]


@pytest.mark.parametrize("step", DEVIATIONS)
@pytest.mark.parametrize("z", [-100.0, -35.0, -30.01, -29.99, -25.0, -5.0, -1.0, 0.0, 3.0, 10.0, 24.99, 25.01, 30.0])
def test_tails_are_exact(z, step):
    # log EI is log of a relative error here: 1e-6 of EI itself, also at EI = 1e-2200.
    assert float(standard(z, step)) == pytest.approx(oracle(z, step), abs=1e-6)


@pytest.mark.parametrize("step", DEVIATIONS)
@pytest.mark.parametrize("z", [-30.0, 25.0])
def test_no_jump_where_the_branch_changes_with_z(z, step):
    low, high = standard(z + np.array([-1e-9, 1e-9]), step)
    slope = (oracle(z + 0.01, step) - oracle(z - 0.01, step)) / 0.02
    assert abs(float(high - low) - 2e-9 * slope) < 1e-6


@pytest.mark.parametrize("z", [-29.0, -10.0, -1.0, 0.0, 5.0, 20.0, 24.9])
@pytest.mark.parametrize("step", [1e-5, 1e-4, 1e-3, 1e-2])
def test_no_jump_where_the_branch_changes_with_the_deviation(z, step):
    low, high = standard(z, step * np.array([1 - 1e-10, 1 + 1e-10]))
    assert abs(float(high - low)) < 1e-6


@pytest.mark.parametrize("z", [-100.0, -30.0, -5.0, 10.0, 24.0, 25.5, 40.0])
@pytest.mark.parametrize("step", [30.0, 60.0, 100.0])
def test_huge_deviations(z, step):
    # Where S > 2 z the point's expectation is worse than the incumbent's, yet an improvement is nearly certain.
    assert float(standard(z, step)) == pytest.approx(oracle(z, step), abs=1e-6)


def test_it_rises_with_z():
    values = np.asarray(standard(np.linspace(-120, 60, 4001), 0.3))
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) > -1e-9)


@pytest.mark.parametrize("step", [1e-5, 1e-2, 0.3, 3.0, 40.0])
def test_float32_is_near(step):
    z = np.linspace(-120, 60, 181)
    exact = np.array([oracle(each, step) for each in z])
    with jax.enable_x64(False):
        found = standard(z.astype(np.float32), np.float32(step))
        assert found.dtype == jnp.float32
    assert np.all(np.isfinite(found))
    # -z S and S^2 / 2 carry roundings of their own, of size z^2 eps in the exponent.
    assert np.all(np.abs(found - exact) < 0.02 + 1e-5 * np.abs(exact))


@jax.jit
@jax.value_and_grad
def total(numbers):
    mean, variance, covariance, best, best_variance = numbers
    return acquisition.log_expected_improvement(
        Moments(mean, variance, covariance), Incumbent(best, best_variance), warp_of(*UNIT)
    )


@pytest.mark.parametrize("z", [-100.0, -31.0, -25.0, -5.0, 0.0, 2.0, 20.0])
@pytest.mark.parametrize("deviation", [5e-5, 1e-3, 0.05, 1.0])
def test_gradients_against_finite_differences(z, deviation):
    numbers = np.array([-z * deviation, 0.8 * deviation**2, 0.1 * deviation**2, 0.0, 0.4 * deviation**2])
    steps = 1e-6 * np.array([deviation, *[deviation**2] * 2, deviation, deviation**2])
    found = np.asarray(total(numbers)[1])
    assert np.all(np.isfinite(found))
    for move, step, slope in zip(np.diag(steps), steps, found, strict=True):
        difference = float(total(numbers + move)[0] - total(numbers - move)[0]) / (2 * step)
        # Differences of log EI are good to its rounding.
        rounding = 1e-13 * (1 + abs(float(total(numbers)[0]))) * (1 + abs(z)) / step
        assert slope == pytest.approx(difference, rel=2e-4, abs=rounding)


@settings(max_examples=100)
@given(
    st.floats(-50, 50),
    st.floats(-36, 5),
    st.floats(-1, 1),
    st.floats(-5, 5),
    st.floats(-36, 5),
    st.sampled_from([False, True]),
)
def test_values_and_gradients_are_finite_everywhere(mean, log_variance, correlation, best, log_best, x64):
    # In float32 the derivative (z / S)^2 overflows where deviations are below 1e-4.
    variance, best_variance = np.exp(np.maximum([log_variance, log_best], -36.0 if x64 else -14.0))
    covariance = correlation * np.sqrt(variance * best_variance)
    with jax.enable_x64(x64):
        value, slope = total(jnp.asarray([mean, variance, covariance, best, best_variance]))
    assert np.isfinite(value)
    assert np.all(np.isfinite(slope))


# ------------------------------------------------------------------------------------------- at the incumbent, rules


@pytest.mark.parametrize("variance", [1e-16, 1e-4, 0.5])
def test_there_is_nothing_to_gain_at_the_incumbent_itself(variance):
    here = Moments(*arrays(0.3, variance, variance))
    found = float(log_ei(here, Incumbent(*arrays(0.3, variance)), warp_of()))
    gain = float(log_ei(Moments(*arrays(0.3, variance, 0.0)), Incumbent(*arrays(0.3, variance)), warp_of()))
    assert found < gain - 17.0  # only the rounding error sqrt(eps) of the deviation remains


def test_at_an_observed_incumbent_of_a_posterior_there_is_next_to_nothing():
    rng = np.random.default_rng(0)
    rows = jnp.asarray(rng.uniform(-1, 1, (12, 2)))
    likelihood = AllThresholds(jnp.sin(3 * rows[:, 0]), jnp.asarray(0.1), jnp.ones(12), "probit")
    prior = WidePrior(jnp.zeros(2), jnp.zeros(()), jnp.arange(2))
    posterior = jax.jit(FunctionPosterior.of)(prior, rows, likelihood, jnp.zeros(12))
    best = rows[jnp.argmin(posterior.latent)][None]
    points = jnp.vstack([best, jnp.asarray(rng.uniform(-1, 1, (200, 2)))])
    mean, variance, covariance = jax.jit(lambda p: (*p.moments(points), p.covariance(points, best)[:, 0]))(posterior)
    point = Moments(mean, variance, covariance)
    values = np.asarray(log_ei(point, Incumbent(mean[0], variance[0]), warp_of()))
    assert values[0] < values[1:].max() - 12.0
    assert np.all(np.isfinite(values))


def all_thresholds(kind, cut=0.3, link="probit"):
    head = Head(warp_of(-1.0, 0.2, 1.3), jnp.asarray(0.4), link)
    return Acquisition(head, Incumbent(*arrays(0.1, 0.02)), jnp.asarray(cut), kind)


POINT = (0.5, 0.3, 0.01)


def test_expected_improvement_is_the_rule_ei():
    rule = all_thresholds("ei")
    expected = log_ei(Moments(*arrays(*POINT)), rule.incumbent, rule.head.warp)
    assert float(judge(rule, Moments(*arrays(*POINT)))) == pytest.approx(float(expected), rel=1e-14)


def test_probability_of_improvement_is_that_of_the_noisy_outcome():
    found = judge(all_thresholds("pi"), Moments(*arrays(*POINT)))
    assert float(found) == pytest.approx(norm.logcdf(0.3, 0.5, np.sqrt(0.3 + 0.16)), rel=1e-12)


@pytest.mark.parametrize("kind", ["ei", "pi"])
def test_one_threshold_maximises_the_class_probability(kind):
    # With expected improvement the improvements are in the weights of the labels.
    rule = Acquisition(Head(None, jnp.ones(()), "logit"), Incumbent(*arrays(0.0, 0.0)), jnp.zeros(()), kind)
    expected = np.log(reference.probit_predictive(0.5, 0.3))
    assert float(judge(rule, Moments(*arrays(*POINT)))) == pytest.approx(expected, rel=1e-13)


def test_the_confidence_bound_hopes_in_the_right_direction():
    hope = UCB_WIDTH * np.sqrt(0.3)
    assert float(judge(all_thresholds("ucb"), Moments(*arrays(*POINT)))) == pytest.approx(hope - 0.5)
    one = Acquisition(Head(None, jnp.ones(()), "logit"), Incumbent(*arrays(0.0, 0.0)), jnp.zeros(()), "ucb")
    assert float(judge(one, Moments(*arrays(*POINT)))) == pytest.approx(hope + 0.5)


def test_thompson_sampling_follows_the_draw():
    assert float(judge(all_thresholds("thompson"), Moments(*arrays(0.5, 0.0, 0.0)))) == -0.5
    one = Acquisition(Head(None, jnp.ones(()), "logit"), Incumbent(*arrays(0.0, 0.0)), jnp.zeros(()), "thompson")
    assert float(judge(one, Moments(*arrays(0.5, 0.0, 0.0)))) == 0.5


@pytest.mark.parametrize("kind", ["ei", "pi", "ucb"])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_a_smaller_mean_is_better_at_all_thresholds(kind, link):
    means = jnp.linspace(-3, 3, 20)
    point = Moments(means, jnp.full(20, 0.2), jnp.full(20, 0.01))
    assert np.all(np.diff(judge(all_thresholds(kind, link=link), point)) < 0)
