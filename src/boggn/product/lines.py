"""Where in a TOML text a key stands: the parser of the standard library does not say."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
_LONG = ('"""', "'''")


def line_of(text: str, key: Sequence[str | int]) -> int | None:
    """The line of a key, or of the nearest table or key around it; None if not even that is written."""
    places = _places(text)
    names = [str(part) for part in key]
    for length in range(len(names), 0, -1):
        if (line := places.get(tuple(names[:length]))) is not None:
            return line
    return None


def _places(text: str) -> dict[tuple[str, ...], int]:
    places: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    inside: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if inside is not None:
            inside = None if inside in line else inside
            continue
        if header := _HEADER.match(line):
            table = _parts(header.group(1))
            places.setdefault(table, number)
        elif key := _KEY.match(line):
            whole = table + _parts(key.group(1))
            for length in range(1, len(whole) + 1):
                places.setdefault(whole[:length], number)
            inside = next((quote for quote in _LONG if line.count(quote) % 2), None)
    return places


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))
