"""Which process works on a trial, so that another one can tell whether it is still alive."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

_PROCESSES = Path("/proc")
_START = 19
"""Where the time of the start stands in `stat`, counted from behind the command's closing bracket."""


@final
@dataclass(frozen=True)
class Owner:
    """A process: its machine, its number, and when it was born, because numbers are used again."""

    host: str
    pid: int
    born: str

    @classmethod
    def current(cls) -> Self:
        """This process."""
        return cls(platform.node(), os.getpid(), _born(os.getpid()))

    @classmethod
    def read(cls, stored: Any) -> Self | None:
        """The owner that a trial's attribute tells of, if it does."""
        if not isinstance(stored, dict) or not {"host", "pid", "born"} <= stored.keys():
            return None
        return cls(str(stored["host"]), int(stored["pid"]), str(stored["born"]))

    def is_dead(self) -> bool | None:
        """Whether the process has ended; None where that cannot be seen from this machine."""
        if self.host != platform.node() or sys.platform == "win32":  # where signal 0 is not a question
            return None
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # somebody else's
        return self.born != _born(self.pid)


def _born(pid: int) -> str:
    """When a process started, by the kernel's clock and the name of its boot; empty where there is no /proc."""
    with suppress(OSError, IndexError):
        stat = (_PROCESSES / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        fields = stat.rpartition(")")[2].split()
        if fields[0] == "Z":
            return "dead"  # ended, and not yet waited for by its parent
        boot = (_PROCESSES / "sys" / "kernel" / "random" / "boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}:{fields[_START]}"
    return ""
