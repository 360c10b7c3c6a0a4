"""A study file whose every word has been understood: what it says, and what follows from it."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from boggn.product.definition import StudyFile
from boggn.product.space import Space
from boggn.product.storage import SQLITE_ADDRESS

CALL = Path(__file__).with_name("call.py")
DATABASE, JOURNAL = ".db", ".journal"


@final
@dataclass(frozen=True)
class Plan:
    """`path` is absolute, and `data` is what the file and the overrides said."""

    path: Path
    file: StudyFile
    space: Space
    data: dict[str, Any]

    @property
    def base(self) -> Path:
        """The folder of the file, to which its paths are relative."""
        return self.path.parent

    @property
    def name(self) -> str:
        """Of the study."""
        return self.file.study.name or self.path.stem

    @property
    def directions(self) -> list[str]:
        """One per objective."""
        table = self.file.study
        return list(table.directions) if table.directions else [table.direction or "minimize"]

    @property
    def folder(self) -> Path:
        """Where the trials have their folders."""
        return self.base / f"{self.path.stem}.trials"

    @property
    def storage(self) -> str:
        """As written; else the file that exists; else SQLite for one worker and a journal for several."""
        written = self.file.study.storage
        if written is not None:
            if written.startswith(SQLITE_ADDRESS):
                return f"{SQLITE_ADDRESS}{self.base / written.removeprefix(SQLITE_ADDRESS)}"
            return written if "://" in written else str(self.base / written)
        if self.files:
            return str(self.files[0])
        return str(self.path.with_suffix(DATABASE if self.file.study.workers == 1 else JOURNAL))

    @property
    def files(self) -> list[Path]:
        """Where a study is that said nothing of its storage: one file, or none yet."""
        if self.file.study.storage is not None:
            return []
        return [path for end in (DATABASE, JOURNAL) if (path := self.path.with_suffix(end)).exists()]

    @property
    def words(self) -> list[str]:
        """The command's words, its placeholders unfilled. A path in the first one is relative to the file."""
        table = self.file.objective
        if table.command is None:
            return ["{python}", "-P", str(CALL), str(self.base), str(table.function)]
        if isinstance(table.command, str) and table.shell:
            return ["sh", "-c", table.command]
        words = shlex.split(table.command) if isinstance(table.command, str) else list(table.command)
        return [str(self.base / words[0]), *words[1:]] if words and "/" in words[0] else words

    @property
    def python(self) -> str:
        """What {python} stands for."""
        return sys.executable
