"""Small studies, and what a model might say of them, for the tests of the report."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from boggn.explain import Model
from boggn.prequential import Prequential
from boggn.report.gathered import Gathered, gather, snapshot
from boggn.report.learnt import Learnt, Share
from boggn.report.words import summary

EVIL = "<script>window.caught=1</script></style>'\"&"
UNIT = {"x": FloatDistribution(0, 1)}
OUTCOMES: list[float | None] = [float(k) for k in range(12)]


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
