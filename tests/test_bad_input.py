r"""What users get wrong and what objectives return: a message that teaches, and a study that goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import cycle
from typing import Any

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.study import Study
from optuna.trial import Trial, TrialState

from boggn import MLP, BoggnError, BOGGNSampler, ConfigurationError, StudyError, explain, recommend
from boggn.config import Config
from boggn.record import read

N_STARTUP = 3
N_TRIALS = 8
NAN, INF = float("nan"), float("inf")


def make(**options: Any) -> BOGGNSampler:
    return BOGGNSampler(seed=0, **({"n_startup_trials": N_STARTUP} | options))


def was_modelled(study: Study, number: int = -1) -> bool:
    stored = read(study.trials[number])
    return stored is not None and "model" in stored["record"]


# ----------------------------------------------------------------------------------------------------------- options
WRONG: list[tuple[str, Any, str]] = [
    *[("gamma", value, "a number in (0, 1)") for value in (0.0, 1.0, -0.1, 1.5, NAN, INF, True, "0.3", None)],
    *[("epsilon", value, "a number in [0, 1]") for value in (-1e-9, 1.1, NAN, INF, False, "0", [0.1])],
    *[("prior_precision", value, "a number in (0, inf)") for value in (0.0, -1.0, NAN, INF, True, "laplace", None)],
    *[("thresholds", value, "one of 'all', 'one'") for value in ("two", "", "All", None, 0, 1.0, True, ["all"])],
    *[("posterior", value, "one of 'function', 'full', 'kron'") for value in ("Kron", None, 0)],
    *[("classifier", value, "one of 'mlp', 'forest'") for value in ("tree", 1, object, [])],
    *[("patience", value, "None or a whole number, 1 or more") for value in (0, -1, 1.0, True, "5")],
    *[("warm_start", value, "True or False") for value in (0, None, "yes")],
    *[("link", value, "one of 'probit', 'logit'") for value in ("cauchit", None, 0)],
    *[("acquisition", value, "one of 'ei', 'pi', 'ucb', 'thompson'") for value in ("EI", "entropy", None, 2.0)],
    *[("training", value, "one of 'gauss-newton', 'adam'") for value in ("sgd", None, {})],
    *[
        ("network", value, "'wide', 'wide:512', 'mlp'")
        for value in ("deep", "", "mlp:", "mlp:32:relu:1", "mlp:3.5", None, 32, (32,))
    ],
    *[("n_startup_trials", value, "a whole number, 0 or more") for value in (-1, 2.0, NAN, True, "10", None)],
    *[("deterministic_objective", value, "True or False") for value in (0, 1, "yes", None)],
    *[("warn_independent_sampling", value, "True or False") for value in (0, "no", None)],
    *[("independent_sampler", value, "an Optuna sampler or None") for value in ("tpe", 3, optuna.samplers.TPESampler)],
    *[("seed", value, "None or a whole number") for value in (True, False, -1, 2**63, 1.0, NAN, "0", [1])],
]


@pytest.mark.parametrize(("field", "value", "allowed"), WRONG, ids=lambda part: repr(part)[:40])
def test_a_wrong_option_is_refused_by_name_value_and_what_is_allowed(field: str, value: Any, allowed: str) -> None:
    for preset in (BOGGNSampler, BOGGNSampler.paper):
        with pytest.raises(ConfigurationError) as caught:
            preset(**{field: value})
        for part in (f"`{field}`", repr(value), allowed):
            assert part in str(caught.value)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, BoggnError)


@pytest.mark.parametrize(
    ("field", "value", "allowed"), [wrong for wrong in WRONG if wrong[0] in Config.__dataclass_fields__]
)
def test_a_configuration_refuses_the_same(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigurationError, match=f"`{field}` must be "):
        Config(**{field: value})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden", (0,)),
        ("hidden", (-3, 4)),
        ("hidden", (True,)),
        ("hidden", [32]),
        ("hidden", (1e3,)),
        ("hidden", (5000,)),
    ]
    + [("activation", value) for value in ("swish", None, "")],
)
def test_a_wrong_network_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"`{field}` must be ") as caught:
        MLP(**{field: value})
    assert repr(value) in str(caught.value)
    with pytest.raises(ConfigurationError, match="`activation`"):
        BOGGNSampler(network="mlp:32:swish")
    with pytest.raises(ConfigurationError, match="`hidden`"):
        BOGGNSampler(network="mlp:0x8")


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("prior_precision", {"prior_precision": 1.0}),
        ("prior_precision", {"prior_precision": 1.0, "network": "wide", "thresholds": "one"}),
        ("prior_precision", {"prior_precision": 1.0, "network": "mlp", "thresholds": "all"}),
        ("training", {"training": "adam", "network": "mlp", "thresholds": "one"}),
    ],
)
def test_options_that_would_have_no_effect_together_are_refused(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"`{field}` must be .* unless .*, but got {options[field]!r}"):
        BOGGNSampler(**options)


def test_an_unknown_option_is_an_ordinary_mistake() -> None:
    for preset in (BOGGNSampler, BOGGNSampler.paper):
        with pytest.raises(TypeError, match="gama"):
            preset(gama=0.3)
    with pytest.raises(TypeError):
        BOGGNSampler(0)  # type: ignore[misc]


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 1e-9},
        {"gamma": 1 - 1e-9},
        {"epsilon": 0},
        {"epsilon": 1},
        {"epsilon": None},
        {"n_startup_trials": 0},
        {"seed": 0},
        {"seed": 2**63 - 1},
        {"network": "mlp:8x8:elu"},
        {"network": MLP((), "tanh")},
        {"prior_precision": 1, "network": "mlp", "thresholds": "one"},
        {"prior_precision": 1e-300, "network": "mlp", "thresholds": "one"},
    ],
    ids=str,
)
def test_options_at_their_bounds_are_taken(options: dict[str, Any]) -> None:
    assert BOGGNSampler(**options)
    assert BOGGNSampler.paper(**options)


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(directions=["minimize", "maximize"], sampler=make())
    with pytest.raises(ValueError, match="optimises one objective, but this study has 2") as caught:
        study.optimize(lambda trial: (trial.suggest_float("x", 0, 1), 1.0), n_trials=1)
    assert isinstance(caught.value, StudyError)


# ---------------------------------------------------------------------------------------------------------- outcomes
def in_turn(values: list[float]) -> Callable[[Trial], float]:
    turn: Iterator[float] = cycle(values)

    def objective(trial: Trial) -> float:
        trial.suggest_float("x", -1.0, 1.0)
        trial.suggest_float("y", -1.0, 1.0)
        return next(turn)

    return objective


LARGE, TINY = 1.7e308, 5e-324
OUTCOMES: dict[str, list[float]] = {
    "zero": [0.0],
    "equal": [3.7],
    "equal and huge": [1e300],
    "inf": [1.0, INF, 2.0],
    "mostly inf": [INF, INF, INF, 1.0],
    "all inf": [INF],
    "minus inf": [1.0, -INF, 2.0],
    "all minus inf": [-INF],
    "both infinities": [INF, -INF],
    "both and finite": [INF, 1.0, -INF, 2.0, 0.0],
    "huge": [1e300, -1e300, 3e299],
    "one huge": [1.0, 2.0, 1e300, 3.0],
    "largest": [LARGE, -LARGE, 0.0, 1.0],
    "largest of one sign": [LARGE, 0.9 * LARGE, 0.8 * LARGE],
    "differences of 1e-300": [0.0, 1e-300, 2e-300, 3e-300],
    "differences below that": [0.0, TINY, 3 * TINY],
    "differences of one rounding": [1.0, 1.0 + 2**-52, 1.0 + 2**-51],
    "two values": [0.0, 1.0],
    "signed zeros": [0.0, -0.0],
}


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("outcomes", OUTCOMES.values(), ids=OUTCOMES.keys())
def test_no_outcome_kills_a_study(outcomes: list[float], direction: str) -> None:
    study = optuna.create_study(sampler=make(), direction=direction)
    study.optimize(in_turn(outcomes), n_trials=N_TRIALS)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * N_TRIALS
    assert explain(study, N_TRIALS - 1).params == study.trials[-1].params
    assert recommend(study).state == TrialState.COMPLETE


@pytest.mark.parametrize(
    "outcomes", [[INF, 1.0], [1e300, -1e300, 3e299], [0.0, 1e-300, 2e-300], [1.0, -INF, 2.0]], ids=str
)
def test_the_model_copes_with_strange_outcomes(outcomes: list[float]) -> None:
    study = optuna.create_study(sampler=make())
    study.optimize(in_turn(outcomes), n_trials=N_TRIALS)
    modelled = [was_modelled(study, number) for number in range(N_STARTUP + 1, N_TRIALS)]
    assert all(modelled) or len({value for value in outcomes if math.isfinite(value)}) == 1


@pytest.mark.parametrize("outcomes", [[0.0, 1.0, 2.0], [1e300, -1e300], [INF, 1.0, 2.0], [4.0]], ids=str)
@pytest.mark.parametrize("acquisition", ["ei", "pi"])
def test_one_threshold_copes_too(outcomes: list[float], acquisition: str) -> None:
    study = optuna.create_study(sampler=make(thresholds="one", acquisition=acquisition, link="logit"))
    study.optimize(in_turn(outcomes), n_trials=N_STARTUP + 3)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


def test_nan_is_a_failed_trial_and_no_more() -> None:
    study = optuna.create_study(sampler=make())
    study.optimize(in_turn([NAN, 1.0, 2.0]), n_trials=12)
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.FAIL, TrialState.COMPLETE, TrialState.COMPLETE] * 4
    stored = read(study.trials[-1])
    assert stored is not None
    assert stored["record"]["observations"] == 7


def test_a_study_of_failures_goes_on() -> None:
    study = optuna.create_study(sampler=make(n_startup_trials=0))
    study.optimize(in_turn([NAN]), n_trials=4)
    assert {trial.state for trial in study.trials} == {TrialState.FAIL}


@pytest.mark.parametrize("report", [NAN, INF, -INF, 1e300])
def test_pruned_trials_with_strange_reports(report: float) -> None:
    def objective(trial: Trial) -> float:
        value = trial.suggest_float("x", -1.0, 1.0) + trial.suggest_float("y", -1.0, 1.0)
        if trial.number % 2:
            trial.report(report, 0)
            raise optuna.TrialPruned
        return INF if trial.number == 4 else value

    study = optuna.create_study(sampler=make())
    study.optimize(objective, n_trials=N_TRIALS)
    assert [trial.state for trial in study.trials[::2]] == [TrialState.COMPLETE] * 4


@pytest.mark.parametrize("n_startup_trials", [0, 1, 2])
def test_few_trials_are_enough_to_go_on(n_startup_trials: int) -> None:
    study = optuna.create_study(sampler=make(n_startup_trials=n_startup_trials, warn_independent_sampling=False))
    for value in (1.0, 2.0, 0.5, 1.5):
        study.optimize(in_turn([value]), n_trials=1)
    assert was_modelled(study)
    assert not was_modelled(study, 1)


# ------------------------------------------------------------------------------------------------------------ spaces
def test_constant_parameters_need_no_model() -> None:
    def objective(trial: Trial) -> float:
        fixed = trial.suggest_float("a", 1.0, 1.0) + trial.suggest_int("b", 2, 2) + trial.suggest_categorical("c", [3])
        return fixed + trial.suggest_float("x", 0.0, 1.0)

    study = optuna.create_study(sampler=make())
    study.optimize(objective, n_trials=N_TRIALS)
    assert all(trial.params.items() >= {"a": 1.0, "b": 2, "c": 3}.items() for trial in study.trials)
    stored = read(study.trials[-1])
    assert stored is not None
    assert stored["params"].keys() == {"x"}
    assert was_modelled(study)


def test_nothing_but_constants() -> None:
    study = optuna.create_study(sampler=make())
    study.optimize(lambda trial: trial.suggest_float("a", 1.0, 1.0), n_trials=N_TRIALS)
    assert [trial.params for trial in study.trials] == [{"a": 1.0}] * N_TRIALS
    assert recommend(study).state == TrialState.COMPLETE


def test_no_parameters_at_all() -> None:
    study = optuna.create_study(sampler=make())
    study.optimize(lambda trial: 1.0, n_trials=N_TRIALS)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}


def test_a_category_never_seen_before() -> None:
    old: dict[str, BaseDistribution] = {"c": CategoricalDistribution(["a", "b", "gone"])}
    new: dict[str, BaseDistribution] = {"c": CategoricalDistribution(["a", "b", "new"])}
    study = optuna.create_study(sampler=make())
    study.add_trials(
        [
            optuna.create_trial(params={"c": c}, distributions=old, value=float(v))
            for v, c in enumerate(["a", "gone", "b"])
        ]
    )
    suggested = study.sampler.sample_relative(study, study.ask()._get_latest_trial(), new)
    assert suggested["c"] in ("a", "b", "new")
    study.add_trials([optuna.create_trial(params={"c": "a"}, distributions=old, value=float(v)) for v in range(3)])
    running = study.ask()
    assert study.sampler.sample_relative(study, running._get_latest_trial(), new)["c"] in ("a", "b", "new")
    stored = read(study.trials[running.number])
    assert stored is not None
    assert stored["record"]["observations"] == 5  # all but the one that is gone


def test_a_parameter_that_changes_its_kind() -> None:
    study = optuna.create_study(sampler=make())
    number: dict[str, BaseDistribution] = {"x": FloatDistribution(0.0, 1.0)}
    word: dict[str, BaseDistribution] = {"x": CategoricalDistribution(["a", "b"])}
    study.add_trials(
        [optuna.create_trial(params={"x": x}, distributions=number, value=x) for x in (0.1, 0.5, 0.9, 0.3)]
    )
    suggested = study.sampler.sample_relative(study, study.ask()._get_latest_trial(), word)
    assert suggested["x"] in ("a", "b")


def test_a_thousand_categories() -> None:
    names = [f"category {i}" for i in range(1000)]
    study = optuna.create_study(sampler=make())
    study.optimize(lambda trial: float(names.index(trial.suggest_categorical("c", names))), n_trials=N_STARTUP + 3)
    assert {trial.state for trial in study.trials} == {TrialState.COMPLETE}
    assert was_modelled(study)


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [
        (2**53 - 5, 2**53 + 5, False),
        (0, 2**60, False),
        (2**53, 2**62, False),
        (1, 2**60, True),
        (-(2**62), 2**62, False),
    ],
)
def test_ints_that_a_float_cannot_tell_apart(low: int, high: int, log: bool) -> None:
    study = optuna.create_study(sampler=make(warn_independent_sampling=False))
    study.optimize(lambda trial: float(trial.suggest_int("n", low, high, log=log)), n_trials=N_TRIALS)
    assert all(low <= trial.params["n"] <= high for trial in study.trials)
    assert all(type(trial.params["n"]) is int for trial in study.trials)


@pytest.mark.parametrize(
    ("low", "high", "log"),
    [(-1e308, 1e308, False), (1e-300, 1e300, True), (0.0, 5e-324, False), (1.0, 1.0 + 2**-52, False)],
)
def test_extreme_float_ranges(low: float, high: float, log: bool) -> None:
    study = optuna.create_study(sampler=make())
    study.enqueue_trial({"x": low})  # what Optuna's own samplers would do with such a range is not tested here
    study.optimize(lambda trial: trial.suggest_float("x", low, high, log=log), n_trials=N_TRIALS)
    assert all(low <= trial.params["x"] <= high for trial in study.trials)


# ----------------------------------------------------------------------------------------------------- empty studies
def test_an_empty_study_can_neither_be_explained_nor_recommend() -> None:
    study = optuna.create_study(sampler=make())
    with pytest.raises(StudyError, match="no trials yet"):
        explain(study, 0)
    with pytest.raises(StudyError, match="no completed trial"):
        recommend(study)


def test_a_single_trial_is_explained_and_recommended() -> None:
    study = optuna.create_study(sampler=make())
    study.optimize(in_turn([1.0]), n_trials=1)
    assert explain(study, 0).model is None
    assert recommend(study).number == 0


def test_a_model_that_fails_costs_one_suggestion(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from boggn import engine

    def fail(*_: Any, **__: Any) -> None:
        raise FloatingPointError("not this time")

    study = optuna.create_study(sampler=make())
    study.optimize(in_turn([1.0, 2.0, 3.0]), n_trials=N_STARTUP + 1)
    monkeypatch.setattr(engine, "suggest", fail)
    study.optimize(in_turn([1.0]), n_trials=1)
    assert study.trials[-1].state == TrialState.COMPLETE
    assert explain(study, N_STARTUP + 1).random == "model failed: not this time"
    warnings = [entry.getMessage() for entry in caplog.records if entry.name == "boggn.sampler"]
    assert warnings == [f"Trial {N_STARTUP + 1} gets a random point: the model failed (not this time)."]
