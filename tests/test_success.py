"""Failed trials are evidence: where they fail is learned, and weighs on the acquisition."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages import RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState, create_trial

import boggn
from boggn import engine, success, surrogate
from boggn.bench import tasks
from boggn.config import Config
from boggn.encoding import Encoding
from boggn.observed import History
from boggn.record import read
from boggn.surrogate import CAUTION, Memory

UNIT = FloatDistribution(0.0, 1.0)
SPACE = {"x": UNIT, "y": UNIT}
ENCODING = Encoding.of(SPACE)


def history(units: np.ndarray, failed: np.ndarray) -> History:
    fine = np.arange(len(units))
    return History(
        units=units,
        values=units.sum(axis=1),
        running=np.zeros((0, 2)),
        numbers=tuple(fine),
        failed=failed,
        failed_numbers=tuple(len(fine) + np.arange(len(failed))),
    )


def half(count: int, seed: int = 0) -> History:
    """Trials fail on the right."""
    points = np.random.default_rng(seed).random((count, 2))
    return history(points[points[:, 0] <= 0.6], points[points[:, 0] > 0.6])


def probabilities(seen: History, units: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        fitted = success.fit(Config(), ENCODING, seen, Memory())
        rows = np.zeros((len(units), fitted.posterior.rows.shape[1]))
        rows[:, : ENCODING.width] = ENCODING.encode(units)
        return np.exp(np.asarray(fitted.acquisition(fitted.moments(jnp.asarray(rows)))))


def test_where_trials_fail_is_learned() -> None:
    units = np.random.default_rng(1).random((400, 2))
    found = probabilities(half(40), units)
    far = np.abs(units[:, 0] - 0.6) > 0.15
    assert np.mean((found > 0.5) == (units[:, 0] <= 0.6)) > 0.9
    assert np.all((found > 0.5)[far] == (units[:, 0] <= 0.6)[far])
    assert found[units[:, 0] > 0.85].max() < 0.25


def test_one_failure_among_many_successes_is_no_wall() -> None:
    rng = np.random.default_rng(2)
    found = probabilities(history(rng.random((30, 2)), np.array([[0.5, 0.5]])), rng.random((200, 2)))
    assert found.min() > 0.5


def test_the_acquisition_gains_the_probability_of_success() -> None:
    seen = half(30)
    config, memory = Config(), Memory()
    cautious = engine.fit(config, ENCODING, seen, [0, 1, 2, 3], memory)
    bold = engine.fit(config, ENCODING, replace(seen, failed=seen.failed[:0], failed_numbers=()), [0, 1, 2, 3], memory)
    assert not isinstance(cautious, str)
    assert not isinstance(bold, str)
    rows = ENCODING.encode(np.random.default_rng(3).random((50, 2)))
    with_failures, without = engine.report(cautious, rows), engine.report(bold, rows)
    np.testing.assert_allclose(with_failures.value, without.value + CAUTION * with_failures.log_success, rtol=1e-9)
    np.testing.assert_array_equal(with_failures.mean, without.mean)
    np.testing.assert_array_equal(without.log_success, 0.0)


def test_kept_are_all_of_the_rarer_class_and_an_even_spread_of_the_other() -> None:
    z = np.ones(1000)
    z[::100] = 0.0
    kept = success._spread(z, 100)
    assert len(kept) == 100
    assert set(np.flatnonzero(z == 0)) <= set(kept)
    assert np.abs(np.diff(kept)).max() < 25
    np.testing.assert_array_equal(success._spread(z, 2000), np.arange(1000))
    both = success._spread(np.repeat([0.0, 1.0], 500), 100)
    assert np.sum(both < 500) == 50


def run(sampler: optuna.samplers.BaseSampler, count: int) -> optuna.Study:
    """Better to the right, where trials fail."""

    def objective(trial: optuna.Trial) -> float:
        x, y = (trial.suggest_float(name, 0.0, 1.0) for name in SPACE)
        if x > 0.6:
            raise ValueError
        return (x - 1.0) ** 2 + (y - 0.4) ** 2

    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=count, catch=(ValueError,))
    return study


def test_a_study_finds_the_best_point_that_does_not_fail() -> None:
    study = run(boggn.BOGGNSampler(seed=0, n_startup_trials=8), 24)
    assert study.best_value - 0.16 < 0.01  # the best there is, at x = 0.6
    suggested = read(study.trials[-1])
    assert suggested is not None
    assert 0.0 < suggested["record"]["success"] < 1.0
    explanation = boggn.explain(study, 23)
    assert explanation.model is not None
    assert explanation.model.success == suggested["record"]["success"]
    assert "P(the trial does not fail) = " in str(explanation)


@pytest.mark.parametrize("acquisition", ["pi", "ei"])
def test_to_a_classifier_a_failure_is_not_good(acquisition: str) -> None:
    study = run(boggn.BOGGNSampler(seed=0, classifier="forest", acquisition=acquisition, n_startup_trials=8), 24)
    assert sum(trial.state == TrialState.FAIL for trial in study.trials[12:]) < 4


def test_what_was_tried_again_says_nothing_of_its_point() -> None:
    study = optuna.create_study(sampler=boggn.BOGGNSampler(seed=0, n_startup_trials=4))
    values = np.linspace(0.05, 0.95, 6)
    study.add_trials(
        [create_trial(params={"x": v, "y": v}, distributions=SPACE, value=float(v**2)) for v in map(float, values)]
    )
    failed = create_trial(params={"x": 0.5, "y": 0.5}, distributions=SPACE, state=TrialState.FAIL)
    study.add_trial(failed)

    def latest() -> dict[str, object]:
        trial = study.ask(SPACE)
        stored = read(study.trials[trial.number])
        study.tell(trial, state=TrialState.FAIL)
        assert stored is not None
        record: dict[str, object] = stored["record"]
        return record

    RetryHeartbeatStaleTrialCallback()(study, study.trials[6])  # queues the same parameters, and says whose they are
    waiting = study.trials[7]
    assert waiting.state == TrialState.WAITING
    again = study.ask(SPACE)
    study.tell(again, 0.25)
    assert "success" not in latest()
    assert "success" in latest()  # the one before failed for good


def test_failures_count_as_startup_trials_once_there_are_outcomes_to_compare() -> None:
    study = optuna.create_study(sampler=boggn.BOGGNSampler(seed=0, n_startup_trials=6))
    told: list[float | None] = [None, None, 1.0, None, 2.0, None]
    for value in told:
        trial = study.ask(SPACE)
        if value is None:
            study.tell(trial, state=TrialState.FAIL)
        else:
            study.tell(trial, value)
    study.ask(SPACE)
    last_but_one, last = (read(trial) for trial in study.trials[-2:])
    assert last_but_one is not None
    assert last_but_one["record"] == {"random": "startup"}
    assert last is not None
    assert last["record"]["observations"] == 2


def test_all_failed_goes_on_with_the_startup_sequence() -> None:
    study = optuna.create_study(sampler=boggn.BOGGNSampler(seed=0, n_startup_trials=3))
    for _ in range(5):
        study.tell(study.ask(SPACE), state=TrialState.FAIL)
    points = {tuple(trial.params.values()) for trial in study.trials}
    assert len(points) == 5


# ----------------------------------------------------------------------------------------------------------- benchmark
def regret(task: tasks.Task, fails: Callable[[list[float], int], bool], seed: int) -> float:
    """After 50 trials; `fails` knows the parameters and the number of a trial."""

    def objective(trial: optuna.Trial) -> float:
        params = {name: trial._suggest(name, each) for name, each in task.space.items()}
        if fails(list(params.values()), trial.number):
            raise ValueError
        return task.regret(params)

    study = optuna.create_study(sampler=boggn.BOGGNSampler(seed=seed))
    study.optimize(objective, n_trials=50, catch=(ValueError,))
    return study.best_value


@pytest.mark.benchmark
@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("branin", lambda x, _: x[1] > 8.0 or x[0] > 8.0),  # two of the three minima fail
        ("camel", lambda x, _: x[0] + x[1] > 0.0),
        ("hartmann6", lambda x, _: x[0] + x[3] > 0.9),
        ("branin", lambda _, number: number * 7919 % 100 < 15),  # anywhere, for no reason of x
    ],
    ids=["branin, a corner left", "camel, half", "hartmann6, a corner off", "branin, at random"],
)
def test_failures_are_worth_learning_from(
    name: str,
    fails: Callable[[list[float], int], bool],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optuna.logging.set_verbosity(optuna.logging.CRITICAL)
    label, medians = request.node.callspec.id, {}
    for caution in (0.0, 1.0, 4.0):
        monkeypatch.setattr(surrogate, "CAUTION", caution)
        jax.clear_caches()  # a constant is compiled in
        found = [regret(tasks.get(name), fails, seed) for seed in range(10)]
        low, medians[caution], high = np.quantile(found, [0.25, 0.5, 0.75])
        print(f"{label}: power {caution:g}: {medians[caution]:.2g} ({low:.2g} to {high:.2g})")  # noqa: T201
    jax.clear_caches()
    if "at random" in label:
        assert medians[4.0] < 1e-3
    else:
        assert medians[4.0] < medians[1.0] < medians[0.0]
