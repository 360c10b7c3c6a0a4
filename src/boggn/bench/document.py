r"""A report before it is drawn: sections of sentences and tables, for Markdown, a terminal or HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any


@dataclass(frozen=True)
class Table:
    """Text in cells; the first column names the line."""

    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, head: Iterable[str], lines: Iterable[Sequence[str]]) -> Table:
        """From any iterables."""
        return cls(tuple(head), tuple(tuple(line) for line in lines))


@dataclass(frozen=True)
class Section:
    """A title, and what stands under it; without parts it is left out."""

    title: str
    parts: list[str | Table] = field(default_factory=list)


def markdown(sections: Iterable[Section]) -> str:
    """Markdown, as the documentation has it."""
    return "\n\n".join(
        text
        for section in sections
        if section.parts
        for text in [f"## {section.title}", *(_markdown_part(part) for part in section.parts)]
    )


def _markdown_part(part: str | Table) -> str:
    if isinstance(part, str):
        return part
    return "\n".join("| " + " | ".join(line) + " |" for line in [part.head, ["---"] * len(part.head), *part.lines])


def terminal(sections: Iterable[Section]) -> Any:
    """Rich's tables; only for `rich.print`."""
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn: list[Any] = []
    for section in sections:
        if section.parts:
            drawn.append(Text(f"\n{section.title}", style="bold"))
        for part in section.parts:
            if isinstance(part, str):
                drawn.append(Text(part))
                continue
            table = RichTable(box=None, pad_edge=False, header_style="dim")
            for name, *cells in zip(part.head, *part.lines, strict=True):
                table.add_column(name, justify="right" if all(map(_is_number, cells)) else "left", overflow="fold")
            for line in part.lines:
                table.add_row(*(Text(cell) for cell in line))
            drawn.append(table)
    return Group(*drawn)


def _is_number(cell: str) -> bool:
    return cell[:1] in "-0123456789"


def html(sections: Iterable[Section]) -> str:
    """HTML of every section, its tables in a box that scrolls."""
    return "\n".join(
        f"<section><h2>{escape(section.title)}</h2>{''.join(map(_html_part, section.parts))}</section>"
        for section in sections
        if section.parts
    )


def _html_part(part: str | Table) -> str:
    if isinstance(part, str):
        return f"<p>{escape(part)}</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in part.head)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in line)}</tr>" for line in part.lines)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
