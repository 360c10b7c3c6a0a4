"""`{name}` in a command, and what it stands for. `{{name}}` is the literal; other braces are left alone."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

BUILT_IN = {
    "trial": "the number of the trial",
    "folder": "the trial's folder",
    "result": "the JSON file for the result",
    "parameters": "the JSON file with the parameters",
    "python": "the Python that runs boggn",
}
_PLACE = re.compile(r"\{\{([A-Za-z_][\w-]*)\}\}|\{([A-Za-z_][\w-]*)\}")


def names_in(text: str) -> list[str]:
    """The placeholders of a text."""
    return [name for _, name in _PLACE.findall(text) if name]


def fill(text: str, values: Mapping[str, Any], quote: Callable[[str], str] = str) -> str:
    """The text with its values in place."""

    def one(match: re.Match[str]) -> str:
        literal, name = match.groups()
        return f"{{{literal}}}" if literal else quote(as_text(values[name]))

    return _PLACE.sub(one, text)


def quoted(text: str) -> str:
    """One word for a shell."""
    return shlex.quote(text)


def as_text(value: Any) -> str:
    """A value as a command reads it: numbers as Python writes them, true and false as JSON does."""
    return json.dumps(value) if isinstance(value, bool) or value is None else str(value)
