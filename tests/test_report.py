"""The report tells what the study and the model say, of every kind of study, and nothing in a study can become code."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState

import boggn
from boggn.errors import ConfigurationError, StudyError
from boggn.report.axes import axes_of
from boggn.report.charts import best_so_far
from boggn.report.gathered import gather, improvement, snapshot
from boggn.report.learnt import Learnt, learn
from boggn.report.numbers import short
from boggn.report.page import html
from reported import EVIL, UNIT, study_of, trial_of

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
    one = {"thresholds": "one", "link": "logit", "epsilon": 0.0, "acquisition": "pi"}
    options = one if kind == "one threshold" else {}
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
