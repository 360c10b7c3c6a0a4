from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from boggn.errors import BoggnError, ConfigurationError, EncodingError
from boggn.labels import cuts, intervals, label, threshold, utilities

few_distinct = st.integers(-4, 4).map(float)
any_value = st.one_of(few_distinct, st.floats(allow_nan=False))
outcomes = st.lists(any_value, min_size=1, max_size=40)
gammas = st.floats(0.001, 0.999)


def slow_threshold(values: list[float], gamma: Fraction) -> float:
    r"""inf {t : ECDF(t) >= gamma}, by trying every value, in exact arithmetic."""
    return min(t for t in values if Fraction(sum(y <= t for y in values), len(values)) >= gamma)


# --------------------------------------------------------------------------------------------------------- threshold
@given(st.lists(any_value, min_size=1, max_size=60), st.data())
def test_threshold_is_the_generalised_inverse_of_the_ecdf(values: list[float], data: st.DataObject) -> None:
    bottom = data.draw(st.integers(2, 1000))
    gamma = Fraction(data.draw(st.integers(1, bottom - 1)), bottom)
    assert threshold(values, float(gamma)) == slow_threshold(values, gamma)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 10, 99, 100, 1000])
def test_rank_survives_the_rounding_of_gamma_times_n(n: int) -> None:
    values = np.arange(1.0, n + 1)
    for rank in range(1, n):
        for gamma in (rank / n, 1 - (n - rank) / n):
            assert threshold(values, gamma) == rank
    assert threshold(np.arange(1.0, 101), 0.07) == 7
    assert threshold(np.arange(1.0, 101), 0.0701) == 8


@pytest.mark.parametrize("gamma", [0.0, 1.0, -0.1, 1.5, math.nan, math.inf])
def test_gamma_outside_is_an_error_that_names_it(gamma: float) -> None:
    with pytest.raises(ConfigurationError, match=r"`gamma` must be a number strictly between 0 and 1, but got"):
        label([1.0, 2.0], gamma)


def test_extreme_gammas_are_the_best_and_the_worst() -> None:
    assert threshold([3.0, 1.0, 2.0], 1e-300) == 1
    assert threshold([3.0, 1.0, 2.0], math.nextafter(1.0, 0.0)) == 3


# ------------------------------------------------------------------------------------------------------------- "pi"
@given(outcomes, gammas)
def test_pi_labels_every_observation_once(values: list[float], gamma: float) -> None:
    labels = label(values, gamma)
    assert labels.threshold == threshold(values, gamma)
    assert labels.row.tolist() == list(range(len(values)))
    assert labels.weight.tolist() == [1.0] * len(values)
    assert labels.z.tolist() == [float(y <= labels.threshold) for y in values]
    assert labels.z.sum() >= gamma * len(values) * (1 - 1e-12)


@pytest.mark.parametrize(
    "transform",
    [lambda y: 3 * y - 7, np.exp, np.arctan, lambda y: y**3, lambda y: np.where(y > 2, np.inf, y), np.argsort],
    ids=["affine", "exp", "arctan", "cube", "fail above", "rank"],
)
@given(values=st.lists(st.integers(-20, 20), min_size=1, max_size=40), gamma=gammas)
def test_labels_do_not_change_under_increasing_transforms(
    transform: Callable[[np.ndarray], np.ndarray], values: list[int], gamma: float
) -> None:
    y = np.array(values, dtype=np.float64)
    if transform is np.argsort:
        transformed = np.unique(y, return_inverse=True)[1].astype(np.float64)
    else:
        transformed = transform(y)
        if len(np.unique(transformed)) < len(np.unique(y)):
            return  # failures were merged: not strictly increasing
    np.testing.assert_array_equal(label(y, gamma).z, label(transformed, gamma).z)


@pytest.mark.parametrize("weighting", ["pi", "ei"])
@given(value=any_value, n=st.integers(1, 20), gamma=gammas)
def test_all_tied_are_all_positive(weighting: str, value: float, n: int, gamma: float) -> None:
    labels = label([value] * n, gamma, weighting=weighting)  # type: ignore[arg-type]
    assert labels.z.sum() == n
    assert labels.weight.tolist() == [1.0] * len(labels.z)
    assert labels.threshold == value


def test_ties_at_the_threshold_are_all_positive() -> None:
    assert label([1.0, 2.0, 2.0, 2.0, 3.0], 0.4).z.tolist() == [1, 1, 1, 1, 0]


# ------------------------------------------------------------------------------------------------------------- "ei"
@given(outcomes, gammas)
def test_ei_has_every_observation_as_negative_and_improvements_again(values: list[float], gamma: float) -> None:
    n, labels = len(values), label(values, gamma, weighting="ei")
    assert labels.z[:n].tolist() == [0.0] * n
    assert labels.weight[:n].tolist() == [1.0] * n
    assert labels.row[:n].tolist() == list(range(n))
    below = [i for i, y in enumerate(values) if y < labels.threshold]
    tied = [i for i, y in enumerate(values) if y <= labels.threshold]
    assert labels.row[n:].tolist() == (below or tied)
    assert labels.z[n:].tolist() == [1.0] * len(below or tied)
    assert len(labels.z) == len(labels.weight) == len(labels.row)


@given(outcomes, gammas)
def test_ei_weights_are_finite_and_sum_to_the_number_of_positives(values: list[float], gamma: float) -> None:
    labels = label(values, gamma, weighting="ei")
    positive = labels.weight[labels.z == 1]
    assert np.isfinite(labels.weight).all()
    assert (labels.weight >= 0).all()
    assert positive.sum() == pytest.approx(len(positive), rel=1e-12)


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=40), gammas)
def test_ei_weights_are_the_improvements(values: list[int], gamma: float) -> None:
    labels = label(values, gamma, weighting="ei")
    improvements = [Fraction(int(labels.threshold) - y) for y in values if y < labels.threshold]
    if improvements:
        expected = [float(u * len(improvements) / sum(improvements)) for u in improvements]
        np.testing.assert_allclose(labels.weight[len(values) :], expected, rtol=1e-12)


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=40), gammas, st.integers(1, 9), st.integers(-9, 9))
def test_ei_weights_do_not_change_with_the_unit_of_y(values: list[int], gamma: float, scale: int, shift: int) -> None:
    y = np.array(values, dtype=np.float64)
    a, b = label(y, gamma, weighting="ei"), label(scale * y + shift, gamma, weighting="ei")
    np.testing.assert_allclose(a.weight, b.weight, rtol=1e-12)
    np.testing.assert_array_equal(a.row, b.row)


@pytest.mark.parametrize(
    ("values", "gamma", "positive", "weight"),
    [
        ([-1e300, 0.0, 1e300], 0.9, [0, 1], [4 / 3, 2 / 3]),
        ([-1.7e308, -1.7e308, 1.7e308], 0.9, [0, 1], [1, 1]),
        ([5e-324, 0.0, 1e-323], 0.9, [0, 1], [2 / 3, 4 / 3]),
        ([1.0, 2.0, math.inf, math.inf], 0.75, [0, 1], [1, 1]),
        ([-math.inf, 0.0, 1.0, 2.0], 0.75, [0, 1], [1, 1]),
        ([-math.inf, 1.0, 2.0], 0.6, [0], [1]),
        ([math.inf, math.inf], 0.5, [0, 1], [1, 1]),
        ([-math.inf, -math.inf, 3.0], 0.5, [0, 1], [1, 1]),
    ],
)
def test_ei_of_huge_tiny_and_infinite_values(
    values: list[float], gamma: float, positive: list[int], weight: list[float]
) -> None:
    labels = label(values, gamma, weighting="ei")
    assert labels.row[len(values) :].tolist() == positive
    np.testing.assert_allclose(labels.weight[len(values) :], weight, rtol=1e-12)


def test_an_unknown_weighting_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="`weighting` must be either"):
        label([1.0], 0.5, weighting="ucb")  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------- utilities
@given(outcomes)
def test_utilities_are_finite_ordered_and_their_differences_too(values: list[float]) -> None:
    u = utilities(values)
    assert np.isfinite(u).all()
    assert math.isfinite(u.max() - u.min())
    order = np.argsort(values, kind="stable")
    assert (np.diff(u[order]) >= 0).all()
    for y, each in zip(values, u.tolist(), strict=True):
        if abs(y) <= 8e307:
            assert each == y


def test_utilities_of_infinities() -> None:
    assert utilities([math.inf, 3.0, -math.inf, 1e300]).tolist() == [1e300, 3.0, 3.0, 1e300]
    assert utilities([math.inf, -math.inf]).tolist() == [1.0, 0.0]
    assert utilities([math.inf, math.inf]).tolist() == [1.0, 1.0]
    assert utilities([]).tolist() == []
    given_values = np.array([math.inf, 1.0])
    utilities(given_values)
    assert given_values[0] == math.inf


@pytest.mark.parametrize("call", [utilities, lambda y: threshold(y, 0.5), lambda y: label(y, 0.5, weighting="ei")])
def test_nan_is_an_error_that_names_the_index(call: Callable[[list[float]], object]) -> None:
    with pytest.raises(EncodingError, match="Outcome 2 is NaN") as caught:
        call([1.0, math.inf, math.nan, math.nan])
    assert isinstance(caught.value, BoggnError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], 3.0])
def test_outcomes_of_the_wrong_shape_are_errors(values: object) -> None:
    with pytest.raises(EncodingError):
        label(values, 0.5)  # type: ignore[arg-type]


# -------------------------------------------------------------------------------------------------- several thresholds
tame = st.lists(st.one_of(few_distinct, st.floats(-1e6, 1e6)), min_size=1, max_size=40)
counts = st.integers(1, 100)


@given(tame, counts, st.floats(0.02, 0.98))
def test_every_outcome_lies_in_the_interval_between_neighbouring_thresholds(values, count, gamma) -> None:
    found = cuts(values, count, gamma)
    ends = intervals(values, found)
    assert len(found) <= count
    assert np.all(np.diff(found) > 0)
    assert np.all((ends[:, 0] < values) & (values <= ends[:, 1]))
    bounds = np.concatenate([[-np.inf], found, [np.inf]]).tolist()
    assert all(bounds.index(low) + 1 == bounds.index(high) for low, high in ends)


@given(tame, st.floats(0.02, 0.98))
def test_one_of_several_thresholds_has_the_labels_of_the_paper(values, gamma) -> None:
    ends = intervals(values, cuts(values, 1, gamma))
    np.testing.assert_array_equal(np.isinf(ends[:, 0]), label(values, gamma).z == 1)
    np.testing.assert_array_equal(np.isinf(ends[:, 0]), np.isfinite(ends[:, 1]))


@pytest.mark.parametrize("gamma", [1 / 3, 0.1, 0.5])
def test_the_middle_threshold_is_at_gamma_and_halving_it_puts_them_evenly(gamma) -> None:
    values = np.arange(1.0, 31)
    assert cuts(values, 3, gamma)[1] == pytest.approx(gamma * 30 + 0.5)
    np.testing.assert_allclose(cuts(values, 2, 0.5), [10.5, 20.5])
    np.testing.assert_allclose(cuts(values, 29, 0.5), np.arange(1.5, 30))  # each outcome on its own


def test_ever_more_thresholds_close_in_on_every_outcome() -> None:
    values = np.random.default_rng(0).normal(size=20)
    width = [np.diff(intervals(values, cuts(values, count, 1 / 3))).max() for count in (30, 1_000, 10_000, 100_000)]
    assert width[0] == np.inf  # so few do not yet reach above the worst
    assert width[2] < 0.02
    assert width[3] < 0.11 * width[2]


def test_tied_outcomes_have_fewer_thresholds() -> None:
    assert cuts([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 5, 0.5).tolist() == [0.0, 0.5, 1.0]
    assert cuts([2.0, 2.0], 7, 0.5).tolist() == [2.0]
    assert cuts([2.0], 7, 0.5).tolist() == [2.0]
