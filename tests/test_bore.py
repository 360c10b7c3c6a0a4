r"""Other classifiers in the network's place: what they are told, what is made of their answers, and when they fail."""

from __future__ import annotations

import logging
import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.samplers import RandomSampler
from optuna.study import Study
from optuna.trial import Trial, TrialState
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import boggn
from boggn import BOGGNSampler, belief, explain, prequential, recommend
from boggn.bench import methods, tasks
from boggn.errors import ClassifierError, ConfigurationError, StudyError
from boggn.record import read

N_STARTUP = 4
N_TRIALS = 12
KINDS = ("a", "b", "c")
SPACE: dict[str, BaseDistribution] = {
    "x": FloatDistribution(-5.0, 10.0),
    "kind": CategoricalDistribution(KINDS),
}
LOGISTIC = LogisticRegression()
FOREST = RandomForestClassifier(10)


def mixed(trial: Trial) -> float:
    x, rate = trial.suggest_float("x", -5.0, 10.0), trial.suggest_float("rate", 1e-4, 1.0, log=True)
    kind = trial.suggest_categorical("kind", KINDS)
    return (x - 2.0) ** 2 + abs(trial.suggest_int("n", 1, 9) - 3) + math.log10(rate) ** 2 + 3.0 * (kind == "b")


def bowl(trial: Trial) -> float:
    return (trial.suggest_float("x", -5.0, 10.0) - 2.0) ** 2 + (trial.suggest_float("y", 0.0, 15.0) - 3.0) ** 2


def simple(trial: Trial) -> float:
    return (trial.suggest_float("x", -5.0, 10.0) - 2.0) ** 2 + 3.0 * (trial.suggest_categorical("kind", KINDS) == "b")


def make(classifier: Any = LOGISTIC, seed: int = 0, **options: Any) -> BOGGNSampler:
    settings = {"n_startup_trials": N_STARTUP, "epsilon": 0.0} | options
    return BOGGNSampler(seed=seed, classifier=classifier, **settings)


def run(
    sampler: optuna.samplers.BaseSampler, objective: Any = simple, n_trials: int = N_TRIALS, sign: int = 1
) -> Study:
    study = optuna.create_study(sampler=sampler, direction="minimize" if sign > 0 else "maximize")
    study.optimize(lambda trial: sign * objective(trial), n_trials=n_trials)
    return study


def points(study: Study) -> list[dict[str, Any]]:
    return [trial.params for trial in study.trials]


def record(study: Study, number: int = -1) -> dict[str, Any]:
    stored = read(study.trials[number])
    assert stored is not None
    return dict(stored["record"])


def encoded(params: list[dict[str, Any]]) -> np.ndarray:
    r"""By hand: numbers to [-1, 1], categories one-hot times sqrt 2, parameters by name."""
    return np.array([[*(math.sqrt(2) * (p["kind"] == k) for k in KINDS), 2 * (p["x"] + 5) / 15 - 1] for p in params])


def good(values: list[float], gamma: float = 1 / 3) -> tuple[np.ndarray, float]:
    tau = sorted(values)[math.ceil(gamma * len(values)) - 1]
    return np.array([value <= tau for value in values]).astype(int), tau


# ------------------------------------------------------------------------------------------------------ what it runs
@pytest.mark.slow
@pytest.mark.parametrize("acquisition", ["pi", "ei"])
@pytest.mark.parametrize("classifier", ["mlp", "forest", "xgboost", "svm"])
def test_each_preset_finishes_a_mixed_study(classifier: str, acquisition: str) -> None:
    study = run(make(classifier, acquisition=acquisition), mixed, N_STARTUP + 4)
    for number in range(N_STARTUP, N_STARTUP + 4):
        explanation = explain(study, number)
        assert explanation.model is not None
        assert explanation.model.name.startswith(f"{classifier} classifier, one threshold")
    assert belief(study).ranking()
    assert recommend(study).value is not None


@pytest.mark.parametrize(
    "classifier", [FOREST, GaussianNB(), KNeighborsClassifier(3)], ids=lambda made: type(made).__name__
)
def test_whatever_gives_probabilities_is_taken(classifier: Any) -> None:
    study = run(make(classifier, acquisition="pi"), mixed)
    assert record(study)["model"] == f"{type(classifier).__name__} classifier, one threshold"


# ------------------------------------------------------------------------------------------------------------- labels
@pytest.mark.parametrize("sign", [1, -1])
def test_bore_maximises_the_probability_of_a_classifier_fitted_by_hand(sign: int) -> None:
    study = run(make(acquisition="pi"), sign=sign)
    last, before = study.trials[-1], study.trials[:-1]
    z, tau = good([sign * trial.value for trial in before])
    by_hand = LogisticRegression().fit(encoded([trial.params for trial in before]), z)
    pi = by_hand.predict_proba(encoded([last.params]))[0, 1]
    assert record(study)["acquisition"] == pytest.approx(pi, rel=1e-9)
    assert record(study)["pi"] == pytest.approx(pi, rel=1e-9)
    assert record(study)["ratio"] == pytest.approx(3.0 * pi, rel=1e-9)
    assert record(study)["threshold"] == sign * tau
    grid = [{"x": float(x), "kind": kind} for x in np.linspace(-5, 10, 61) for kind in KINDS]
    assert pi >= by_hand.predict_proba(encoded(grid))[:, 1].max() - 0.01  # of 2000 random candidates
    believed = belief(study, trials=N_TRIALS - 1)
    asked = believed.class_probability(grid)
    np.testing.assert_allclose(asked.mean, by_hand.predict_proba(encoded(grid))[:, 1], rtol=1e-9)
    assert np.isnan([asked.low, asked.high]).all()


def test_lfbo_weighs_positives_by_their_improvement() -> None:
    study = run(make(acquisition="ei"))
    last, before = study.trials[-1], study.trials[:-1]
    values = np.array([trial.value for trial in before])
    _, tau = good(values.tolist())
    better = values < tau
    improvement = tau - values[better]
    rows = encoded([trial.params for trial in before])
    by_hand = LogisticRegression().fit(
        np.vstack([rows, rows[better]]),
        np.repeat([0, 1], [len(rows), better.sum()]),
        sample_weight=np.concatenate([np.ones(len(rows)), improvement / improvement.mean()]),
    )
    assert record(study)["acquisition"] == pytest.approx(by_hand.predict_proba(encoded([last.params]))[0, 1], rel=1e-6)
    assert "pi" not in record(study)


def tabular(acquisition: str) -> tuple[Study, Any]:
    r"""A study of one category, in which logistic regression without a penalty can say anything of each of them."""
    study = optuna.create_study(sampler=make(LogisticRegression(C=1e8, tol=1e-9), acquisition=acquisition))
    rng = np.random.default_rng(0)
    space = {"kind": SPACE["kind"]}
    for _ in range(60):
        kind = str(rng.choice(KINDS))
        trial = optuna.create_trial(params={"kind": kind}, distributions=space, value=rng.normal() + KINDS.index(kind))
        study.add_trial(trial)
    return study, [{"kind": kind} for kind in KINDS]


def test_expected_improvement_is_that_of_the_outcomes_themselves() -> None:
    study, asked = tabular("ei")
    _, tau = good([trial.value for trial in study.trials])
    expected = [np.mean([max(tau - t.value, 0.0) for t in study.trials if t.params == point]) for point in asked]
    np.testing.assert_allclose(belief(study).expected_improvement(asked), expected, rtol=1e-3, atol=1e-6)
    study.ask({"kind": SPACE["kind"]})
    assert record(study)["ei"] == pytest.approx(max(expected), rel=1e-3)


def test_class_probability_is_the_frequency_of_good_outcomes() -> None:
    study, asked = tabular("pi")
    _, tau = good([trial.value for trial in study.trials])
    expected = [np.mean([t.value <= tau for t in study.trials if t.params == point]) for point in asked]
    np.testing.assert_allclose(belief(study).class_probability(asked).mean, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("acquisition", ["pi", "ei"])
def test_running_trials_count_as_not_good(acquisition: str) -> None:
    study = run(make(acquisition=acquisition))
    there = {"x": 2.0, "kind": "a"}
    before = belief(study).acquisition([there])[0]
    for _ in range(3):
        study.enqueue_trial(there)
        study.ask(SPACE)
    assert belief(study).acquisition([there])[0] < before
    study.ask(SPACE)
    assert record(study)["running"] == 3
    if acquisition == "pi":
        z, _ = good([trial.value for trial in study.trials[:N_TRIALS]])
        rows = encoded([trial.params for trial in study.trials[: N_TRIALS + 3]])
        by_hand = LogisticRegression().fit(rows, [*z, 0, 0, 0])
        assert record(study)["pi"] == pytest.approx(
            by_hand.predict_proba(encoded([study.trials[-1].params]))[0, 1], rel=1e-9
        )


def test_asks_that_see_each_other_spread_out_more() -> None:
    space: dict[str, BaseDistribution] = {"x": FloatDistribution(-5.0, 10.0), "y": FloatDistribution(0.0, 15.0)}

    def distances(seed: int, *, seen: bool) -> np.ndarray:
        study = run(make(KNeighborsClassifier(3), seed, acquisition="pi"), bowl)
        asked = []
        for _ in range(8):
            trial = study.ask(space)
            asked.append([(trial.params["x"] + 5.0) / 15.0, trial.params["y"] / 15.0])
            if not seen:
                study.tell(trial, state=TrialState.PRUNED)  # without a value on the way it tells nothing
        cube = np.array(asked)
        return np.linalg.norm(cube[:, None] - cube, axis=2)[np.triu_indices(8, 1)]

    seen, unseen = (np.array([distances(seed, seen=seen) for seed in range(5)]) for seen in (True, False))
    assert seen.min() > 0.0
    assert np.median(seen) > 1.2 * np.median(unseen)


# ------------------------------------------------------------------------------------------------------ reproducible
@pytest.mark.parametrize("classifier", [FOREST, make_pipeline(StandardScaler(), FOREST)], ids=["forest", "pipeline"])
def test_the_seed_decides_the_study(classifier: Any) -> None:
    options = {"classifier": classifier, "acquisition": "pi"}
    study = run(make(seed=1, **options), mixed)
    assert points(study) == points(run(make(seed=1, **options), mixed))
    assert points(study) != points(run(make(seed=2, **options), mixed))
    copy = optuna.create_study(sampler=pickle.loads(pickle.dumps(study.sampler)))  # noqa: S301  our own bytes
    copy.add_trials(study.trials)
    assert copy.ask().relative_params == study.ask().relative_params


def test_maximising_is_minimising_the_negative() -> None:
    assert points(run(make(FOREST), mixed, sign=-1)) == points(run(make(FOREST), mixed))


def test_the_classifier_given_is_left_alone() -> None:
    given = LogisticRegression()
    run(make(given))
    assert not hasattr(given, "coef_")


# -------------------------------------------------------------------------------------------------------------- regret
@pytest.mark.slow
@pytest.mark.parametrize("acquisition", ["pi", "ei"])
def test_it_is_better_than_random(acquisition: str) -> None:
    samplers = [BOGGNSampler(seed=seed, classifier="svm", acquisition=acquisition) for seed in range(10)]
    ours = [run(sampler, bowl, 30).best_value for sampler in samplers]
    random = [run(RandomSampler(seed=seed), bowl, 30).best_value for seed in range(10)]
    assert np.median(ours) < 0.3 * np.median(random)


# ------------------------------------------------------------------------------------------------- belief and records
def test_the_record_reads_well() -> None:
    text = str(explain(run(make(acquisition="pi")), N_TRIALS - 1))
    assert "model: LogisticRegression classifier, one threshold; 11 outcomes\n" in text
    assert "P(outcome <= " in text
    assert "times the 33% of the trials so far" in text
    assert "improvement" not in text
    text = str(explain(run(make(acquisition="ei"), sign=-1), N_TRIALS - 1))
    assert "labels weighted by improvement; 11 outcomes\n" in text
    assert "weighted class probability, outcome >= -" in text
    assert "expected improvement on the threshold: " in text
    assert "scales" not in text
    assert " ms to fit and " in text


def test_what_a_classifier_does_not_know_is_refused() -> None:
    asked = [{"x": 0.0, "kind": "a"}]
    bore, lfbo = (belief(run(make(acquisition=acquisition))) for acquisition in ("pi", "ei"))
    for believed in (bore, lfbo):
        with pytest.raises(StudyError, match="knows no evidence"):
            _ = believed.log_evidence
        with pytest.raises(StudyError, match="knows no outcomes"):
            believed.outcome(asked)
        assert believed.acquisition([]).shape == (0,)
    with pytest.raises(StudyError, match="acquisition='ei'"):
        bore.expected_improvement(asked)
    with pytest.raises(StudyError, match="acquisition='pi'"):
        lfbo.ratio(asked)
    np.testing.assert_allclose(bore.ratio(asked).mean, 3.0 * bore.class_probability(asked).mean)


def test_trials_are_ranked_by_probability_and_then_by_outcome() -> None:
    study = run(make(KNeighborsClassifier(4), acquisition="pi"), n_trials=20)  # of which there are five probabilities
    believed = belief(study)
    ranked = [study.trials[number] for number in believed.ranking()]
    probability = believed.class_probability([trial.params for trial in ranked]).mean
    keys = [(-p, trial.value) for p, trial in zip(probability, ranked, strict=True)]
    assert keys == sorted(keys)
    assert len(set(probability)) < len(ranked)
    assert recommend(study).number == believed.ranking()[0]


def test_predictions_are_scored() -> None:
    study = run(make(acquisition="pi"), n_trials=20)
    recorded, again = prequential(study), prequential(study, sampler=make(acquisition="pi"), first=N_STARTUP)
    assert [p.trial_number for p in recorded.predictions] == list(range(N_STARTUP, 20))
    np.testing.assert_allclose(recorded.predictions, again.predictions, rtol=1e-6)
    assert prequential(run(make(acquisition="ei"))).predictions == ()


# ------------------------------------------------------------------------------------------------------------ failures
class Raising(LogisticRegression):
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        raise ValueError("singular")


class Nan(LogisticRegression):
    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), 2), np.nan)


class Shapeless(LogisticRegression):
    def predict_proba(self, X: Any) -> Any:
        return np.ones(len(X))


class Beyond(LogisticRegression):
    def predict_proba(self, X: Any) -> Any:
        return 1.5 + super().predict_proba(X)


@pytest.mark.parametrize(
    ("classifier", "reason"),
    [
        (Raising(), "model failed: Raising: ValueError: singular"),
        (Nan(), "model failed: Nan.predict_proba gave nan, which is no probability"),
        (Shapeless(), "model failed: Shapeless: IndexError: too many indices"),
        (Beyond(), "which is no probability"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_a_classifier_that_fails_costs_one_suggestion(
    classifier: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        study = run(make(classifier))
    assert len(study.trials) == N_TRIALS
    told = explain(study, N_TRIALS - 1).random
    assert told is not None
    assert reason in told
    assert f"Trial {N_TRIALS - 1} gets a random point" in caplog.text
    assert len({tuple(p.values()) for p in points(study)}) == N_TRIALS
    with pytest.raises(ClassifierError, match=type(classifier).__name__):
        belief(study)


def test_without_two_classes_points_are_random() -> None:
    study = run(make(), lambda trial: 0.0 * simple(trial))
    assert explain(study, N_TRIALS - 1).random == "all outcomes are equal"
    assert recommend(study).value == 0.0
    study = run(make(gamma=0.9, acquisition="pi"), n_trials=N_STARTUP + 1)
    assert explain(study, N_STARTUP).random == "all outcomes are of one class"


def test_infinite_outcomes_are_failures() -> None:
    study = run(make("svm"), lambda trial: simple(trial) if trial.number % 3 else math.inf * simple(trial))
    model = explain(study, N_TRIALS - 1).model
    assert model is not None
    assert math.isfinite(model.threshold)


@pytest.mark.parametrize("acquisition", ["pi", "ei"])
def test_outcomes_of_any_size_are_taken(acquisition: str) -> None:
    sizes = [1e308, -1e308, 0.0, -math.inf, 1e-300, math.inf]
    study = run(make(acquisition=acquisition), lambda trial: sizes[trial.number % 6] + 0.0 * simple(trial))
    assert explain(study, N_TRIALS - 1).model is not None
    assert "inf" not in str(record(study))


def test_improvements_have_no_size_where_no_outcome_is_better_than_the_threshold() -> None:
    study = run(make(gamma=0.01))
    assert "ei" not in record(study)
    assert "weighted class probability" in str(explain(study, N_TRIALS - 1))
    with pytest.raises(StudyError, match="No outcome is better than the threshold"):
        belief(study).expected_improvement([{"x": 0.0, "kind": "a"}])


# ------------------------------------------------------------------------------------------------------------- options
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("thresholds", 3),
        ("link", "logit"),
        ("network", "mlp"),
        ("posterior", "kron"),
        ("prior_precision", 1.0),
        ("training", "adam"),
        ("patience", 5),
        ("warm_start", True),
        ("acquisition", "thompson"),
    ],
)
def test_options_of_the_network_are_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"`{field}` must be .* where a classifier takes the network's place"):
        make(**{field: value})


def test_the_threshold_is_one_and_with_it_the_share_of_random_points() -> None:
    for sampler in (BOGGNSampler(classifier="forest"), BOGGNSampler(classifier="forest", thresholds="one")):
        assert sampler.config.thresholds == "one"
        assert sampler.config.chance_of_random == 0.1
        assert sampler.config.candidates == "random"
    assert make(search="neighbourhood").config.candidates == "neighbourhood"
    assert BOGGNSampler().config.candidates == "neighbourhood"


def test_the_papers_preset_keeps_all_but_its_network() -> None:
    config = BOGGNSampler.paper(classifier="forest").config
    assert (config.classifier, config.acquisition, config.search, config.epsilon) == ("forest", "pi", "random", 0.1)
    assert config.deterministic_objective
    with pytest.raises(ConfigurationError, match="`network`"):
        BOGGNSampler.paper(classifier="forest", network="mlp")


def test_weights_need_a_classifier_that_takes_them() -> None:
    with pytest.raises(ConfigurationError, match=r"`acquisition` must be 'pi' with KNeighborsClassifier.*got 'ei'"):
        make(KNeighborsClassifier())
    with pytest.raises(ConfigurationError, match=r"`acquisition` must be 'pi' with Pipeline"):
        make(make_pipeline(StandardScaler(), LogisticRegression()))


def test_what_gives_no_probabilities_or_cannot_be_copied_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="a scikit-learn classifier with predict_proba"):
        make(SVC())

    class Duck:
        def fit(self, X: Any, y: Any) -> None: ...

        def predict_proba(self, X: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=r"`classifier` must be a classifier that scikit-learn can copy"):
        make(Duck(), acquisition="pi")


@pytest.mark.parametrize(
    ("absent", "classifier", "text"),
    [("sklearn", "forest", "boggn[classifiers]"), ("xgboost", "xgboost", "pip install 'xgboost'")],
)
def test_a_missing_package_is_named_when_the_sampler_is_made(absent: str, classifier: str, text: str) -> None:
    code = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
import boggn
boggn.BOGGNSampler()
try:
    boggn.BOGGNSampler(classifier={classifier!r})
except boggn.BoggnError as error:
    print(type(error).__name__, isinstance(error, ImportError), error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingPackageError True ")
    assert text in done.stdout


def _sampler(method: str) -> Any:
    optimiser: Any = methods.get(method).start(tasks.get("branin"), 0, 10)
    return optimiser.study.sampler


def test_benchmarks_reach_them_by_their_options() -> None:
    sampler = _sampler("boggn:classifier=forest,acquisition=pi")
    assert isinstance(sampler, boggn.BOGGNSampler)
    assert (sampler.config.classifier, sampler.config.acquisition) == ("forest", "pi")
    paper = _sampler("boggn-paper:classifier=svm")
    assert isinstance(paper, boggn.BOGGNSampler)
    assert (paper.config.classifier, paper.config.search) == ("svm", "random")
