"""What a study is about to do, and what it has found, as plain text."""

from __future__ import annotations

import shlex
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from boggn.product import ledger
from boggn.product.plan import Plan
from boggn.product.study import standing
from boggn.product.supervisor import Run
from boggn.record import FAILURE

MOST_SHOWN = 10
"""Of a front of several objectives."""


def plan_text(plan: Plan) -> str:
    """The plan as it was understood."""
    objective, budget, result = plan.file.objective, plan.file.budget, plan.file.result
    what = objective.function or (objective.command if objective.shell else shlex.join(plan.words))
    read = "what the function returns" if objective.function else _READ[result.read]
    ends = [f"{budget.trials} trials"] if budget.trials else []
    ends += [f"{budget.time:g} s"] if budget.time else []
    ends += [f"a regret of at most {budget.regret:g}"] if budget.regret else []
    lines = {
        "study": f"{plan.name}, to {' and '.join(plan.directions)}",
        "storage": plan.storage,
        "runs": str(what),
        "in": str(plan.base if objective.cwd == "study" else plan.folder / "<trial>"),
        "value": read,
        "until": " or ".join(ends),
        "workers": str(plan.file.study.workers),
        "sampler": _with_options(plan.file.sampler.name, plan.file.sampler.model_extra),
        "pruner": _with_options(plan.file.pruner.name, plan.file.pruner.model_extra),
        "timeout": "none" if objective.timeout is None else f"{objective.timeout:g} s per trial",
        "logs": str(plan.folder),
    }
    width = max(map(len, plan.space))
    space = [f"  {name:<{width}}  {_range(each)}" for name, each in plan.space.items()]
    return "\n".join([*(f"{name:<8} {text}" for name, text in lines.items()), "space", *space])


_READ = {
    "last-line": "the last line it prints",
    "json": "from a JSON file ({result})",
    "regex": "the last match of a pattern in what it prints",
}


def result_text(run: Run, plan: Plan) -> str:
    """How a run ended, and the best that was found."""
    now = standing(run.study, plan.file.budget.trials)
    lines = [f"{now.done} trials, {now.failed} of them failed; {run.reason}."]
    complete = run.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    best = run.study.best_trials if complete else []
    lines += [_trial(trial) for trial in (best[:MOST_SHOWN] if len(plan.directions) > 1 else best[:1])]
    reasons: dict[str, int] = {}
    for trial in run.study.get_trials(deepcopy=False, states=ledger.FAILED):
        if ledger.counts(trial):
            reason = str(trial.user_attrs.get(FAILURE, "unknown"))
            reasons[reason] = reasons.get(reason, 0) + 1
    common = sorted(reasons.items(), key=lambda pair: -pair[1])[:3]
    lines += [f"  {count} failed: {reason}" for reason, count in common]
    return "\n".join([*lines, f"Logs are in {plan.folder}, the study {plan.name!r} in {plan.storage}"])


def _trial(trial: FrozenTrial) -> str:
    values = ", ".join(f"{value:.6g}" for value in trial.values)
    return "\n".join(
        [f"Best: trial {trial.number}, {values}", *(f"  {k} = {_short(v)}" for k, v in trial.params.items())]
    )


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _with_options(name: str, options: dict[str, Any] | None) -> str:
    return " ".join([name, *(f"{key}={value!r}" for key, value in (options or {}).items())])


def _range(distribution: BaseDistribution) -> str:
    if isinstance(distribution, CategoricalDistribution):
        return "one of " + ", ".join(map(repr, distribution.choices))
    if not isinstance(distribution, FloatDistribution | IntDistribution):
        return str(distribution)
    kind = "whole numbers " if isinstance(distribution, IntDistribution) else ""
    step = distribution.step if distribution.step not in {None, 1} or not kind else None
    scale = ", logarithmic" if distribution.log else f", in steps of {step:g}" if step else ""
    return f"{kind}{distribution.low:g} to {distribution.high:g}{scale}"
