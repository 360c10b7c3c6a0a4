"""The report tells what the study and the model say, of every kind of study, and nothing in a study can become code."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

import boggn
from boggn.belief import Band
from boggn.errors import ConfigurationError, StudyError
from boggn.explain import Model
from boggn.prequential import Prequential
from boggn.report.axes import Axis, axes_of
from boggn.report.charts import best_so_far, evidence, progress, wilson
from boggn.report.contours import outlines
from boggn.report.gathered import Gathered, gather, improvement, snapshot
from boggn.report.landscape import importance, slices
from boggn.report.learnt import Learnt, Share, Slice, learn, relative, variance_shares
from boggn.report.markup import Markup, embedded, tag
from boggn.report.numbers import Scale, apart, column, duration, give_or_take, percent, robust, short
from boggn.report.page import html
from boggn.report.plot import area, line
from boggn.report.table import top
from boggn.report.words import summary

EVIL = "<script>window.caught=1</script></style>'\"&"
VOID = {"meta", "br"}
SECTIONS = 11


class Reader(HTMLParser):
    """Elements with their attributes; fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts.append(data)
        elif self.open[-1:] != ["style"]:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def checked(study: optuna.Study) -> Reader:
    """The report's elements, after what must hold of every report."""
    before = study.get_trials()
    text = html(study)
    assert study.get_trials() == before
    assert len(text) < 3_000_000
    read = Reader(text)
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for name, attributes in read.elements if name == "a"]
    assert all(link is not None and link.startswith("#") and link[1:] in ids for link in links)
    assert sum(name == "section" for name, _ in read.elements) == (SECTIONS if before else 1)
    for name, attributes in read.elements:
        assert not any(each.startswith("on") or each in {"src", "srcset"} for each in attributes)
        assert name != "svg" or attributes["aria-label"]
        for drawn in (attributes.get("d"), attributes.get("style")):
            assert not re.search(r"nan|inf", drawn or "")
    tips, script = read.scripts
    assert json.loads(tips).keys() >= {str(trial.number) for trial in before}
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for n, a in read.elements if n == "meta" and "http-equiv" in a)
    assert policy is not None
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    return read


def trial_of(
    number: int, params: dict[str, Any], space: dict[str, Any], value: float | None, state: TrialState
) -> FrozenTrial:
    trial = create_trial(params=params, distributions=space, value=value, state=state)
    trial.datetime_start = datetime(2026, 1, 1) + timedelta(seconds=10 * number)  # noqa: DTZ001  Optuna's are naive
    if state.is_finished():
        trial.datetime_complete = trial.datetime_start + timedelta(seconds=15)
    return trial


def gathered_of(values: list[float | None], **options: Any) -> Gathered:
    return gather(snapshot(study_of(values, **options)))


def model_of(**known: Any) -> Model:
    """What a record would say of a suggestion."""
    told: dict[str, Any] = {
        "name": "wide",
        "observations": 9,
        "running": 0,
        "gamma": 0.25,
        "threshold": 1.0,
        "better": "<=",
        "log_evidence": -3.0,
        "scales": {},
        "class_probability": 0.6,
        "ratio": 2.4,
        "expected_improvement": 0.5,
        "success": None,
        "acquisition": 0.0,
        "fit_seconds": 0.0,
        "maximise_seconds": 0.0,
    }
    return Model(**(told | known))


def learnt_of(names: tuple[str, ...] = ("x",), **known: Any) -> Learnt:
    """What a model would say of a study, but for its charts."""
    return Learnt(
        params=names,
        gamma=0.25,
        threshold=1.0,
        log_evidence=-3.0,
        anchor=0,
        shares=tuple(Share(name, 0.1, 0.1) for name in reversed(names)),
        slices=(),
        planes=(),
        expected={},
        next_params=dict.fromkeys(names, 0.5),
        next_model=model_of(**known),
    )


def told_of(gathered: Gathered, learnt: Learnt) -> str:
    return " ".join(summary(gathered, learnt, Prequential(()), {}))


def study_of(values: list[float | None], **options: Any) -> optuna.Study:
    """One parameter; None is a failed trial."""
    rng = np.random.default_rng(0)
    study = optuna.create_study(**options)
    for number, value in enumerate(values):
        state = TrialState.FAIL if value is None else TrialState.COMPLETE
        params = {"x": float(rng.random())}
        study.add_trial(trial_of(number, params, {"x": FloatDistribution(0, 1)}, value, state))
    return study


@pytest.fixture(scope="module")
def study() -> optuna.Study:
    """Driven by boggn, maximised, with a failure, a running and an enqueued trial."""
    study = optuna.create_study(
        direction="maximize", study_name="mine", sampler=boggn.BOGGNSampler(seed=0, warn_independent_sampling=False)
    )

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", -1.0, 1.0)
        n = trial.suggest_int("n", 1, 5)
        return math.nan if trial.number == 3 else -((x - 0.3) ** 2) - 0.1 * abs(n - 2)

    study.optimize(objective, n_trials=16)
    study.ask().suggest_float("x", -1.0, 1.0)
    study.enqueue_trial({"x": 0.0, "n": 1})
    return study


# ------------------------------------------------------------------------------------------------- kinds of studies


def nothing_in_common() -> optuna.Study:
    study = optuna.create_study()
    for number in range(12):
        name = "ab"[number % 2]
        study.add_trial(
            trial_of(number, {name: 0.05 * number}, {name: FloatDistribution(0, 1)}, 1.0 * number, TrialState.COMPLETE)
        )
    return study


def only_running() -> optuna.Study:
    study = optuna.create_study()
    study.ask().suggest_float("x", 0, 1)
    return study


def without_parameters() -> optuna.Study:
    study = optuna.create_study()
    for number in range(8):
        study.add_trial(trial_of(number, {}, {}, 1.0 * number, TrialState.COMPLETE))
    return study


def failing() -> optuna.Study:
    """Two outcomes; five failures for one reason, two of which were tried again, and three for others."""
    study = optuna.create_study()
    reasons = [f"exit status\n1  {EVIL}"] * 5 + ["w" * 99, "no\x00end", None]
    for number, reason in enumerate([*reasons, "fine", "fine"]):
        state = TrialState.COMPLETE if reason == "fine" else TrialState.FAIL
        value = 1.0 * number if reason == "fine" else None
        trial = trial_of(number, {"x": 0.1 * number}, UNIT, value, state)
        trial.user_attrs = {} if reason is None else {"failure": reason}
        trial.system_attrs = {"retry_history": [0, 1]} if number == 2 else {}
        study.add_trial(trial)
    return study


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (optuna.create_study, "The study has no trials yet."),
        (lambda: study_of([1.5]), "The smallest outcome is 1.5, of trial 0; it is the latest."),
        (lambda: study_of([1.5, 1.0]), "2 outcomes are too few to learn from"),
        (
            lambda: study_of([None] * 4),
            "4 trials within 45 s: 4 failed. Every trial failed. No trial has an outcome yet.",
        ),
        (lambda: study_of([1.0] * 12), "no model of this study yet: all outcomes are equal."),
        (lambda: study_of([math.inf] * 12), "no model of this study yet"),
        (only_running, "The study has 1 trial: 1 running."),
        (nothing_in_common, "the finished trials have no parameter in common"),
        (without_parameters, "No parameter took more than one value."),
        (failing, f"The 8 failures are 80% of all trials, 5 of them with “exit status 1 {EVIL}”; 2 were tried again."),
    ],
)
def test_studies_without_a_model_are_told_of(made: Any, says: str) -> None:
    assert says in checked(made()).text


def test_several_objectives_are_refused(tmp_path: Path) -> None:
    study = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(StudyError, match="one objective, but this study has 2"):
        boggn.report(study, tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_a_page_needs_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent" / "report.html"):
        with pytest.raises(ConfigurationError, match="a file in a folder that exists"):
            boggn.report(study_of([1.0]), path)


def test_a_study_without_trials_is_one_sentence() -> None:
    read = checked(optuna.create_study())
    assert [attributes["id"] for name, attributes in read.elements if name == "section"] == ["learnt"]
    assert "model" not in read.text


def test_why_trials_failed_is_told() -> None:
    read = checked(failing())
    listed = " ".join(read.text.partition("Why trials failed ")[2].split())
    parts = [f"5 × exit status 1 {EVIL} (2 tried again)", f"1 × {'w' * 59}…", "1 × no\x00end"]
    for part, following in pairwise([*parts, "1 × for a reason that was not recorded"]):
        assert 0 <= listed.index(part) < listed.index(following)
    tips = json.loads(read.scripts[0])
    assert tips["0"] == f"Trial 0, failed and tried again\nexit status 1 {EVIL}\nx = 0"
    assert tips["2"].startswith("Trial 2, failed\nexit")
    assert tips["7"].startswith("Trial 7, failed\nfor a reason")
    assert tips["8"] == "Trial 8, complete\noutcome 8\nx = 0.8"


def test_at_most_five_reasons_are_listed() -> None:
    study = optuna.create_study()
    for number in range(8):
        trial = trial_of(number, {}, {}, None, TrialState.FAIL)
        trial.user_attrs = {"failure": f"reason {min(number, 6)}."}
        study.add_trial(trial)
    listed = " ".join(checked(study).text.partition("Why trials failed ")[2].split())
    assert listed.startswith("2 × reason 6. 1 × reason 0.")
    assert "reason 3." in listed
    assert "reason 4." not in listed
    assert "and 2 other reasons" in listed


@pytest.mark.slow
def test_a_study_of_boggn_shows_everything(study: optuna.Study, tmp_path: Path) -> None:
    read = checked(study)
    assert "18 trials" in read.text
    assert "15 complete, 1 failed, 1 running, 1 waiting" in read.text
    assert not any(attributes.get("class") == "why" for _, attributes in read.elements)
    assert f"The largest outcome is {short(study.best_value)}, of trial {study.best_trial.number}" in read.text
    path = boggn.report(study, tmp_path / "report.html")
    assert path.read_text(encoding="utf-8") == html(study)  # the same study, the same page


UNIT = {"x": FloatDistribution(0, 1)}
SPACES: dict[str, dict[str, Any]] = {
    "conditional": UNIT,
    "categorical": {"a": CategoricalDistribution([None, True, "<b>"]), "b": CategoricalDistribution([1, 2.5])},
    "constant": UNIT | {"same": FloatDistribution(2, 2), "only": CategoricalDistribution(["one"])},
    "extreme": UNIT | {"l": FloatDistribution(1e-300, 1e300, log=True), "w": FloatDistribution(-1.5e308, 1.5e308)},
    "one threshold": UNIT,
    "hostile": {EVIL: CategoricalDistribution([EVIL, "plain"]), "y" * 300: FloatDistribution(0, 1)},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("conditional", "absent"),
        ("categorical", "<b>"),
        ("constant", "Only one value was tried of only and same."),
        ("extreme", "The smallest outcome is"),
        ("one threshold", "It would go to"),
        ("hostile", EVIL),
    ],
)
def test_other_kinds_of_studies(kind: str, says: str) -> None:
    rng = np.random.default_rng(1)
    options = {"thresholds": "one", "link": "logit", "epsilon": 0.0} if kind == "one threshold" else {}
    study = optuna.create_study(sampler=boggn.BOGGNSampler(seed=0, **options), study_name=f"{kind} {EVIL}")
    for number in range(24):
        space = SPACES[kind] | ({"ab"[number % 2]: FloatDistribution(0, 1)} if kind == "conditional" else {})
        params = {name: drawn(d, rng) for name, d in space.items()}
        value = float(10.0 ** rng.uniform(-300, 300)) if kind == "extreme" else float(rng.random())
        study.add_trial(trial_of(number, params, space, value, TrialState.COMPLETE))
    read = checked(study)
    assert "The study has 24 trials" in read.text
    assert says in read.text
    assert ("ne more trial is expected to improve" in read.text) == (kind != "one threshold")


def drawn(distribution: Any, rng: np.random.Generator) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[rng.integers(len(distribution.choices))]
    if distribution.log:
        return float(np.exp(rng.uniform(np.log(distribution.low), np.log(distribution.high))))
    share = float(rng.random())
    return distribution.low * (1 - share) + distribution.high * share


@pytest.mark.slow
def test_two_thousand_trials_are_a_page_of_moderate_size() -> None:
    rng = np.random.default_rng(2)
    space = {f"x{j}": FloatDistribution(0, 1) for j in range(10)}
    study = optuna.create_study()
    for number in range(2000):
        params = {name: float(rng.random()) for name in space}
        state = TrialState.FAIL if number % 20 == 7 else TrialState.COMPLETE
        value = sum(params.values()) if state == TrialState.COMPLETE else None
        study.add_trial(trial_of(number, params, space, value, state))
    assert "2000" in checked(study).text


# --------------------------------------------------------------------------------------------- what is said is true


def test_thresholds_and_labels_are_those_of_the_time() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0]
    rows = gather(snapshot(study_of([*values]))).rows
    for number, row in enumerate(rows):
        before = sorted(values[:number])
        expected = before[math.ceil(number / 3) - 1] if before else None
        assert row.threshold == expected
        assert row.good == (None if expected is None else values[number] <= expected)


def test_the_best_so_far_is_the_running_extreme() -> None:
    values = [0.3, 0.5, 0.1, 0.4, 0.05, 0.9]
    down = best_so_far(gather(snapshot(study_of([*values]))))
    up = best_so_far(gather(snapshot(study_of([*values], direction="maximize"))))
    assert down == [(0, 0.3), (2, 0.1), (4, 0.05)]
    assert up == [(0, 0.3), (1, 0.5), (5, 0.9)]


def test_the_snapshot_keeps_every_trial_and_says_nothing(study: optuna.Study, caplog: pytest.LogCaptureFixture) -> None:
    optuna.logging.enable_propagation()
    try:
        taken = snapshot(study)
    finally:
        optuna.logging.disable_propagation()
    assert caplog.records == []
    gathered = gather(taken)
    assert [gathered.count(s) for s in ("complete", "failed", "running", "waiting", "pruned")] == [15, 1, 1, 1, 0]
    assert [row.params for row in gathered.rows[:16]] == [trial.params for trial in study.trials[:16]]
    assert gathered.rows[16].params.keys() == {"x", "n"}  # a running trial's record has what it was not asked for yet


@pytest.mark.slow
def test_slices_planes_and_the_next_point_are_what_the_belief_says(study: optuna.Study) -> None:
    taken = snapshot(study)
    gathered = gather(taken)
    axes = axes_of(gathered.space)
    learnt = learn(taken.study, axes, [row.number for row in gathered.best_first])
    assert isinstance(learnt, Learnt)
    believed = boggn.belief(study)
    assert learnt.anchor == boggn.recommend(study).number
    centre = study.trials[learnt.anchor].params
    for each in learnt.slices:
        points = [centre | {each.name: value} for value in each.values]
        np.testing.assert_allclose(each.class_probability.mean, believed.class_probability(points).mean)
        assert each.outcome is not None
        np.testing.assert_allclose(each.outcome.low, believed.outcome(points).low)
        assert any(math.isclose(value, centre[each.name], rel_tol=1e-9) for value in each.values)
    assert learnt.next_params is not None
    (plane,) = learnt.planes
    i, j = 1, len(plane.x_values) - 2
    point = learnt.next_params | {plane.x: plane.x_values[j], plane.y: plane.y_values[i]}
    there, best = believed.acquisition([point, learnt.next_params])
    np.testing.assert_allclose(plane.worth[i, j], np.exp(there - best))
    at = np.unravel_index(np.argmax(plane.worth), plane.worth.shape)
    assert plane.worth.max() == pytest.approx(1.0, abs=0.01)  # the plane passes through the point, its best
    assert plane.x_values[at[1]] == pytest.approx(learnt.next_params[plane.x], abs=0.05)
    assert improvement(learnt.next_model) == pytest.approx(believed.expected_improvement([learnt.next_params])[0])


def test_what_a_point_is_worth_is_a_share_of_the_first() -> None:
    logs = np.array([-2.0, -3.0, -np.inf, -1.99])
    np.testing.assert_allclose(relative(logs, logarithmic=True), [1.0, np.exp(-1.0), 0.0, np.exp(0.01)])
    np.testing.assert_allclose(relative(np.array([3.0, -1.0, 1.0, -np.inf]), logarithmic=False), [1.0, 0.0, 0.5, 0.0])
    for logarithmic in (True, False):
        assert relative(np.full(3, 7.0), logarithmic=logarithmic).tolist() == [1.0, 1.0, 1.0]
        assert relative(np.full(3, -np.inf), logarithmic=logarithmic).tolist() == [1.0, 1.0, 1.0]


OUTCOMES: list[float | None] = [float(k) for k in range(12)]


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


def test_an_enqueued_repetition_is_no_failure_of_its_point() -> None:
    """A retry waits with its parameters; in the copy, which the sampler is asked with, it tells of no point."""
    study = study_of([1.0, 2.0, None])
    again = trial_of(3, {"x": 0.5}, UNIT, None, TrialState.WAITING)
    again.system_attrs = {"retry_history": [2]}
    study.add_trial(again)
    taken = snapshot(study)
    assert taken.study.trials[3].params == {}
    assert study.trials[3].params == {"x": 0.5}
    *_, lost, waiting = gather(taken).rows
    assert (lost.state, lost.again) == ("failed", True)
    assert (waiting.state, waiting.again, waiting.params) == ("waiting", False, {"x": 0.5})


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


# ----------------------------------------------------------------------------------------------------- command line


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "boggn", "report", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_command_writes_a_page(tmp_path: Path) -> None:
    study = study_of([1.0, 2.0], storage=f"sqlite:///{tmp_path}/study.db", study_name="mine")
    done = run("study.db", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "report.html\n", "")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html(study)
    done = run("absent.db", folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "There is no file 'absent.db'" in done.stderr
    assert not (tmp_path / "absent.db").exists()


@pytest.mark.slow
@pytest.mark.parametrize("acquisition", ["pi", "ei"])
def test_a_classifier_in_the_networks_place_is_shown_as_far_as_it_knows(acquisition: str) -> None:
    from sklearn.linear_model import LogisticRegression

    sampler = boggn.BOGGNSampler(seed=0, classifier=LogisticRegression(), acquisition=acquisition, n_startup_trials=6)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2, n_trials=12)
    page = html(study)
    assert "Top trials" in page
    assert "A classifier in the network" in page  # and what it does not know
