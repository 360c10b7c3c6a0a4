"""How far a study is: a live line on a terminal, now and then a plain one elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_LINES = 10
"""So many plain lines tell of a whole study."""


@dataclass(frozen=True)
class Standing:
    """Where a study stands: trials that count, how many of them failed, the best value, and how many are to be."""

    done: int
    failed: int
    best: str
    total: int | None


class Show(Protocol):
    """Tells of a standing."""

    def __call__(self, standing: Standing) -> None:
        """Show it."""


def error_console() -> Console | None:
    """A Rich console on the standard error, or None where Rich is not installed."""
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    return Console(stderr=True, highlight=False, soft_wrap=True)


@contextmanager
def showing(wanted: bool | None, start: Standing) -> Iterator[Show]:
    """Yield what shows a standing. `wanted`: None means on a terminal only, True plain lines elsewhere too."""
    console = error_console() if wanted is not False else None
    if console is not None and console.is_terminal:
        with _live(console, start) as show:
            yield show
    elif wanted:
        yield _Plain(start)
    else:
        yield lambda _: None


@contextmanager
def _live(console: Console, start: Standing) -> Iterator[Show]:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    texts = TextColumn("best {task.fields[best]}"), TextColumn("{task.fields[failures]}")
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    with Progress(BarColumn(), MofNCompleteColumn(), *texts, *times, console=console) as bar:
        task = bar.add_task("", total=start.total, completed=start.done, best=start.best, failures="")

        def show(standing: Standing) -> None:
            failures = f"{standing.failed} failed" if standing.failed else ""
            bar.update(task, completed=standing.done, total=standing.total, best=standing.best, failures=failures)

        show(start)
        yield show


class _Plain:
    """A line whenever a tenth of the trials is done; without a total, every so many seconds."""

    def __init__(self, start: Standing) -> None:
        self._last, self._began, self._told = start, start.done, time.monotonic()

    def __call__(self, standing: Standing) -> None:
        if standing == self._last or not self._due(standing):
            return
        self._last, self._told = standing, time.monotonic()
        of = "" if standing.total is None else f"/{standing.total}"
        failed = f", {standing.failed} failed" if standing.failed else ""
        with suppress(BrokenPipeError):  # who watched has left, and the study goes on
            sys.stderr.write(f"{standing.done}{of} trials, best {standing.best}{failed}\n")
            sys.stderr.flush()

    def _due(self, standing: Standing) -> bool:
        if standing.total is None:
            return time.monotonic() - self._told > 10.0
        share = max(1, (standing.total - self._began) // PLAIN_LINES)
        return standing.done >= standing.total or standing.done - self._last.done >= share
