"""How a history becomes padded arrays: the schedule of fits, the bounded subset, the rows of labels."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import FloatDistribution

from boggn.config import Config
from boggn.encoding import Encoding
from boggn.labels import label
from boggn.observed import MOST_OBSERVED, MOST_RUNNING, REFIT_EVERY, Observed, arrange, scheduled

SPACE = Encoding.of({"x": FloatDistribution(0, 1), "y": FloatDistribution(0, 1)})


def _observed(count):
    rng = np.random.default_rng(0)
    return Observed.of(rng.random((count, 2)), rng.random(count))


@given(st.integers(1, 3000))
def test_the_schedule_lags_by_at_most_one_part_in_ten(count):
    size = scheduled(count)[-1]
    assert 1 <= size <= count
    assert count - size <= max(0, size // REFIT_EVERY)
    assert scheduled(size) == scheduled(count)


@given(st.integers(1, 10_000))
def test_the_schedule_repeats_few_fits_and_none_that_doubles_the_first(count):
    sizes = scheduled(count)
    assert len(sizes) <= 9  # those that grow by a tenth, rounded down, between 20 and 40
    assert sizes == sorted(set(sizes))
    assert sizes[-1] < 2 * sizes[0]


def test_the_schedule_never_goes_back():
    sizes = [scheduled(count) for count in range(1, 500)]
    assert sizes == sorted(sizes)
    for fewer, more in itertools.pairwise(sizes):
        assert more in (fewer, [*fewer, more[-1]], [more[-1]])  # it goes on from what was learned before, or afresh


def test_equal_outcomes_are_nothing_to_learn_from():
    assert Observed.of(np.zeros((3, 2)), np.ones(3)) is None


def test_a_bounded_subset_keeps_the_best_and_the_order():
    everything = _observed(900)
    kept = everything.at_most(100)
    assert len(kept.values) == 100
    assert set(np.argsort(everything.values)[:50]) <= set(kept.position)
    assert np.all(np.diff(kept.position) > 0)
    np.testing.assert_array_equal(everything.values[kept.position], kept.values)
    assert kept.scale == everything.scale


@pytest.mark.parametrize("gamma", [0.05, 0.5, 0.99])
@pytest.mark.parametrize("acquisition", ["ei", "pi"])
def test_the_largest_history_fits_its_bucket(gamma, acquisition):
    config = Config(thresholds="one", link="logit", gamma=gamma, acquisition=acquisition)
    observed = _observed(2 * MOST_OBSERVED).at_most(MOST_OBSERVED)
    with jax.enable_x64(True):
        data, waiting = arrange(config, SPACE, observed, np.random.default_rng(1).random((MOST_RUNNING, 2)))
    assert np.asarray(waiting).sum() == MOST_RUNNING
    assert not np.any((np.asarray(data.weight) > 0) & (np.asarray(waiting) > 0))


def test_the_first_row_of_an_observation_is_its_own():
    config = Config(thresholds="one", link="logit")
    observed = _observed(20)
    with jax.enable_x64(True):
        data, _ = arrange(config, SPACE, observed, observed.units[:0])
    np.testing.assert_allclose(data.rows[:20, :2], SPACE.encode(observed.units))


@pytest.mark.parametrize("thresholds", [1, 4, 1000])
def test_several_thresholds_are_those_of_the_utilities(thresholds):
    config, observed = Config(thresholds=thresholds), _observed(20)
    with jax.enable_x64(True):
        data, waiting = arrange(config, SPACE, observed, np.random.default_rng(1).random((3, 2)))
        interval = np.asarray(data.interval)
        np.testing.assert_array_equal(data.utility[:20], observed.scale.utility(observed.values))
        assert np.all((interval[:20, 0] < data.utility[:20]) & (data.utility[:20] <= interval[:20, 1]))
    assert interval.shape == (len(waiting), 2)
    assert np.all(np.isinf(interval[20:]))
    found = np.unique(interval[np.isfinite(interval)])
    tau = observed.scale.utility(np.array([label(observed.values, config.proportion(20)).threshold]))
    assert len(found) == {1: 1, 4: 4, 1000: 40}[thresholds]
    assert thresholds != 1 or found == tau


def test_outcomes_beyond_the_cap_are_tied():
    observed = Observed.of(np.zeros((7, 2)), np.array([0.0, 1.0, 2.0, 3.0, 1e30, 2e30, 3e30]))
    with jax.enable_x64(True):
        data, _ = arrange(Config(thresholds=9), SPACE, observed, observed.units[:0])
    interval = np.asarray(data.interval)[:7]
    assert np.all(interval[:, 0] < interval[:, 1])
    np.testing.assert_array_equal(interval[4:], interval[[4, 4, 4]])
