r"""What the runner drives: ask for a point, tell its value. Optuna's samplers here, other packages in `peers`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import HyperbandPruner
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from boggn.bench import resources
from boggn.bench.task import Params, Task
from boggn.errors import StudyError


class Optimiser(Protocol):
    r"""A method at work on one task.

    `tell` takes the point last asked for, or any other point of the space, as if somebody else had evaluated it.
    """

    def ask(self) -> Params:
        """The point to evaluate next: the parameters that are active, and no others."""
        ...

    def tell(self, params: Params, value: float) -> None:
        """The value at a point."""
        ...

    def usage(self) -> resources.Usage:
        """CPU seconds of all asks and tells so far, and the most memory its process held."""
        ...

    def versions(self) -> Mapping[str, str]:
        """Of the packages that do the work, where they are not those of the runner."""
        ...

    def close(self) -> None:
        """Let go of what is held outside this process."""
        ...


@dataclass
class OptunaOptimiser:
    """Any of Optuna's samplers, in this process."""

    task: Task
    study: optuna.Study
    asked: Trial | None = None
    cpu_seconds: float = 0.0

    @classmethod
    def of(cls, task: Task, sampler: BaseSampler) -> OptunaOptimiser:
        """A fresh study for that sampler."""
        return cls(task, optuna.create_study(sampler=sampler))

    def ask(self) -> Params:  # noqa: D102 - as the protocol says
        began = time.process_time()
        self.asked = self._asked()
        self.cpu_seconds += time.process_time() - began
        return self.asked.params

    def _asked(self) -> Trial:
        if not self.task.conditions:
            return self.study.ask(dict(self.task.space))
        trial = self.study.ask()
        for name, distribution in self.task.space.items():
            if self.task.is_active(name, trial.params):
                _suggest(trial, name, distribution)
        return trial

    def tell(self, params: Params, value: float) -> None:  # noqa: D102
        began = time.process_time()
        if self.asked is not None and self.asked.params == params:
            self.study.tell(self.asked, value)
            self.asked = None
        else:
            self.study.add_trial(trial_of(self.task, params, value))
        self.cpu_seconds += time.process_time() - began

    def usage(self) -> resources.Usage:  # noqa: D102
        return resources.Usage(self.cpu_seconds, resources.peak_bytes())

    def versions(self) -> Mapping[str, str]:  # noqa: D102
        return {}

    def close(self) -> None:  # noqa: D102
        pass


@dataclass
class PruningOptimiser(OptunaOptimiser):
    """A sampler with a pruner: it ends hopeless evaluations early."""

    @classmethod
    def pruned(cls, task: Task, sampler: BaseSampler, seed: int) -> PruningOptimiser:
        """A fresh study for that sampler and Hyperband, whose brackets are dealt by the study's name."""
        if task.curve is None:
            raise StudyError(f"Hyperband needs a task whose evaluations have steps, and {task.name!r} has none.")
        pruner = HyperbandPruner(min_resource=1, max_resource=task.steps)
        return cls(task, optuna.create_study(sampler=sampler, pruner=pruner, study_name=f"{task.name} {seed}"))

    def watch(self, values: Sequence[float]) -> int:
        """How many of these values, one per step, it wants to see: all of them, unless the evaluation is hopeless."""
        if self.asked is None:
            raise StudyError("Ask for a point before its values are watched.")
        began = time.process_time()
        wanted = len(values)
        for step, value in enumerate(values, 1):
            self.asked.report(value, step)
            if step < wanted and self.asked.should_prune():
                wanted = step
                break
        self.cpu_seconds += time.process_time() - began
        return wanted

    def give_up(self) -> None:
        """The evaluation was ended early."""
        if self.asked is not None:
            self.study.tell(self.asked, state=TrialState.PRUNED)
            self.asked = None


def trial_of(task: Task, params: Params, value: float) -> FrozenTrial:
    """A finished trial of Optuna's at that point."""
    return create_trial(params=dict(params), distributions={name: task.space[name] for name in params}, value=value)


def _suggest(trial: Trial, name: str, distribution: BaseDistribution) -> None:
    match distribution:
        case FloatDistribution():
            trial.suggest_float(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
        case IntDistribution():
            trial.suggest_int(name, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
        case CategoricalDistribution():
            trial.suggest_categorical(name, distribution.choices)
        case _:
            raise StudyError(f"Parameter {name!r} has a distribution that no task may have: {distribution!r}.")


def check(task: Task, params: Params) -> None:
    """Refuse a point that is not in the task's space: a NaN, a value out of bounds, a parameter too many or too few."""
    wanted = [name for name in task.space if task.is_active(name, params)]
    if set(params) != set(wanted):
        raise StudyError(f"A point must have the parameters {', '.join(wanted)}; the method proposed {dict(params)!r}.")
    for name in wanted:
        if not _contains(task.space[name], params[name]):
            raise StudyError(f"Parameter {name!r} must be in {task.space[name]}; the method proposed {params[name]!r}.")


def _contains(distribution: BaseDistribution, value: Any) -> bool:
    match distribution:
        case CategoricalDistribution():
            return value in distribution.choices
        case FloatDistribution():
            return math.isfinite(value) and distribution.low <= value <= distribution.high
        case IntDistribution():
            inside: bool = distribution.low <= value <= distribution.high
            return inside and int(value) == value and (int(value) - distribution.low) % distribution.step == 0
    return False
