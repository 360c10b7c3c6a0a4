"""The parts of a report: its words, charts, tables, numbers and markup, each asked by itself."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState

from boggn import BOGGNSampler
from boggn.belief import Band
from boggn.report.axes import Axis, axes_of
from boggn.report.charts import evidence, progress, wilson
from boggn.report.contours import outlines
from boggn.report.gathered import gather, snapshot
from boggn.report.landscape import importance, slices
from boggn.report.learnt import Share, Slice, _logarithmic, relative, variance_shares
from boggn.report.markup import Markup, embedded, tag
from boggn.report.numbers import Scale, apart, column, duration, give_or_take, percent, robust, short
from boggn.report.plot import area, line
from boggn.report.table import top
from reported import EVIL, OUTCOMES, gathered_of, learnt_of, model_of, told_of, trial_of


def test_what_a_point_is_worth_is_a_share_of_the_first() -> None:
    logs = np.array([-2.0, -3.0, -np.inf, -1.99])
    np.testing.assert_allclose(relative(logs, logarithmic=True), [1.0, np.exp(-1.0), 0.0, np.exp(0.01)])
    np.testing.assert_allclose(relative(np.array([3.0, -1.0, 1.0, -np.inf]), logarithmic=False), [1.0, 0.0, 0.5, 0.0])
    for logarithmic in (True, False):
        assert relative(np.full(3, 7.0), logarithmic=logarithmic).tolist() == [1.0, 1.0, 1.0]
        assert relative(np.full(3, -np.inf), logarithmic=logarithmic).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, True), ({"acquisition": "ucb"}, False), ({"classifier": "forest", "acquisition": "pi"}, False)],
    ids=repr,
)
def test_only_what_a_network_expects_is_a_logarithm(options: dict[str, Any], expected: bool) -> None:
    study = optuna.create_study(sampler=BOGGNSampler(seed=0, **options))
    assert _logarithmic(study) == expected


@pytest.mark.parametrize(
    ("improvement", "says"),
    [
        (3.0, "One more trial is expected to improve the best outcome by 3, 50% of the spread"),
        (3.0, "worse trials: there is still much to gain, if"),
        (0.12, "worse trials: a little is still to gain, if"),
        (0.006, "Little is left to gain, if the model is right: one more trial is expected"),
    ],
)
def test_what_is_left_to_gain_is_told_by_the_spread(improvement: float, says: str) -> None:
    assert says in told_of(gathered_of(OUTCOMES), learnt_of(expected_improvement=improvement))


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_nothing_is_to_gain_on_an_infinite_outcome(direction: str) -> None:
    best = -math.inf if direction == "minimize" else math.inf
    gathered = gathered_of([*OUTCOMES, best], direction=direction)
    text = told_of(gathered, learnt_of())
    assert f"Nothing improves on an outcome of {short(best)}." in text
    assert "to gain" not in text
    worst = gathered_of([*OUTCOMES, -best, -best, -best, -best], direction=direction)
    assert "still much to gain" in told_of(worst, learnt_of(expected_improvement=3.0))


def test_the_next_point_is_described() -> None:
    names = tuple(f"p{k}" for k in range(40))
    gathered = gathered_of(OUTCOMES)
    text = told_of(gathered, learnt_of(names))
    assert "It would go to p39 = 0.5, p38 = 0.5, " in text  # the most important first
    assert "p34 = 0.5 and 34 more next, and gives that point a chance of 60% to be good." in text
    assert "explores" not in text
    text = told_of(gathered, learnt_of(success=0.93, class_probability=0.1))
    assert "to x = 0.5 next, and gives that point a chance of 10% to be good, and one of 93% not to fail. That" in text
    assert "less than the 25% of all trials so far that are good" in text
    assert "explores" in text


def test_what_is_off_a_logarithmic_axis_is_not_drawn() -> None:
    gathered = gathered_of([1.0, 1e-2, 1e-4, 1e-6, 1e-8])
    hopes = [None, 0.5, 0.5, 1e-9, 1e-9]
    rows = tuple(
        replace(row, model=None if hope is None else model_of(expected_improvement=hope))
        for row, hope in zip(gathered.rows, hopes, strict=True)
    )
    page = progress(replace(gathered, rows=rows), None)
    (shape,) = re.findall(r'<path d="([^"]*)" class="area f3"', page)
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)", shape)]
    assert shape.count("M") == 2  # 1 - 0.5 is on the axis; 1e-2 - 0.5 is not, and there is a gap
    assert max(heights) < 950.0
    assert "left out where it lies off the axis" in page


def test_a_slice_that_goes_below_zero_stops_there() -> None:
    gathered = gathered_of([1.0, 1e-2, 1e-4, 1e-6, 1e-8])
    flat = np.full(4, 0.5)
    outcome = Band(np.array([1e-2, 1e-3, -1e-3, 1e-2]), np.array([1e-3, -1e-3, -1e-2, 1e-3]), np.array([0.1] * 4))
    each = Slice("x", [0.2, 0.4, 0.6, 0.8], Band(flat, flat, flat), outcome)
    page = slices(gathered, replace(learnt_of(), slices=(each,)), axes_of(gathered.space))
    (course,) = re.findall(r'<path d="([^"]*)" class="line c3 strong"', page)
    assert re.findall(r"[ML](\d+) ", course) == ["200", "400", "800"]
    assert course.count("M") == 2
    (band,) = re.findall(r'<path d="([^"]*)" class="area f3"', page)
    assert re.findall(r"[ML](\d+) ", band) == ["200", "200", "800", "800"]  # where both of its ends are on the axis


def test_words_that_one_may_not_know_are_explained_where_they_appear() -> None:
    gathered = gathered_of(OUTCOMES)
    known = {"length-scale": {"x": 2.0}, "warp offset": 0.1}
    rows = tuple(replace(row, model=model_of(scales=known)) for row in gathered.rows)
    page = evidence(replace(gathered, rows=rows))
    assert "The log evidence says" in page
    assert "A length-scale is" in page
    assert "The warp offset is" in page
    assert "output variance" not in page
    rows = tuple(replace(row, model=model_of(scales={"precision of x": 2.0})) for row in gathered.rows)
    assert "A large precision holds" in evidence(replace(gathered, rows=rows))


def test_shares_that_overlap_are_said_to() -> None:
    shares = (Share("x", 0.5, 0.8), Share("y", 0.1, 0.4))
    assert "they overlap and sum to more than 100%" in importance(replace(learnt_of(), shares=shares))
    assert "overlap" not in importance(replace(learnt_of(), shares=shares[:1]))


def test_lines_and_areas_have_gaps() -> None:
    gap = [(0.0, 0.5), (0.25, 0.5), (0.5, math.nan), (0.75, 0.5), (1.0, 0.5)]
    level = [(x, 0.25) for x, _ in gap]
    assert 'd="M0 500L250 500M750 500L1000 500"' in line(gap, "c1")
    assert 'd="M0 500L250 500L250 750L0 750ZM750 500L1000 500L1000 750L750 750Z"' in area(gap, level, "f1")
    assert area([], [], "f1") == ""


def test_the_latest_expectation_is_inside_its_chart() -> None:
    gathered = gathered_of(OUTCOMES)
    rows = tuple(replace(row, model=model_of()) for row in gathered.rows)
    page = progress(replace(gathered, rows=rows), learnt_of(expected_improvement=0.25))
    (shape, keys) = re.findall(r'<path d="([^"]*)" class="marks c3 small" data-keys="([^"]*)"', page)[0]
    assert keys.split()[-1] == "next"
    assert 900.0 < float(re.findall(r"M([\d.]+) ", shape)[-1]) < 990.0


def test_a_column_has_one_notation() -> None:
    gathered = gathered_of([1e-9, 0.5, 0.25, 2.0])
    learnt = replace(learnt_of(), expected={0: (-1.1e-5, -5.9e-5, 3.7e-5), 1: (0.5, 0.49, 0.51), 3: (2.0, 1.9, 2.1)})
    page = top(gathered, learnt)
    cells = re.findall(r"<td>([^<]*)</td>", page)[::4]
    assert cells == ["1.000×10⁻⁹", "2.500×10⁻¹", "5.000×10⁻¹", "2.000×10⁰"]
    expected = re.findall(r"<td>([^<]*)</td>", page)[1::4]
    assert expected == ["(−1.1 ± 4.8)×10⁻⁵", "–", "(5.00 ± 0.10)×10⁻¹", "(2.00 ± 0.10)×10⁰"]
    plain = top(gathered_of([0.001, 0.5]), None)
    assert re.findall(r"<td>([^<]*)</td>", plain)[::3] == ["0.001", "0.5"]


def test_a_parameter_may_be_called_like_a_column() -> None:
    study = optuna.create_study()
    study.add_trial(trial_of(0, {"outcome": 0.123456}, {"outcome": FloatDistribution(0, 1)}, 7.0, TrialState.COMPLETE))
    page = top(gather(snapshot(study)), None)
    assert re.findall(r'<span title="([^"]*)">', page)[:3] == ["trial", "outcome", "outcome"]
    assert '<td title="0.123456">0.123</td>' in page


def test_variance_shares_of_the_ishigami_function() -> None:
    """Its indices are known in closed form."""
    a, b, pi = 7.0, 0.1, math.pi

    def ishigami(units: Any) -> Any:
        x = pi * (2 * units - 1)
        return np.sin(x[:, 0]) + a * np.sin(x[:, 1]) ** 2 + b * x[:, 2] ** 4 * np.sin(x[:, 0])

    variance = a**2 / 8 + b * pi**4 / 5 + b**2 * pi**8 / 18 + 0.5
    first = np.array([0.5 * (1 + b * pi**4 / 5) ** 2, a**2 / 8, 0.0]) / variance
    both = 8 * b**2 * pi**8 / 225 / variance
    alone, total = variance_shares(ishigami, 3, 4096)
    np.testing.assert_allclose(alone, first, atol=0.02)
    np.testing.assert_allclose(total, first + np.array([both, 0.0, both]), atol=0.02)
    flat = variance_shares(lambda units: np.ones(len(units)), 2, 64)
    assert [column.tolist() for column in flat] == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("cut", [0.0, -0.4, 0.7])
def test_outlines_enclose_what_is_above_a_level(cut: float) -> None:
    """The area by Green's theorem is the share of a fine grid that is above; each corner lies on the level."""
    x, y = np.linspace(0, 1, 41), np.linspace(0, 1, 31) ** 1.5

    def surface(u: Any, v: Any) -> Any:
        return np.sin(7 * u) * np.cos(5 * v) + 0.4 * u

    loops = outlines(surface(x, y[:, None]), x, y, cut)
    area = sum(
        sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(loop, [*loop[1:], loop[0]], strict=True)) / 2 for loop in loops
    )
    fine = (np.arange(1000) + 0.5) / 1000
    assert abs(area) == pytest.approx(np.mean(surface(fine, fine[:, None]) >= cut), abs=0.004)
    inner = [p for loop in loops for p in loop if 0 < p[0] < 1 and 0 < p[1] < 1]
    np.testing.assert_allclose([surface(*p) for p in inner], cut, atol=0.02)


def test_outlines_of_a_saddle_everywhere_and_nowhere() -> None:
    ends = np.array([0.0, 1.0])
    assert len(outlines(np.array([[1.0, -1.2], [-1.2, 1.0]]), ends, ends, 0.0)) == 2  # two corners
    assert len(outlines(np.array([[1.2, -1.0], [-1.0, 1.2]]), ends, ends, 0.0)) == 1  # one band
    assert outlines(np.zeros((2, 2)), ends, ends, 1.0) == []
    ((*corners,),) = outlines(np.zeros((2, 2)), ends, ends, 0.0)
    assert {*corners} == {(0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 1.0)}


def test_wilson_intervals() -> None:
    from scipy.stats import binomtest

    for successes, size in [(0, 5), (3, 8), (40, 40), (17, 90)]:
        expected = binomtest(successes, size).proportion_ci(0.9, method="wilson")
        np.testing.assert_allclose(wilson(successes, size), expected, atol=1e-4)


# ------------------------------------------------------------------------------------------------ numbers and markup


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (-2.5, "−2.5"),
        (1000.0, "1000"),
        (1e-5, "10⁻⁵"),
        (-1.25e-7, "−1.25×10⁻⁷"),
        (0.123456, "0.1235"),
        (math.inf, "∞"),
        (math.nan, "nan"),
        ("x" * 99, "x" * 59 + "…"),
    ],
)
def test_short_texts(value: Any, text: str) -> None:
    assert short(value) == text


def test_other_texts() -> None:
    assert [percent(share) for share in (0.0, 0.001, 0.5, 0.999, 1.0)] == [
        "0%",
        "<\N{NO-BREAK SPACE}1%",
        "50%",
        ">\N{NO-BREAK SPACE}99%",
        "100%",
    ]
    assert apart([0.08, 0.0800024, 0.0800025]) == ["0.08", "0.080002", "0.080003"]
    assert apart([2.0, 2.0]) == ["2", "2"]
    assert give_or_take(0.0800041, 0.0000123) == "0.080004 ± 0.000012"
    texts = ["0.4 ms", "999 ms", "1 s", "119 s", "2 min", "2.5 h", "3 days"]
    assert [duration(seconds) for seconds in (4e-4, 0.999, 1.0, 119.0, 120.0, 9e3, 259_200.0)] == texts
    assert give_or_take(-1e-9, 0.5) == "0.00 ± 0.50"
    assert give_or_take(-1.1e-5, 4.8e-5, powered=True) == "(−1.1 ± 4.8)×10⁻⁵"
    assert give_or_take(0.0, 0.0, powered=True) == "0 ± 0"
    assert column([5.658e-10, 0.155, 0.0]) == ["5.658×10⁻¹⁰", "1.550×10⁻¹", "0"]
    assert column([0.155, 1, "a", None, math.inf]) == ["0.155", "1", "a", "None", "∞"]
    assert [Scale(1.0, 2.0).on(value) for value in (1.0, 1.5, 2.0)] == [0.0, 0.5, 1.0]
    assert Scale(0.0, 1.0).on(1.0 + 1e-15) == 1.0
    assert all(math.isnan(Scale(1.0, 2.0).on(value)) for value in (0.9, 2.1, math.nan))


@pytest.mark.parametrize(
    "scale",
    [
        Scale(0.0, 1.0),
        Scale(-3.2, 17.5),
        Scale(1e-5, 1e-1, log=True),
        Scale(3.0, 4.0, log=True),
        Scale(1e-300, 1e300, log=True),
        Scale(-1.5e308, 1.5e308),
        Scale(1.0, 1.0 + 1e-9),
    ],
)
@pytest.mark.parametrize("most", [3, 6])
def test_ticks_are_round_distinct_and_in_place(scale: Scale, most: int) -> None:
    ticks = scale.ticks(most)
    places, labels = [place for place, _ in ticks], [label for _, label in ticks]
    assert 2 <= len(ticks) <= most + 1
    assert places == sorted(places)
    assert 0.0 <= places[0] <= places[-1] <= 1.0
    assert len(set(labels)) == len(labels)


def test_only_what_is_minimised_gets_a_logarithmic_axis() -> None:
    """Its good end is where the decades are."""
    values = [1e-3 * 10 ** (k / 4) for k in range(16)]
    assert robust(values, 1.0).log
    assert not robust(values, -1.0).log


def test_outliers_on_the_bad_side_do_not_squeeze_the_others() -> None:
    good = [-1.0 + 0.1 * k for k in range(20)]
    assert robust([*good, 1e9], 1.0).high < 10.0
    assert robust([-each for each in [*good, 1e9]], -1.0).low > -10.0
    assert robust([*good, -50.0], 1.0).low < -50.0  # on the good side they are what one looks for


def test_axes_place_values_where_the_encoding_does() -> None:
    log = Axis.of("x", FloatDistribution(1e-4, 1.0, log=True))
    assert log.place({"x": 1e-2}) == pytest.approx(0.5)
    assert log.place({"x": 2.0}) is None
    assert log.place({}) is None
    values = log.values(5, 1e-2)
    assert values == sorted(values)
    assert any(math.isclose(value, 1e-2) for value in values)
    few = Axis.of("n", IntDistribution(1, 4))
    assert few.levels == (1, 2, 3, 4)
    assert few.place({"n": 2}) == 0.375
    kinds = Axis.of("k", CategoricalDistribution(["b", None, EVIL]))
    assert kinds.ticks() == [(1 / 6, "b"), (0.5, "None"), (5 / 6, EVIL)]
    many = Axis.of("m", CategoricalDistribution([str(k) for k in range(50)]))
    assert len(many.ticks()) <= 12


def test_markup_escapes_what_is_not_markup() -> None:
    assert tag("p", EVIL, tag("b", "&"), None, title=EVIL, hidden=True, id=None) == (
        '<p title="&lt;script&gt;window.caught=1&lt;/script&gt;&lt;/style&gt;&#x27;&quot;&amp;" hidden>'
        "&lt;script&gt;window.caught=1&lt;/script&gt;&lt;/style&gt;&#x27;&quot;&amp;<b>&amp;</b></p>"
    )
    assert isinstance(tag("p"), Markup)
    text = embedded({EVIL: "</script>\u2028"})
    assert "<" not in text
    assert json.loads(text) == {EVIL: "</script>\u2028"}
