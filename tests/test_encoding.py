from __future__ import annotations

import math
import operator
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

import strategies as sts
from boggn.encoding import Encoding, bucket, padded_width
from boggn.errors import EncodingError

units = st.floats(0, 1)
NAN = float("nan")


def one(distribution: BaseDistribution) -> Encoding:
    return Encoding.of({"x": distribution})


def round_trip(distribution: BaseDistribution, value: Any) -> Any:
    encoding = one(distribution)
    return encoding.from_unit(encoding.to_unit({"x": value}))["x"]


def accepts(distribution: BaseDistribution, value: Any) -> bool:
    return distribution._contains(distribution.to_internal_repr(value))


def same(a: Any, b: Any) -> bool:
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def wide(data: st.DataObject, strategy: st.SearchStrategy[BaseDistribution]) -> tuple[Any, Any]:
    distribution = data.draw(strategy)
    return distribution, data.draw(sts.values(distribution))


@given(st.data())
def test_grids_ints_and_categories_come_back_exactly(data: st.DataObject) -> None:
    distribution, value = wide(data, sts.grids())
    assert same(round_trip(distribution, value), value)


@given(st.data())
def test_linear_floats_come_back_to_within_rounding_of_the_range(data: st.DataObject) -> None:
    d, value = wide(data, sts.floats())
    assert abs(round_trip(d, value) / 2 - value / 2) <= 4 * math.ulp(max(abs(d.low), abs(d.high)))


@given(st.data())
def test_log_floats_come_back_to_within_rounding_of_the_log_range(data: st.DataObject) -> None:
    d, value = wide(data, sts.log_floats())
    assert round_trip(d, value) == pytest.approx(value, rel=1e-12, abs=1e-323)


@given(sts.distributions())
@example(FloatDistribution(0.125, 1.25e299, log=True))
def test_both_ends_are_exact(distribution: Any) -> None:
    if isinstance(distribution, CategoricalDistribution):
        ends, at = [distribution.choices[0]], [0.0]
    else:
        ends, at = [distribution.low, distribution.high], [0.0, 0.0 if distribution.single() else 1.0]
    for end, unit in zip(ends, at, strict=True):
        assert one(distribution).to_unit({"x": end}) == [unit]
        assert same(round_trip(distribution, end), end)


@given(sts.spaces_with_params())
def test_whole_configurations_come_back_with_their_plain_types(
    case: tuple[dict[str, BaseDistribution], list[dict[str, Any]]],
) -> None:
    space, configurations = case
    encoding = Encoding.of(space)
    rows = encoding.to_units(configurations)
    assert rows.shape == (len(configurations), len(space))
    for row, params in zip(rows, configurations, strict=True):
        back = encoding.from_unit(row)
        assert encoding.contains(params)
        assert encoding.contains(back)
        np.testing.assert_array_equal(encoding.to_unit(params), row)
        for name, distribution in space.items():
            if isinstance(distribution, CategoricalDistribution):
                assert any(back[name] is choice for choice in distribution.choices)
            else:
                assert type(back[name]) is (float if isinstance(distribution, FloatDistribution) else int)


@given(st.data(), units)
def test_every_unit_is_accepted_by_optuna(data: st.DataObject, unit: float) -> None:
    distribution = data.draw(sts.distributions())
    assert accepts(distribution, one(distribution).from_unit([unit])["x"])


@pytest.mark.parametrize("unit", [-0.5, -1e-9, 1 + 1e-9, 7.0])
@given(distribution=sts.distributions())
def test_units_outside_the_cube_are_clipped(unit: float, distribution: BaseDistribution) -> None:
    assert accepts(distribution, one(distribution).from_unit([unit])["x"])


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(-1e308, 1e308),
        FloatDistribution(-1.7976931348623157e308, 1.7976931348623157e308),
        FloatDistribution(5e-324, 1.7976931348623157e308, log=True),
        FloatDistribution(1.0, 1.7976931348623157e308, log=True),
        FloatDistribution(1.0, math.nextafter(1.0, 2.0), log=True),
        FloatDistribution(0.0, 5e-324),
        FloatDistribution(0.0, 1e3, step=1e-8),
        FloatDistribution(1e5, 1e5 + 1, step=1e-7),
        FloatDistribution(1e9, 1e9 + 1, step=1e-3),
        FloatDistribution(-1e307, 1e307, step=1e306),
        FloatDistribution(1e17, 1e17 + 1600, step=16.0),
        IntDistribution(0, 2**70),
        IntDistribution(-(2**70), 2**70, step=2**60),
        IntDistribution(2**60, 2**60 + 3000, step=3),
        IntDistribution(1, 1 + 3 * 2**60, step=3),
        IntDistribution(-(2**60), 2**60 + 1, step=3),
        IntDistribution(0, 10**300, step=10**290),
        IntDistribution(1, 2**60 - 1, log=True),
        IntDistribution(1, 10**308, log=True),
        IntDistribution(2**60, 2**60 + 50, log=True),
    ],
    ids=repr,
)
@pytest.mark.parametrize("unit", [0.0, 1e-300, 1e-9, 0.1, 1 / 3, 0.5, 0.7071, 0.999999, 1 - 2**-53, 1.0])
def test_extreme_ranges_decode_to_values_optuna_accepts(distribution: BaseDistribution, unit: float) -> None:
    encoding = one(distribution)
    value = encoding.from_unit([unit])["x"]
    assert accepts(distribution, value)
    assert encoding.contains({"x": value})
    assert 0 <= encoding.to_unit({"x": value})[0] <= 1
    assert accepts(distribution, encoding.from_unit(encoding.snap([[unit]])[0])["x"])


@given(st.integers(-10, 10), st.integers(0, 150), st.integers(1, 7))
def test_ints_beyond_2_to_53_keep_their_last_digits(offset: int, index: int, step: int) -> None:
    low = 2**60  # a float64; Optuna accepts nothing below the next one if it is not
    distribution = IntDistribution(low, low + 150 * step, step=step)
    value = low + index * step
    back = round_trip(distribution, value)
    assert back == value if accepts(distribution, value) else accepts(distribution, back)


def test_values_on_a_decimal_grid_are_the_decimals() -> None:
    encoding = one(FloatDistribution(0.0, 1.0, step=0.1))
    assert [encoding.from_unit([u])["x"] for u in encoding.levels(0)] == [k / 10 for k in range(11)]
    assert encoding.to_unit({"x": 0.1 + 0.2}) == encoding.to_unit({"x": 0.3})


def test_choices_optuna_cannot_tell_apart_are_one_level() -> None:
    distribution = CategoricalDistribution((True, 1, "1", 1.0, False, 0, None))
    encoding = one(distribution)
    for choice in distribution.choices:
        assert encoding.to_unit({"x": choice}) == [distribution.to_internal_repr(choice)]
    assert encoding.levels(0).tolist() == [0, 2, 4, 6]
    assert encoding.size == 4
    assert encoding.snap([[1.0], [3.0], [5.0]]).tolist() == [[0], [0], [4]]
    assert encoding.from_unit([1.0])["x"] is True
    assert encoding.width == 7


def test_any_nan_is_the_nan_choice() -> None:
    encoding = one(CategoricalDistribution((0.5, NAN, None)))
    for nan in (NAN, float("nan"), np.float64("nan"), np.float32("nan")):
        assert encoding.to_unit({"x": nan}) == [1]
    assert math.isnan(encoding.from_unit([1.0])["x"])


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution:UserWarning")
def test_unhashable_choices_work_as_far_as_optuna_lets_them() -> None:
    encoding = one(CategoricalDistribution(([32], [64, 64], "wide")))  # type: ignore[arg-type]
    rows = encoding.to_units([{"x": [64, 64]}, {"x": "wide"}, {"x": [32]}])
    assert rows.tolist() == [[1], [2], [0]]
    assert encoding.from_unit(rows[0]) == {"x": [64, 64]}


def test_a_thousand_categories() -> None:
    encoding = one(CategoricalDistribution([f"c{i}" for i in range(1000)]))
    rows = encoding.to_units([{"x": f"c{i}"} for i in range(1000)])
    assert rows[:, 0].tolist() == list(range(1000))
    assert encoding.width == 1000
    np.testing.assert_array_equal(encoding.encode(rows), math.sqrt(2) * np.eye(1000))
    assert encoding.from_unit(rows[777]) == {"x": "c777"}


@pytest.mark.parametrize("choices", [("adam", "sgd"), ("adam",)])
def test_an_unknown_category_names_parameter_value_and_choices(choices: tuple[str, ...]) -> None:
    encoding = Encoding.of({"optimiser": CategoricalDistribution(choices)})
    with pytest.raises(EncodingError, match=r"'optimiser' got 'lion'.*\('adam',"):
        encoding.to_units([{"optimiser": "adam"}, {"optimiser": "lion"}])
    assert not encoding.contains({"optimiser": "lion"})


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(1.0, 3.0),
        FloatDistribution(1.0, 3.0, log=True),
        FloatDistribution(1.0, 3.0, step=0.5),
        IntDistribution(1, 3),
        IntDistribution(1, 3, log=True),
        IntDistribution(1, 2**60 + 1),
        FloatDistribution(2.0, 2.0),
        IntDistribution(2, 2),
    ],
    ids=repr,
)
def test_numbers_outside_are_clipped(distribution: FloatDistribution | IntDistribution) -> None:
    encoding = one(distribution)
    top = 0.0 if distribution.single() else 1.0
    outside = [-math.inf, -1e308, -5, 0, 1e300, 10**300, math.inf]
    rows = encoding.to_units([{"x": value} for value in outside])
    assert rows[:, 0].tolist() == [0, 0, 0, 0, top, top, top]
    assert not any(encoding.contains({"x": value}) for value in outside)


def test_values_between_grid_points_go_to_the_nearest() -> None:
    assert round_trip(IntDistribution(0, 10, step=2), 4.9) == 4
    assert round_trip(IntDistribution(1, 1000, log=True), 41.6) == 42
    assert round_trip(FloatDistribution(0, 1, step=0.25), 0.4) == 0.5
    assert round_trip(IntDistribution(2**60, 2**60 + 10), np.int64(2**60 + 7)) == 2**60 + 7


@pytest.mark.parametrize("value", [NAN, None, "word", [1.0], 10**400, 1j])
@pytest.mark.parametrize("distribution", [FloatDistribution(0, 1), IntDistribution(0, 9), FloatDistribution(1, 1)])
def test_what_is_no_number_is_an_error(distribution: BaseDistribution, value: Any) -> None:
    with pytest.raises(EncodingError, match="'x' must be a number"):
        one(distribution).to_unit({"x": value})
    assert not one(distribution).contains({"x": value})


def test_a_missing_parameter_is_an_error_and_a_foreign_one_is_not() -> None:
    encoding = one(IntDistribution(0, 1))
    with pytest.raises(EncodingError, match="'x' is missing"):
        encoding.to_unit({"y": 1})
    assert not encoding.contains({"y": 1})
    assert encoding.contains({"x": 1, "y": 1})
    assert encoding.to_unit({"x": 1, "y": 1}) == [1]


@pytest.mark.parametrize(
    "distribution",
    [
        FloatDistribution(-math.inf, 1),
        FloatDistribution(0, NAN),
        FloatDistribution(-1e308, 1e308, step=1e307),
        IntDistribution(0, 10**400),
        IntDistribution(-(10**308), 10**308),
    ],
    ids=["-inf", "nan", "step", "int", "int range"],
)
def test_ranges_optuna_itself_cannot_check_are_refused(distribution: BaseDistribution) -> None:
    with pytest.raises(EncodingError, match=r"'x' has .*float64"):
        one(distribution)


@given(sts.distributions(), st.lists(st.floats(-1, 2), min_size=1, max_size=10))
def test_snap_goes_to_what_is_decoded_and_stays(distribution: BaseDistribution, column: list[float]) -> None:
    encoding = one(distribution)
    if isinstance(distribution, CategoricalDistribution):
        column = [u * len(distribution.choices) for u in column]
    snapped = encoding.snap(np.array(column)[:, None])
    np.testing.assert_array_equal(encoding.snap(snapped), snapped)
    if encoding.size is None:
        np.testing.assert_array_equal(snapped[:, 0], np.clip(column, 0, 1))
        return
    decoded = [encoding.from_unit([u]) for u in column]
    np.testing.assert_array_equal(encoding.to_units(decoded), snapped)


@given(sts.grids(), st.floats(0, 1))
@example(IntDistribution(1, 2, log=True), 0.53)
def test_levels_are_the_units_of_all_values_and_snap_picks_the_nearest(
    distribution: BaseDistribution, unit: float
) -> None:
    encoding = one(distribution)
    if encoding.kinds[0] == "continuous":
        with pytest.raises(EncodingError, match="continuous"):
            encoding.levels(0)
        return
    levels = encoding.levels(0)
    assert len(levels) == encoding.size
    assert np.all(np.diff(levels) > 0)
    decoded = [encoding.from_unit([level]) for level in levels]
    np.testing.assert_array_equal(encoding.to_units(decoded)[:, 0], levels)
    np.testing.assert_array_equal(encoding.snap(levels[:, None])[:, 0], levels)
    encoding.levels(0)[:] = -1
    np.testing.assert_array_equal(encoding.levels(0), levels)
    if encoding.kinds[0] == "ordinal":
        assert abs(encoding.snap([[unit]])[0, 0] - unit) <= np.abs(levels - unit).min() + 1e-15


@pytest.mark.parametrize(
    ("distribution", "kind", "size"),
    [
        (FloatDistribution(0, 1), "continuous", None),
        (FloatDistribution(1, 2, log=True), "continuous", None),
        (FloatDistribution(0, 127, step=1), "ordinal", 128),
        (FloatDistribution(0, 128, step=1), "continuous", 129),
        (IntDistribution(0, 128), "continuous", 129),
        (IntDistribution(0, 10**30), "continuous", 10**30 + 1),
        (IntDistribution(1, 128, log=True), "ordinal", 128),
        (IntDistribution(1, 129, log=True), "continuous", 129),
        (CategoricalDistribution(["a", "b"]), "categorical", 2),
        (FloatDistribution(1, 1), "ordinal", 1),
        (FloatDistribution(1, 1, step=0.1), "ordinal", 1),
        (IntDistribution(2**53 + 1, 2**53 + 1), "ordinal", 1),
        (CategoricalDistribution([None]), "ordinal", 1),
    ],
    ids=repr,
)
def test_kinds_and_sizes(distribution: BaseDistribution, kind: str, size: int | None) -> None:
    encoding = one(distribution)
    assert (encoding.kinds, encoding.size) == ((kind,), size)
    if size == 1:
        assert encoding.levels(0).tolist() == [0]
        assert encoding.encode([[0.0], [0.5]]).tolist() == [[0], [0]]
        assert encoding.from_unit([0.3])["x"] == getattr(distribution, "low", None)


def test_log_scales_are_logarithmic() -> None:
    encoding = Encoding.of({"f": FloatDistribution(1e-4, 1.0, log=True), "i": IntDistribution(1, 10_000, log=True)})
    np.testing.assert_allclose(encoding.to_unit({"f": 1e-2, "i": 100}), [0.5, 0.5], rtol=1e-14)
    assert encoding.from_unit([0.25, 0.25]) == {"f": pytest.approx(1e-3), "i": 10}


@given(sts.spaces())
def test_size_is_the_product(space: dict[str, BaseDistribution]) -> None:
    sizes = [one(distribution).size for distribution in space.values()]
    known = [size for size in sizes if size is not None]
    assert Encoding.of(space).size == (reduce(operator.mul, known, 1) if len(known) == len(sizes) else None)


def test_layout_of_the_encoded_row() -> None:
    space = {
        "d": IntDistribution(0, 4),
        "b": CategoricalDistribution(["x", "y", "z"]),
        "c": FloatDistribution(3, 3),
        "a": FloatDistribution(0, 2),
        "e": CategoricalDistribution(["only"]),
    }
    encoding = Encoding.of(space)
    assert encoding.names == ("a", "b", "c", "d", "e")
    assert encoding.distributions == tuple(space[name] for name in "abcde")
    assert encoding.kinds == ("continuous", "categorical", "ordinal", "ordinal", "ordinal")
    assert encoding.parameter_of_column == (0, 1, 1, 1, 2, 3, 4)
    assert (encoding.n_parameters, encoding.width) == (5, 7)
    rows = encoding.to_units([{"a": 0.5, "b": "z", "c": 3.0, "d": 4, "e": "only"}])
    assert rows.tolist() == [[0.25, 2, 0, 1, 0]]
    assert encoding.encode(rows).tolist() == [[-0.5, 0, 0, math.sqrt(2), 0, 1, 0]]


@given(st.data())
def test_two_categories_are_at_distance_two_and_numbers_within_one_of_the_origin(data: st.DataObject) -> None:
    space = data.draw(sts.spaces())
    encoding = Encoding.of(space)
    rows = encoding.to_units(data.draw(st.lists(sts.params(space), min_size=2, max_size=2)))
    encoded = encoding.encode(rows)
    assert encoded.shape == (2, encoding.width) == (2, len(encoding.parameter_of_column))
    for j, kind in enumerate(encoding.kinds):
        block = encoded[:, [owner == j for owner in encoding.parameter_of_column]]
        if kind == "categorical":
            np.testing.assert_allclose((block**2).sum(axis=1), 2)
            assert ((block[0] - block[1]) ** 2).sum() == pytest.approx(0 if rows[0, j] == rows[1, j] else 4)
        else:
            assert block.shape == (2, 1)
            assert np.abs(block).max() <= 1


def test_an_empty_space_and_no_trials() -> None:
    empty = Encoding.of({})
    assert (empty.size, empty.width, empty.from_unit([])) == (1, 0, {})
    assert empty.to_units([{}, {}]).shape == empty.encode(np.empty((2, 0))).shape == (2, 0)
    assert empty.snap(np.empty((2, 0))).shape == (2, 0)
    encoding = Encoding.of({"x": FloatDistribution(0, 1), "y": CategoricalDistribution(["a", "b"])})
    assert encoding.to_units([]).shape == (0, 2)
    assert encoding.encode(np.empty((0, 2))).shape == (0, 3)


@pytest.mark.parametrize(
    ("method", "rows"), [("encode", [0.5]), ("snap", [[0.5, 0.5]]), ("from_unit", [0.5, 0.5]), ("from_unit", [NAN])]
)
def test_rows_of_the_wrong_shape_are_errors(method: str, rows: list[Any]) -> None:
    with pytest.raises(EncodingError, match="nit row"):
        getattr(one(FloatDistribution(0, 1)), method)(rows)


def test_padding() -> None:
    assert [padded_width(w) for w in (0, 1, 4, 5, 8, 9)] == [0, 4, 4, 8, 8, 12]
    assert [bucket(n, (64, 16, 256)) for n in (0, 1, 16, 17, 64, 256)] == [16, 16, 16, 64, 64, 256]
    with pytest.raises(EncodingError, match="257 rows"):
        bucket(257, (16, 64, 256))
