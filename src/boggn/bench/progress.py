r"""How far the runs are: a bar with the time left on a terminal, a line per run in a log."""

from __future__ import annotations

import sys
import time
from typing import Any


class Progress:
    """Counts runs; `with` closes the bar."""

    def __init__(self, total: int) -> None:
        self._total, self._count, self._failed = total, 0, 0
        self._start = time.monotonic()
        self._bar: Any = None
        if sys.stderr.isatty():
            try:
                self._bar = _bar(total)
            except ImportError:
                return  # without the extra `cli`: lines

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, text: str, failed: bool) -> None:
        """One more run is done."""
        self._count += 1
        self._failed += failed
        if self._bar is not None:
            self._bar.update(0, advance=1, failed=f"{self._failed} failed", last=text)
            return
        left = (time.monotonic() - self._start) / self._count * (self._total - self._count)
        head = f"[{self._count}/{self._total}, {self._failed} failed, {left:.0f} s left]"
        print(f"{head} {text}", file=sys.stderr, flush=True)


def _bar(total: int) -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    said = (TextColumn("{task.fields[failed]}"), TextColumn("{task.fields[last]}", markup=False))
    bar = Bar(*columns, *said, console=Console(stderr=True))
    bar.add_task("", total=total, failed="", last="")
    bar.start()
    return bar
