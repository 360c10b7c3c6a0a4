"""When no more improvement is to be expected: a bound on the regret, from the sampler's own belief of the study.

With probability `LEVEL` each, what is behind the best trial is at most its upper end, and what is behind any other
point at least its lower end; so the regret is at most the highest upper end less the lowest lower end of what is behind
them (Makarova et al., Automatic termination for hyperparameter optimization, 2022), over a net of candidates.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from optuna.study import StudyDirection
from optuna.trial import TrialState

from boggn.errors import UnfittedError

if TYPE_CHECKING:
    from optuna.study import Study

LEVEL = 0.95
LEAST_TRIALS = 10
"""Outcomes beyond the sampler's own start, before which a model is not trusted with the end."""
CANDIDATES = 1024
ENOUGH = "boggn:enough"


def regret_bound(study: Study) -> float:
    """How much better than the best trial the optimum may still be; infinite while there is no model."""
    import numpy as np
    from scipy.stats import qmc

    from boggn.belief import belief, sampler_of

    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    if len(complete) < sampler_of(study).config.n_startup_trials + LEAST_TRIALS:
        return math.inf
    try:
        fitted = belief(study)
    except UnfittedError:
        return math.inf
    from boggn.encoding import Encoding

    latest = complete[-1].distributions
    encoding = Encoding.of({name: latest[name] for name in fitted.params})
    points: list[dict[str, Any]] = [trial.params for trial in complete]
    seen = encoding.to_units(points)
    best = encoding.to_units([study.best_trial.params])
    net = qmc.Sobol(encoding.n_parameters, rng=0).random(CANDIDATES)
    scale = 10.0 ** np.random.default_rng(0).uniform(-4.0, -0.5, (CANDIDATES, 1))
    near = best + scale * (net - 0.5)
    rows = encoding.snap(np.concatenate([net, near, seen]))
    everywhere = fitted.outcome([encoding.from_unit(row) for row in rows], level=LEVEL)
    known = fitted.outcome(points, level=LEVEL)
    if study.direction == StudyDirection.MAXIMIZE:
        return float(np.max(everywhere.high) - np.max(known.low))
    return float(np.min(known.high) - np.min(everywhere.low))


def note_if_enough(study: Study, tolerance: float | None) -> None:
    """Write on the study that its regret is within the tolerance, once it is."""
    if tolerance is None:
        return
    bound = regret_bound(study)
    if bound <= tolerance:
        study.set_user_attr(ENOUGH, {"bound": bound, "trials": len(study.get_trials(deepcopy=False))})


def was_enough(study: Study, tolerance: float | None) -> str | None:
    """Why the study is over, if its regret is within the tolerance."""
    if tolerance is None:
        return None
    noted = study.user_attrs.get(ENOUGH)
    if noted is None or noted["bound"] > tolerance:
        return None
    return f"with {LEVEL:.0%} probability the best is within {noted['bound']:.2g} of the optimum"
