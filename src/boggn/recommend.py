"""Which trial to believe in: under noise the best outcome is often the luckiest, not the best."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.trial import TrialState

from boggn.belief import belief
from boggn.errors import StudyError, UnfittedError

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


def recommend(study: Study) -> FrozenTrial:
    """The completed trial whose expected outcome is best, by the study's sampler if it is one of ours.

    With too few trials, or too few parameters in common, for a model to be fitted: the best outcome.
    """
    completed = {trial.number for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))}
    if not completed:
        raise StudyError("The study has no completed trial to recommend.")
    try:
        ranked = belief(study).ranking()
    except UnfittedError:
        ranked = ()
    number = next((number for number in ranked if number in completed), study.best_trial.number)
    return study.get_trials()[number]
