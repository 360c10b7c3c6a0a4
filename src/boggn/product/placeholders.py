"""`{name}` in a command, and what it stands for. `{{name}}` is the literal; other braces are left alone."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

BUILT_IN = {
    "trial": "the number of the trial",
    "folder": "the trial's folder",
    "result": "the JSON file for the result",
    "parameters": "the JSON file with the parameters",
    "python": "the Python that runs boggn",
}
_A_NAME = r"[A-Za-z_][\w.-]*"


def _place(names: Iterable[str]) -> re.Pattern[str]:
    """Finds what is to be left in braces, and what is to be filled in. A parameter may have any name."""
    known = "|".join(map(re.escape, names))
    return re.compile(rf"\{{\{{({known}|{_A_NAME})\}}\}}|\{{({known})\}}")


def used_in(text: str, known: Iterable[str]) -> set[str]:
    """The placeholders of a text."""
    return {name for _, name in _place(known).findall(text) if name}


def unknown_in(text: str, known: Iterable[str]) -> list[str]:
    """What looks like a placeholder and is none of those known; `${name}` is the shell's."""
    return re.findall(rf"(?<!\$)\{{({_A_NAME})\}}", _place(known).sub("", text))


def fill(text: str, values: Mapping[str, Any], quote: Callable[[str], str] = str) -> str:
    """The text with its values in place."""

    def one(match: re.Match[str]) -> str:
        literal, name = match.groups()
        return f"{{{literal}}}" if literal else quote(as_text(values[name]))

    return _place(values).sub(one, text)


def quoted(text: str) -> str:
    """One word for a shell."""
    return shlex.quote(text)


def as_text(value: Any) -> str:
    """A value as a command reads it: numbers as Python writes them, true and false as JSON does."""
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)
