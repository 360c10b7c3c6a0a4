"""What may stand in a study file: the one definition, from which its check and its JSON schema are made."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(
    r"(?:(\d+(?:\.\d+)?)\s*d)?\s*(?:(\d+(?:\.\d+)?)\s*h)?\s*(?:(\d+(?:\.\d+)?)\s*m)?\s*(?:(\d+(?:\.\d+)?)\s*s)?"
)

Choice = str | float | int | bool


def _seconds(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if match is None or not any(match.groups()):
        raise ValueError("must be a number of seconds or a text such as '90s', '10m', '2h' or '1d 12h'")
    return sum(float(part) * unit for part, unit in zip(match.groups(), _UNITS.values(), strict=True) if part)


def _pattern(value: Any) -> Any:
    if isinstance(value, str):
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"must be a regular expression: {error}") from error
    return value


_DURATION_SCHEMA = {
    "anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": "^[0-9.dhms ]+$"}],
}
Duration = Annotated[float, BeforeValidator(_seconds), Field(gt=0), WithJsonSchema(_DURATION_SCHEMA)]
Pattern = Annotated[str, BeforeValidator(_pattern), WithJsonSchema({"type": "string", "format": "regex"})]

_NUMBER = {"type": "number"}
_CHOICES = {"type": "array", "minItems": 1, "items": {"type": ["string", "number", "boolean"]}}
_PARAMETER = {
    "anyOf": [
        _CHOICES,
        {
            "type": "object",
            "required": ["choices"],
            "additionalProperties": False,
            "properties": {"choices": _CHOICES},
        },
        {
            "type": "object",
            "required": ["low", "high"],
            "additionalProperties": False,
            "properties": {
                "low": _NUMBER,
                "high": _NUMBER,
                "log": {"type": "boolean", "description": "A logarithmic scale: for learning rates and sizes."},
                "step": {"type": "number", "exclusiveMinimum": 0},
                "type": {"enum": ["int", "float"], "description": "Whole numbers, if low and high are written so."},
            },
        },
    ]
}
_SPACE = {"type": "object", "minProperties": 1, "additionalProperties": _PARAMETER}


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class StudyTable(_Table):
    """The study as a whole."""

    name: str | None = Field(default=None, min_length=1, description="Its name in the storage; else that of the file.")
    direction: Literal["minimize", "maximize"] | None = Field(default=None, description="minimize, if nothing is said.")
    directions: list[Literal["minimize", "maximize"]] | None = Field(
        default=None, min_length=2, description="One per objective, where there are several."
    )
    storage: str | None = Field(
        default=None,
        description="A file (.db, .journal), relative to this one, or an address; else a file beside this one.",
    )
    seed: int | None = Field(
        default=None, ge=0, lt=2**31, description="Repeats the suggestions; else it is drawn and kept."
    )
    workers: int = Field(default=1, ge=1, le=1024, description="Processes that work on it at the same time.")


class ObjectiveTable(_Table):
    """What is evaluated: a command or a Python function."""

    command: str | list[str] | None = Field(
        default=None,
        min_length=1,
        description="A command with {parameter} in the place of values. A text is split as a shell would.",
    )
    function: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$",
        description="module:function; it receives the parameters as a dictionary and returns the value.",
    )
    shell: bool = Field(
        default=False, description="Give the command's text to sh: pipes and && work, values are quoted."
    )
    env: dict[str, str] = Field(default_factory=dict, description="More environment variables; {parameter} works.")
    cwd: Literal["study", "trial"] = Field(
        default="study", description="Where it starts: beside this file, or in its folder."
    )
    timeout: Duration | None = Field(default=None, description="A trial is ended after so long, and fails.")
    retries: int = Field(default=0, ge=0, description="How often a trial that failed is tried again.")


class ResultTable(_Table):
    """How the value is read."""

    read: Literal["last-line", "json", "regex"] = Field(
        default="last-line", description="From the last line printed, a JSON file, or the last match of a pattern."
    )
    file: str = Field(
        default="result.json", min_length=1, description="The JSON file, in the trial's folder ({result})."
    )
    key: str | list[str] = Field(default="value", description="Its key; with dots inside tables; one per objective.")
    pattern: Pattern | None = Field(
        default=None, description="The pattern; its group is the number, one per objective."
    )
    intermediate: Pattern = Field(
        default=r"step=(?P<step>\d+)\s+value=(?P<value>\S+)",
        description="Lines that tell of a value on the way, with groups `step` and `value`; the pruner reads them.",
    )
    metrics: dict[str, Pattern] = Field(
        default_factory=dict, description="More numbers to keep with the trial, each with a pattern with one group."
    )


class BudgetTable(_Table):
    """When to stop; whatever comes first."""

    trials: int | None = Field(
        default=None, ge=1, description="Finished trials in all, failed ones and earlier runs included."
    )
    time: Duration | None = Field(default=None, description="No trial begins after so long in this run.")
    regret: float | None = Field(
        default=None,
        gt=0,
        description="Stop when with 95 % probability the best is no further from the optimum than this.",
    )
    failures: int | None = Field(default=20, ge=1, description="Stop after so many failures in a row.")


class SamplerTable(BaseModel):
    """What suggests; every other key is one of its options."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Literal["boggn", "tpe", "random", "nsgaii", "qmc"] = Field(
        default="boggn", description="boggn, or one of Optuna's."
    )


class PrunerTable(BaseModel):
    """What ends hopeless trials early; every other key is one of its options in Optuna."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    name: Literal["none", "median", "percentile", "successive-halving", "hyperband"] = Field(default="none")


class StudyFile(_Table):
    """A study of boggn: what to evaluate, over which space, until when."""

    study: StudyTable = StudyTable()
    objective: ObjectiveTable
    space: Annotated[dict[str, Any], WithJsonSchema(_SPACE)] = Field(
        description="Each parameter's range or choices.", min_length=1
    )
    result: ResultTable = ResultTable()
    budget: BudgetTable
    sampler: SamplerTable = SamplerTable()
    pruner: PrunerTable = PrunerTable()


def schema() -> dict[str, Any]:
    """The JSON schema of a study file, for editors."""
    made = StudyFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
