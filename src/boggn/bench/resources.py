r"""What a process used: CPU time and memory, as its operating system counts them.

Standard library only: the peers' processes load it too, in environments that have no boggn.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import NamedTuple


class Usage(NamedTuple):
    """CPU seconds of all threads, and the largest resident size of the process in bytes."""

    cpu_seconds: float
    peak_bytes: int


_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def peak_bytes() -> int:
    """Of this process, since `forget_peak` where that is possible, else since it began."""
    if _STATUS.exists():  # Linux: the high-water mark, which `forget_peak` lowers; that of getrusage never falls
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def forget_peak() -> None:
    """Start the high-water mark anew, so that reading a task's table does not count as the optimiser's memory."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return  # not Linux, or not allowed: the mark includes the task
