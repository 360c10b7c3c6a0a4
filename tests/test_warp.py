r"""The warp against change of variables: its density in y is a density, and the units of y do not matter."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

import reference
from boggn.likelihood import AllThresholds
from boggn.warp import CAP, FIRST, Scale, Warp, fit_warp, scale_of

OFFSETS = [-7.0, -1.0, 0.0, 3.0, 6.0]
fit = jax.jit(fit_warp)
outcomes = st.lists(st.integers(-1000, 1000).map(float), min_size=2, max_size=30).map(np.array)


@pytest.fixture(params=[False, True], ids=["float32", "float64"])
def rtol(request):
    with jax.enable_x64(request.param):
        yield 1e-10 if request.param else 2e-4


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@jax.jit
@jax.value_and_grad
def mixture(offset, utility, weight, direction):
    """One number that all results have a part in, and its derivative in the offset."""
    _, target, log_jacobian = fit_warp(utility, weight, offset)
    return log_jacobian + direction @ target


@partial(jax.jit, static_argnames="link")
def log_density(utility, warp, latent, noise, link):
    """log p(u | g): likelihood of T(u) and Jacobian of T, as the evidence has them for one row."""
    log_prob = AllThresholds(warp.target(utility), noise, jnp.ones(()), link).log_prob(latent)
    return log_prob - jnp.log(utility + jnp.exp(warp.log_offset)) - jnp.log(warp.spread)


def utilities(count=12, seed=0):
    values = np.random.default_rng(seed).gamma(0.7, size=count)
    return values - values.min()


# ------------------------------------------------------------------------------------------ outcomes to utilities


def test_the_best_is_zero_and_the_median_of_the_first_is_one():
    values = np.array([5.0, 3.0, 9.0, 4.0, 7.0])
    scale = scale_of(values)
    assert scale == Scale(anchor=3.0, span=2.0)
    np.testing.assert_array_equal(scale.utility(values), [1.0, 0.0, 3.0, 0.5, 2.0])


@given(outcomes)
def test_utilities_start_at_zero_and_invert(values):
    scale = scale_of(values)
    if scale is None:
        assert len(set(values)) == 1
        return
    utility = scale.utility(values)
    assert utility.min() == 0.0
    np.testing.assert_array_equal(np.argsort(utility, kind="stable"), np.argsort(values, kind="stable"))
    np.testing.assert_allclose(scale.value(utility), values, rtol=1e-12, atol=1e-9)


@given(outcomes, st.integers(-30, 30), st.integers(-(2**20), 2**20))
def test_units_of_y_do_not_matter(values, power, shift):
    scale, other = scale_of(values), scale_of(values * 2.0**power + shift * 2.0**power)
    assert (scale is None) == (other is None)
    if scale is not None and other is not None:
        moved = values * 2.0**power + shift * 2.0**power
        np.testing.assert_array_equal(scale.utility(values), other.utility(moved))  # no rounding in these: to the bit


def test_later_outcomes_above_the_best_do_not_move_the_span():
    rng = np.random.default_rng(0)
    first = rng.random(FIRST)
    assert scale_of(np.concatenate([first, rng.uniform(first.min(), 1e3, 50)])) == scale_of(first)


def test_where_most_outcomes_tie_at_the_best_the_mean_takes_over():
    assert scale_of(np.array([2.0, 2.0, 2.0, 6.0])) == Scale(2.0, 1.0)


@pytest.mark.parametrize("values", [[3.0], [3.0] * 5, [0.0, -0.0], [5e307] * 20])
def test_equal_outcomes_have_no_scale(values):
    assert scale_of(np.array(values)) is None


@pytest.mark.parametrize(
    "values", [[0.0, 8e307, 8e307, 8e307], [-8e307, 8e307], [0.0, 0.0, 0.0] + [8e307] * 6, [0.0, 1.0, 1e300]]
)
def test_huge_outcomes_do_not_overflow(values):
    values = np.array(values)
    scale = scale_of(values)
    assert scale is not None
    assert 0.0 < scale.span < np.inf
    utility = scale.utility(values)
    assert utility.min() == 0.0
    assert 0.0 < utility.max() <= CAP


def test_an_outlier_is_capped():
    scale = Scale(0.0, 1e-300)
    np.testing.assert_array_equal(scale.utility(np.array([0.0, 1e-300, 1e300])), [0.0, 1.0, CAP])


# -------------------------------------------------------------------------------------------- utilities to targets


@pytest.mark.parametrize("log_offset", OFFSETS)
def test_targets_are_standardised_logarithms(rtol, log_offset):
    utility = utilities()
    warp, target, log_jacobian = fit(jnp.asarray(utility), jnp.ones(12), jnp.asarray(log_offset))
    logs = np.log(utility + np.exp(log_offset))
    np.testing.assert_allclose(target, (logs - logs.mean()) / logs.std(), rtol=50 * rtol, atol=50 * rtol)
    np.testing.assert_allclose(log_jacobian, -logs.sum() - 12 * np.log(logs.std()), rtol=50 * rtol)
    np.testing.assert_allclose(warp.target(jnp.asarray(utility)), target, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(warp.log_utility(target), logs, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("log_offset", OFFSETS)
def test_padding_changes_nothing(rtol, log_offset):
    utility, weight = np.r_[utilities(), 0.0, 7.0, CAP], np.r_[np.ones(12), np.zeros(3)]
    padded = fit(jnp.asarray(utility), jnp.asarray(weight), jnp.asarray(log_offset))
    plain = fit(jnp.asarray(utility[:12]), jnp.ones(12), jnp.asarray(log_offset))
    np.testing.assert_allclose(padded[0], plain[0], rtol=rtol)
    np.testing.assert_allclose(padded[1], np.r_[plain[1], np.zeros(3)], rtol=50 * rtol, atol=50 * rtol)
    np.testing.assert_allclose(padded[2], plain[2], rtol=rtol)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("log_offset", OFFSETS)
def test_the_log_jacobian_is_that_of_the_targets(log_offset):
    utility = jnp.asarray(utilities())
    warp, _, log_jacobian = fit(utility, jnp.ones(12), jnp.asarray(log_offset))
    slopes = jax.vmap(jax.grad(warp.target))(utility)
    assert np.all(slopes > 0)
    assert float(log_jacobian) == pytest.approx(float(jnp.sum(jnp.log(slopes))), rel=1e-12)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("log_offset", OFFSETS)
def test_gradient_in_the_offset(log_offset):
    utility, weight = jnp.asarray(np.r_[utilities(), 3.0]), jnp.asarray(np.r_[np.ones(12), 0.0])
    direction = jnp.asarray(np.random.default_rng(1).normal(size=13))

    step = 1e-5
    high, low = (mixture(log_offset + move, utility, weight, direction)[0] for move in (step, -step))
    found = float(mixture(log_offset, utility, weight, direction)[1])
    assert found == pytest.approx(float(high - low) / (2 * step), rel=1e-6, abs=1e-7)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize(("log_offset", "latent"), [(-5.0, -1.0), (0.0, 0.5), (2.0, 0.0), (6.0, -0.5)])
def test_the_density_of_an_outcome_integrates_to_one_in_y(link, log_offset, latent):
    scale = scale_of(utilities(seed=3) * 4.0 - 17.0)
    assert scale is not None
    warp, _, _ = fit(jnp.asarray(utilities()), jnp.ones(12), jnp.asarray(log_offset))
    noise, offset = 0.2, float(np.exp(log_offset))

    def density(y):
        return np.exp(float(log_density((y - scale.anchor) / scale.span, warp, latent, noise, link))) / scale.span

    pole = scale.anchor - offset * scale.span
    mass, power = 0.0, np.linspace(-9, 9, 7) * noise * float(warp.spread)
    # Quadrature in y itself, in pieces around exp(U): from the pole, where the density is zero, to far above.
    cuts = pole + scale.span * np.exp(float(warp.log_utility(latent)) + power)
    for low, high in zip(np.r_[pole, cuts[:-1]], cuts, strict=True):
        mass += integrate.quad(density, np.nextafter(low, high), high, epsrel=1e-8)[0]
    # Beyond nine noise scales both links have a tail of known mass.
    tail = reference.LINKS[link].sf(9.0)
    assert mass == pytest.approx(1.0 - tail, abs=1e-6)


@settings(max_examples=25)
@given(st.floats(-7, 6), st.floats(0, 1e6))
def test_the_inverse_gives_the_utility_back(log_offset, utility):
    with jax.enable_x64(True):
        warp = Warp(jnp.asarray(log_offset), jnp.asarray(0.3), jnp.asarray(1.7))
        back = jnp.exp(warp.log_utility(warp.target(jnp.asarray(utility)))) - jnp.exp(log_offset)
    assert float(back) == pytest.approx(utility, rel=1e-9, abs=1e-11 * np.exp(log_offset))
