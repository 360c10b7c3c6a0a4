"""Why a trial is where it is: the sampler's own record of it, as a typed object; and which trial to believe in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from optuna.study import StudyDirection
from optuna.trial import TrialState

from boggn.errors import ConfigurationError, StudyError
from boggn.record import read

if TYPE_CHECKING:
    from optuna.study import Study
    from optuna.trial import FrozenTrial


@dataclass(frozen=True)
class Model:
    """The classifier that suggested a trial, and what it expected there.

    With one threshold the class probability and its ratio are known with the acquisition "pi", and no improvement on
    the best is. A classifier in the network's place has no evidence either, and knows with "ei" the improvement on the
    threshold. What is not known is None.
    """

    name: str
    observations: int
    running: int
    gamma: float
    threshold: float
    better: Literal["<=", ">="]
    log_evidence: float | None
    scales: dict[str, Any]
    class_probability: float | None
    ratio: float | None
    expected_improvement: float | None
    success: float | None
    """The probability that the trial does not fail; None where none had failed, or in a classifier's own."""
    acquisition: float
    fit_seconds: float
    maximise_seconds: float


@dataclass(frozen=True)
class Explanation:
    """What the sampler thought of one trial. `model` is None where the point was random, for the reason given."""

    trial_number: int
    params: dict[str, Any]
    value: float | None
    random: str | None
    model: Model | None

    def __str__(self) -> str:
        lines = [f"Trial {self.trial_number}: " + ", ".join(f"{k}={_short(v)}" for k, v in self.params.items())]
        if self.model is None:
            lines.append(f"  suggested at random, because: {self.random}")
        else:
            lines += _describe(self.model)
        lines.append("  outcome: none yet" if self.value is None else f"  outcome: {_short(self.value)}")
        return "\n".join(lines)


def explain(study: Study, trial_number: int) -> Explanation:
    """What the sampler thought when it suggested a trial; reads the study alone, so it works on any stored one."""
    trial = _trial(study, trial_number)
    value = trial.value if trial.state == TrialState.COMPLETE else None
    stored = read(trial)
    if trial.params and trial.system_attrs.get("fixed_params", {}).keys() >= trial.params.keys():
        return Explanation(trial_number, trial.params, value, "enqueued by the user", None)
    if stored is None:
        return Explanation(trial_number, trial.params, value, "no model was asked for this trial", None)
    record = stored["record"]
    if "random" in record:
        return Explanation(trial_number, trial.params, value, record["random"], None)
    better: Literal["<=", ">="] = ">=" if study.direction == StudyDirection.MAXIMIZE else "<="
    return Explanation(trial_number, trial.params, value, None, _model(record, better))


def _model(record: dict[str, Any], better: Literal["<=", ">="]) -> Model:
    return Model(
        name=record["model"],
        observations=record["observations"],
        running=record["running"],
        gamma=record["gamma"],
        threshold=record["threshold"],
        better=better,
        log_evidence=record.get("log_evidence"),
        scales=record.get("scales", {}),
        class_probability=record.get("pi"),
        ratio=record.get("ratio"),
        expected_improvement=record.get("ei"),
        success=record.get("success"),
        acquisition=record["acquisition"],
        fit_seconds=record["fit_seconds"],
        maximise_seconds=record["maximise_seconds"],
    )


def _trial(study: Study, number: int) -> FrozenTrial:
    trials = study.get_trials(deepcopy=False)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigurationError.invalid("trial_number", number, "a whole number")
    if not trials:
        raise StudyError(f"The study has no trials yet, so there is no trial {number} to explain.")
    if not 0 <= number < len(trials):
        raise StudyError(f"There is no trial {number}: the study has trials 0 to {len(trials) - 1}.")
    return trials[number]


def _describe(model: Model) -> list[str]:
    seen = f"{model.observations} outcomes" + (f" and {model.running} running trials" if model.running else "")
    scales = ", ".join(f"{name} {_short(value)}" for name, value in model.scales.items())
    evidence = "" if model.log_evidence is None else f"; log evidence {model.log_evidence:.4g}"
    lines = [f"  model: {model.name}; {seen}{evidence}"]
    if scales:
        lines.append(f"  scales: {scales}")
    best = "the best"
    if model.class_probability is None:
        best = "the threshold"
        kind = "weighted class probability" if model.log_evidence is None else "acquisition, its labels weighted"
        lines.append(f"  {kind}, outcome {model.better} {model.threshold:.6g}: {model.acquisition:.3g}")
    else:
        chance = f"{model.ratio:.3g} times the {model.gamma:.0%} of the trials so far"
        lines.append(f"  P(outcome {model.better} {model.threshold:.6g}) = {model.class_probability:.3g}; {chance}")
    if model.expected_improvement is not None:
        lines.append(f"  expected improvement on {best}: {model.expected_improvement:.3g}")
    if model.success is not None:
        lines.append(f"  P(the trial does not fail) = {model.success:.3g}")
    lines.append(f"  took {1e3 * model.fit_seconds:.1f} ms to fit and {1e3 * model.maximise_seconds:.1f} ms to search")
    return lines


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_short(item)}" for key, item in value.items()) + "}"
    return str(value)
