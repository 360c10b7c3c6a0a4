r"""Optuna's own contract for samplers, for the default and for the paper's preset; and again where the model speaks.

Optuna's cases tell few outcomes, so with the usual number of start-up trials they would see space-filling points only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
from optuna.trial import TrialState
from sklearn.linear_model import LogisticRegression

from boggn import BOGGNSampler
from boggn.record import read

N_STARTUP = 3
MakeSampler = Callable[[], BaseSampler]


class Contract(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    r"""All the cases that fit a sampler of one objective."""


class TestDefault(Contract):
    @pytest.fixture
    def sampler(self) -> MakeSampler:
        return lambda: BOGGNSampler(seed=0)


class TestPaper(Contract):
    @pytest.fixture
    def sampler(self) -> MakeSampler:
        return lambda: BOGGNSampler.paper(seed=0)


class TestDefaultModel(BasicSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> MakeSampler:
        return lambda: BOGGNSampler(seed=0, n_startup_trials=N_STARTUP, warn_independent_sampling=False)


class TestPaperModel(BasicSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> MakeSampler:
        return lambda: BOGGNSampler.paper(
            seed=0, n_startup_trials=N_STARTUP, epsilon=0.0, warn_independent_sampling=False
        )


class TestClassifierModel(BasicSamplerTestCase):
    @pytest.fixture
    def sampler(self) -> MakeSampler:
        return lambda: BOGGNSampler(
            seed=0,
            n_startup_trials=N_STARTUP,
            classifier=LogisticRegression(),
            epsilon=0.0,
            warn_independent_sampling=False,
        )


DISTRIBUTIONS: list[BaseDistribution] = [
    FloatDistribution(-1.0, 1.0),
    FloatDistribution(1e-7, 1.0, log=True),
    FloatDistribution(-10, 10, step=0.5),
    IntDistribution(3, 10),
    IntDistribution(1, 100, log=True),
    IntDistribution(3, 9, step=2),
    CategoricalDistribution([-1, -10, -100]),
]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS, ids=repr)
@pytest.mark.parametrize(
    "preset",
    [BOGGNSampler, BOGGNSampler.paper, partial(BOGGNSampler, classifier=LogisticRegression())],
    ids=["default", "paper", "classifier"],
)
def test_what_the_model_suggests_is_in_the_space(
    preset: Callable[..., BOGGNSampler], distribution: BaseDistribution
) -> None:
    r"""As Optuna's cases for relative sampling, with enough outcomes told for the model to be the one who suggests."""
    space: dict[str, BaseDistribution] = {"x": distribution, "y": FloatDistribution(-1.0, 1.0)}
    study = optuna.create_study(sampler=preset(seed=0, n_startup_trials=N_STARTUP, epsilon=0.0))
    for _ in range(N_STARTUP + 4):
        trial = study.ask(space)
        study.tell(trial, sum(trial.params.values()))
    for trial in study.trials[N_STARTUP + 1 :]:
        stored = read(trial)
        assert stored is not None
        assert "model" in stored["record"]
    suggested = study.sampler.sample_relative(study, study.ask()._get_latest_trial(), space)
    assert suggested.keys() == space.keys()
    for name, value in suggested.items():
        assert type(value) in (float, int)
        assert space[name]._contains(space[name].to_internal_repr(value))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_study_of_every_kind_of_parameter_runs_through(n_jobs: int) -> None:
    def objective(trial: optuna.Trial) -> float:
        scale = trial.suggest_categorical("scale", [1, 10, None])
        return (scale or 0) + trial.suggest_float("x", 1e-3, 1.0, log=True) + trial.suggest_int("n", 1, 9)

    study = optuna.create_study(sampler=BOGGNSampler(seed=0, n_startup_trials=N_STARTUP))
    study.optimize(objective, n_trials=12, n_jobs=n_jobs)
    assert [trial.state for trial in study.trials] == [TrialState.COMPLETE] * 12
