"""The command line, as tests call it: in this process where that is enough, in one of its own where it matters."""

import os
import subprocess
import sys
from pathlib import Path

from boggn import cli

MEMORY = Path("/dev/shm")  # noqa: S108
"""What is tested is processes, and SQLite waits for the disk at every step: so where memory is offered, it is taken."""


# A point that was evaluated may be suggested again where the model expects noise, unless the objective has none.
SHARED = """\
[study]
workers = 4
storage = "{storage}"
[objective]
command = "awk 'BEGIN {{ print ({{x}} - 0.3)^2 + {{y}} }}'"
[space]
x = {{ low = 0.0, high = 1.0 }}
y = {{ low = 0.0, high = 1.0 }}
[budget]
trials = {total}
[sampler]
n_startup_trials = {startup}
deterministic_objective = true
"""


def call(*arguments: str | Path) -> int:
    """Run the command line in this process; its exit status."""
    before = sys.argv
    sys.argv = ["boggn", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as leaving:
        return int(leaving.code or 0)
    finally:
        sys.argv = before
    return 0


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "boggn", *map(str, arguments)]


def spawn(*arguments: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(*arguments), input=stdin, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr
    return done


def has_memory() -> bool:
    return MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
