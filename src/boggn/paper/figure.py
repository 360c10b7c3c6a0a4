"""What a figure is: a picture, the numbers in it, a caption, and the command that makes all three again.

Into a folder go `NAME.png`, `NAME.csv` (one row per number drawn) and `NAME.md` (caption, summary, command). A figure
whose numbers come from long runs keeps them in `NAME.jsonl`, so that a second call goes on where the first stopped.
"""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boggn.errors import BoggnError, ConfigurationError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

Row = Mapping[str, Any]
NAMES = ("fig1", "fig2", "fig3", "fig4", "fig5", "fig6")
DIGITS = 6
"""Significant digits of a number in a file: more would differ from one processor to the next."""


@dataclass(frozen=True)
class Size:
    """How large a figure's study is; None: the figure's own default."""

    seeds: int | None = None
    evals: int | None = None
    jobs: int = 2

    def __post_init__(self) -> None:
        for name in ("seeds", "evals", "jobs"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise ConfigurationError.invalid(name, count, "a whole number, 1 or more")


@dataclass(frozen=True)
class Request:
    """What a figure is made for: its sizes resolved, and a file for the runs it may resume."""

    seeds: int
    evals: int
    jobs: int
    runs: Path


@dataclass(frozen=True)
class Drawn:
    """What a figure makes. `numbers` go to the CSV file, `summary` is the table under the caption."""

    picture: Picture
    numbers: Sequence[Row]
    caption: str
    summary: Sequence[Row]


@dataclass(frozen=True)
class Figure:
    """How a figure is made; a size that is None here is one the figure does not have."""

    title: str
    draw: Callable[[Request], Drawn]
    seeds: int | None = None
    evals: int | None = None


def make(name: str, out: Path, size: Size | None = None) -> list[Path]:
    """Make one figure in a folder; the files written."""
    figure, size = find(name), size or Size()
    request = Request(
        seeds=_resolved(name, "seeds", size.seeds, figure.seeds),
        evals=_resolved(name, "evals", size.evals, figure.evals),
        jobs=size.jobs,
        runs=out / f"{name}.jsonl",
    )
    out.mkdir(parents=True, exist_ok=True)
    drawn = figure.draw(request)
    picture, numbers, text = (out / f"{name}.{ending}" for ending in ("png", "csv", "md"))
    drawn.picture.savefig(picture, dpi=150, metadata={"Software": None})
    _write_csv(numbers, drawn.numbers)
    text.write_text(_page(name, figure, request, drawn), encoding="utf-8")
    return [picture, numbers, text]


def fitting(name: str, size: Size) -> Size:
    """The part of a size that a figure has, where one size is meant for all of them."""
    figure = find(name)
    return Size(
        seeds=size.seeds if figure.seeds is not None else None,
        evals=size.evals if figure.evals is not None else None,
        jobs=size.jobs,
    )


def find(name: str) -> Figure:
    """The figure of that name; its module is imported only now."""
    if name not in NAMES:
        raise ConfigurationError.invalid("figure", name, "one of " + ", ".join(NAMES))
    try:
        figure: Figure = importlib.import_module(f"boggn.paper.{name}").FIGURE
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "boggn":
            raise
        message = f"The figures need the package {error.name!r}: install the extra `boggn[paper]`."
        raise BoggnError(message) from error
    return figure


def command(name: str, figure: Figure, request: Request) -> str:
    """The command line that makes the figure again; the number of processes changes nothing, so it is not in it."""
    sizes = [f"--{size} {getattr(request, size)}" for size in ("seeds", "evals") if getattr(figure, size) is not None]
    return " ".join(["boggn paper", name, *sizes, "--out FOLDER"])


def _resolved(name: str, size: str, given: int | None, default: int | None) -> int:
    if given is not None and default is None:
        raise ConfigurationError.invalid(size, given, f"left out: {name} has no such size")
    return given or default or 0


def short(value: Any) -> str:
    """A number as files and tables show it."""
    if isinstance(value, bool) or not isinstance(value, float):
        return "" if value is None else str(value)
    return f"{value:.{DIGITS}g}"


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([short(row.get(name)) for name in names] for row in rows)


def markdown_table(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table, numbers to three digits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [names, ["---"] * len(names), *cells])


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else short(value)


def _page(name: str, figure: Figure, request: Request, drawn: Drawn) -> str:
    parts = [
        f"# {figure.title}",
        f"![{figure.title}]({name}.png)",
        drawn.caption,
        markdown_table(drawn.summary) if drawn.summary else "",
        f"Numbers: [{name}.csv]({name}.csv). Made by `{command(name, figure, request)}`.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
