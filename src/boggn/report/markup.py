"""HTML and SVG as values: whatever is not markup already is escaped, so no name or category can become code."""

from __future__ import annotations

import json
from html import escape
from typing import Any, final

VOID = frozenset({"meta", "br"})


@final
class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def markup(*children: object) -> Markup:
    """One after another; what is not markup is escaped, None is nothing."""
    return Markup(
        "".join(child if isinstance(child, Markup) else escape(str(child)) for child in children if child is not None)
    )


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. `class_` is `class`, `aria_label` is `aria-label`; an attribute of None or False is left out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        parts.append(f" {label}" if value is True else f' {label}="{escape(str(value))}"')
    parts.append(">")
    if name in VOID:
        return Markup("".join(parts))
    return Markup("".join(parts) + markup(*children) + f"</{name}>")


def embedded(value: Any) -> Markup:
    """JSON that may stand inside a script element: nothing in it can end that element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
