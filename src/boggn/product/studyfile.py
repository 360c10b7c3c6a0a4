"""Reading a study file: what is wrong in it is told with its line and key."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from boggn.errors import BoggnError, ConfigurationError
from boggn.product.checks import Key, complaints
from boggn.product.definition import StudyFile
from boggn.product.lines import line_of
from boggn.product.plan import Plan
from boggn.product.space import Space, check_name, parse_parameter

_DECODE_LINE = re.compile(r"\(at line (\d+), column \d+\)")


class StudyFileError(ConfigurationError):
    r"""A study file says something that it may not."""


def load(path: Path, overrides: Sequence[str] = ()) -> Plan:
    """Read and check a study file; `overrides` such as "budget.trials=5" replace what it says."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a text with a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not a text in UTF-8; a study file is TOML"
        raise StudyFileError(f"{path}: cannot be read: {cause}. `boggn init` writes an example.") from error
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _DECODE_LINE.search(str(error))
        line = at.group(1) if at else max(1, len(text.splitlines()))
        cause = _DECODE_LINE.sub("", str(error)).strip().lower()
        twice = cause in {"cannot overwrite a value", "cannot declare () twice"}
        remedy = "A key may stand there once." if twice else "Texts need quotes, tables brackets."
        raise StudyFileError(f"{path}:{line}: not TOML: {cause}. {remedy}") from error
    for override in overrides:
        _override(data, override)
    return resolve(path, data, text)


def resolve(path: Path, data: dict[str, Any], text: str = "") -> Plan:
    """The plan that a file's content makes."""
    where = _Where(path, text)
    try:
        file = StudyFile.model_validate(data)
    except ValidationError as error:
        raise where.error(*_told(error)) from error
    space: Space = {}
    for name, written in file.space.items():
        try:
            check_name(name)
            space[name] = parse_parameter(f"space.{name}", written)
        except BoggnError as error:
            raise where.error(("space", name), _without_python(str(error))) from error
    plan = Plan(path.resolve(), file, space, data)
    for key, complaint in complaints(plan):
        raise where.error(key, complaint)
    return plan


@final
@dataclass(frozen=True)
class _Where:
    """A file, to point into."""

    path: Path
    text: str

    def error(self, key: Key, message: str) -> StudyFileError:
        """The message with the place of the key."""
        line = line_of(self.text, key)
        return StudyFileError(f"{self.path}{f':{line}' if line else ''}: {message}")


def _without_python(message: str) -> str:
    """The forms that TOML has."""
    begin, end = message.find(" must be an Optuna distribution"), message.find(", but got")
    if begin < 0 or end < begin:
        return message
    return f"{message[:begin]} must be {{ low = …, high = … }} or a list of choices{message[end:]}"


def _override(data: dict[str, Any], override: str) -> None:
    key, sign, text = override.partition("=")
    names = [name.strip() for name in key.split(".")]
    if not sign or not all(names):
        raise StudyFileError(f"--set {override!r} must be key=value, as in --set budget.trials=5.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a text without its quotes
    table = data
    for name in names[:-1]:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise StudyFileError(f"--set {override!r}: `{name}` is a value and has no keys.")
    table[names[-1]] = value


def _told(error: ValidationError) -> tuple[Key, str]:
    """The first complaint of the definition, in our words."""
    errors = error.errors(include_url=False)
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])  # misspelt, not missing
    key = tuple(part for part in first["loc"] if part not in {"str", "list[str]"})
    name = ".".join(map(str, key))
    if first["type"] == "extra_forbidden":
        allowed = _fields(key[:-1])
        near = difflib.get_close_matches(str(key[-1]), allowed, n=1)
        hint = f"Did you mean `{near[0]}`?" if near else f"There are {', '.join(allowed)}."
        return key, f"`{name}` is not a key of a study file. {hint}"
    if first["type"] == "missing":
        return key, f"`{name}` is missing. `boggn init` writes an example."
    return key, f"`{name}` {_wanted(first)}, but got {first['input']!r}.{_near(first)}"


_WANTED = {
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be a text",
    "list_type": "must be a list",
    "too_short": "must have {min_length} or more in it",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must be like module:function",
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
}
"""Pydantic's kinds of error in our words."""


def _wanted(error: ErrorDetails) -> str:
    if error["type"] in _WANTED:
        return _WANTED[error["type"]].format(**error.get("ctx", {}))
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    message = re.sub(r"a valid dictionary( or (an )?instance of \w+)?", "a table", message)
    return message[0].lower() + message[1:]


def _near(error: ErrorDetails) -> str:
    """A choice that was perhaps meant."""
    if error["type"] != "literal_error" or not isinstance(error["input"], str):
        return ""
    choices = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    near = difflib.get_close_matches(error["input"], choices, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _fields(key: Key) -> list[str]:
    model: Any = StudyFile
    for part in key:
        model = model.model_fields[str(part)].annotation
    return sorted(model.model_fields) if issubclass(model, BaseModel) else []
