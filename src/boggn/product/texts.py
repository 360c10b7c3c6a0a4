"""What a study is about to do, and what it has found, as plain text."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from boggn.product import ledger
from boggn.product.placeholders import BUILT_IN, fill, quoted, used_in
from boggn.product.plan import Plan
from boggn.product.storage import shown
from boggn.product.supervisor import Run
from boggn.record import FAILURE

MOST_SHOWN = 10
"""Of a front of several objectives."""


def plan_text(plan: Plan) -> str:
    """The plan as it was understood."""
    objective, budget, result = plan.file.objective, plan.file.budget, plan.file.result
    what = objective.function or _example(plan)
    read = "what the function returns" if objective.function else _READ[result.read]
    read += "" if result.read == "last-line" else f", {result.pattern if result.read == 'regex' else result.key}"
    ends = [f"{budget.trials} trials"] if budget.trials else []
    ends += [f"{budget.time:g} s of this run"] if budget.time else []
    ends += [f"a regret of at most {budget.regret:g}"] if budget.regret else []
    ends += [f"{budget.failures} failures in a row"] if budget.failures else []
    unused = [] if objective.function else sorted(plan.space.keys() - _passed(plan))
    lines = {
        "study": f"{plan.name}, to {' and '.join(plan.directions)}",
        "storage": shown(plan.storage),
        "runs": what,
        **({"not in it": f"{', '.join(unused)}: by $BOGGN_PARAM_… or {{parameters}} alone"} if unused else {}),
        "in": str(plan.base if objective.cwd == "study" else plan.folder / "<trial>"),
        "value": read,
        "until": " or ".join(ends),
        "workers": str(plan.file.study.workers),
        "sampler": _with_options(plan.file.sampler.name, plan.file.sampler.model_extra),
        "pruner": _with_options(plan.file.pruner.name, plan.file.pruner.model_extra),
        "timeout": "none" if objective.timeout is None else f"{objective.timeout:g} s per trial",
        "retries": str(objective.retries),
        "logs": str(plan.folder),
    }
    width = max(map(len, plan.space))
    space = [f"  {name:<{width}}  {_range(each)}" for name, each in plan.space.items()]
    return "\n".join([*(f"{name:<9} {text}" for name, text in lines.items()), "space", *space])


def _passed(plan: Plan) -> set[str]:
    """The parameters that the command or its environment is given by placeholders."""
    texts = [*plan.words, *plan.file.objective.env.values()]
    return set().union(*(used_in(text, plan.space) for text in texts))


def _example(plan: Plan) -> str:
    """The command of a trial at the lower end of each range."""
    first = {
        name: each.choices[0] if isinstance(each, CategoricalDistribution) else each.low  # type: ignore[attr-defined]
        for name, each in plan.space.items()
    }
    values = first | {name: f"<{name}>" for name in BUILT_IN} | {"python": plan.python}
    if plan.file.objective.shell:
        return fill(str(plan.file.objective.command), values, quoted)
    return shlex.join(fill(word, values) for word in plan.words)


_READ = {
    "last-line": "the last line it prints",
    "json": "from a JSON file ({result})",
    "regex": "the last match of a pattern in what it prints",
}


def result_text(run: Run, plan: Plan) -> str:
    """How a run ended, and the best that was found."""
    now = run.end
    complete = run.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    kinds = {"complete": len(complete), "pruned": now.done - now.failed - len(complete), "failed": now.failed}
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count or kind == "failed")
    why = f"Ended because {run.reason}."
    if run.interrupted:
        waiting = len(run.study.get_trials(deepcopy=False, states=ledger.WAITING))
        why = f"Stopped; the same command goes on{f', and tries {_trials(waiting)} again' if waiting else ''}."
    lines = [f"{_trials(now.done)}: {counts}. {why}"]
    best = run.study.best_trials if complete else []
    lines += [_trial(trial) for trial in (best[:MOST_SHOWN] if len(plan.directions) > 1 else best[:1])]
    failed = filter(ledger.counts, run.study.get_trials(deepcopy=False, states=ledger.FAILED))
    reasons = Counter(str(trial.user_attrs.get(FAILURE, "unknown")) for trial in failed)
    lines += [f"  {count} failed: {reason}" for reason, count in reasons.most_common(3)]
    for name in plan.file.result.metrics:
        if complete and not any(name in trial.user_attrs for trial in complete):
            lines.append(f"  result.metrics.{name} was found in no trial's output")
    lines.append(f"Logs are in {plan.folder}, the study {plan.name!r} in {shown(plan.storage)}")
    if complete:
        lines.append(f"To see it: boggn report {shlex.quote(os.path.relpath(plan.path))}")
    return "\n".join(lines)


def _trials(count: int) -> str:
    return f"{count} trial{'s' * (count != 1)}"


def _trial(trial: FrozenTrial) -> str:
    values = ", ".join(f"{value:.6g}" for value in trial.values)
    label = "Best" if len(trial.values) == 1 else "On the front"
    return "\n".join(
        [f"{label}: trial {trial.number}, {values}", *(f"  {k} = {_short(v)}" for k, v in trial.params.items())]
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
