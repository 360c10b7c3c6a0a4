r"""Run (task, method, seed) triples, each in a process of its own, and append one JSON row per run.

A row has the observed `values`, the noise-free `regrets` of the same points, `ask_seconds` and `tell_seconds` per
trial, `start_seconds`, `cpu_seconds` and `peak_bytes` of the optimiser, `duplicates` (points asked for before),
`recommended` (trial numbers by the method's own posterior mean, after as many evaluations as its keys say; noisy tasks
only), `versions`, `machine`, `commit`, and `error`: null, or why the run ended early.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import optuna

from boggn.bench import methods, resources, rows, tasks
from boggn.bench.optimiser import Optimiser, PruningOptimiser, check, trial_of
from boggn.bench.progress import Progress
from boggn.bench.rows import Job, Row, key, read_rows

__all__ = ["CHECKPOINTS", "Job", "Row", "environment", "execute", "key", "read_rows", "run", "run_jobs"]

CHECKPOINTS = (25, 50, 100)

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


# --- one run ----------------------------------------------------------------------------------------------------------


def execute(job: Job) -> Row:
    """Carry out one run in this process; a method that raises ends it, with what it did so far and its error."""
    row: Row = {**asdict(job), "values": [], "regrets": [], "ask_seconds": [], "tell_seconds": [], "recommended": {}}
    row |= {"duplicates": 0, "error": None, "recommend_error": None}
    row |= {"versions": rows.versions(), "machine": rows.machine(), "commit": rows.commit()}
    start = time.perf_counter()
    try:
        points = _minimise(job, row)
    except Exception:  # noqa: BLE001 - whatever a method under test raises is its result, and the other runs go on
        row["error"] = traceback.format_exc()
    else:
        _recommend(job, points, row)
    row["seconds"] = time.perf_counter() - start
    return row


def _minimise(job: Job, row: Row) -> list[tasks.Params]:
    task = tasks.get(job.task)
    resources.forget_peak()
    begin = time.perf_counter()
    optimiser = methods.get(job.method).start(task, job.seed, job.evals)
    try:
        row["start_seconds"] = time.perf_counter() - begin
        row["versions"] = {**row["versions"], **optimiser.versions()}
        if isinstance(optimiser, PruningOptimiser):
            points = list(_in_steps(optimiser, task, job, row))
        else:
            points = [_evaluate(optimiser, task, job, number, row) for number in range(job.evals)]
        used = optimiser.usage()
    finally:
        optimiser.close()
    row |= used._asdict()
    seen = [tuple(params.items()) for params in points]
    row["duplicates"] = len(seen) - len(set(seen))
    return points


def _evaluate(optimiser: Optimiser, task: tasks.Task, job: Job, number: int, row: Row) -> tasks.Params:
    begin = time.perf_counter()
    params = dict(optimiser.ask())
    asked = time.perf_counter()
    check(task, params)
    value = task.function(params, _noise(job, number))
    told = time.perf_counter()
    optimiser.tell(params, value)
    row["tell_seconds"].append(time.perf_counter() - told)
    row["ask_seconds"].append(asked - begin)
    row["values"].append(value)
    row["regrets"].append(task.regret(params))
    return params


def _noise(job: Job, number: int) -> np.random.Generator:
    """It depends on (task, seed, number) only: every method meets the same, and none shares its sampler's stream."""
    return np.random.default_rng([zlib.crc32(job.task.encode()), job.seed, number])


def _in_steps(optimiser: PruningOptimiser, task: tasks.Task, job: Job, row: Row) -> Iterator[tasks.Params]:
    """Evaluations that may be ended early, for as many steps as `evals` whole ones have.

    Whenever the steps of a whole one are used up, the row gets the best finished so far; before there is any, infinity.
    """
    left, value, regret = job.evals * task.steps, math.inf, math.inf
    while left > 0:
        begin = time.perf_counter()
        params = dict(optimiser.ask())
        row["ask_seconds"].append(time.perf_counter() - begin)
        check(task, params)
        curve = task.values(params, _noise(job, len(row["ask_seconds"]) - 1))[:left]
        begin = time.perf_counter()
        used = optimiser.watch(curve)
        if used < task.steps:
            optimiser.give_up()
        else:
            optimiser.tell(params, curve[-1])
            if curve[-1] < value:
                value, regret = curve[-1], task.regret(params)
        row["tell_seconds"].append(time.perf_counter() - begin)
        left -= used
        more = job.evals - -(-left // task.steps) - len(row["values"])
        row["values"] += [value] * more
        row["regrets"] += [regret] * more
        yield params


def _recommend(job: Job, points: list[tasks.Params], row: Row) -> None:
    """Ask for the best trial of each prefix of the history."""
    method, task = methods.get(job.method), tasks.get(job.task)
    if method.recommend is None or not task.noisy:
        return
    try:
        trials = [trial_of(task, params, value) for params, value in zip(points, row["values"], strict=True)]
        for count in sorted({c for c in CHECKPOINTS if c <= job.evals} | {job.evals}):
            row["recommended"][str(count)] = method.recommend(job.seed, trials[:count])
    except Exception:  # noqa: BLE001 - the run itself is whole: keep it, and say what is missing
        row["recommend_error"] = traceback.format_exc()


# --- many runs --------------------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    process: BaseProcess
    job: Job
    deadline: float


def run_jobs(
    jobs: Iterable[Job], workers: int, work: Callable[[Job], Row] = execute, limit: float | None = None
) -> Iterator[Row]:
    """Rows as runs finish, each run in a spawned process of its own with one thread; 0 workers run them right here.

    A process that dies (out of memory, a crash in native code) or takes more than `limit` seconds costs its run an
    error row, and the next one begins.
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
                    connection, worker = _start(pending.popleft(), work, limit)
                    active[connection] = worker
                soonest = min(worker.deadline for worker in active.values())
                ready = wait(active, None if soonest == float("inf") else max(soonest - time.monotonic(), 0))
                for connection, worker in list(active.items()):
                    if connection in ready:
                        yield _receive(connection, active.pop(connection))
                    elif time.monotonic() >= worker.deadline:
                        yield _stop(active.pop(connection), f"Stopped: the run took longer than {limit:g} s.")
        finally:
            for worker in active.values():
                _kill(worker)


def _start(job: Job, work: Callable[[Job], Row], limit: float | None) -> tuple[Connection, _Worker]:
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(theirs, work, job, os.getpid()))
    process.start()
    theirs.close()  # so that the worker's death reads as end of file
    return connection, _Worker(process, job, time.monotonic() + (float("inf") if limit is None else limit))


def _receive(connection: Connection, worker: _Worker) -> Row:
    try:
        row: Row = connection.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join()
        return _stop(worker, f"The worker process died with exit code {worker.process.exitcode}.")
    connection.close()
    worker.process.join()
    return row


def _stop(worker: _Worker, why: str) -> Row:
    _kill(worker)
    return failure(worker.job, why)


def failure(job: Job, why: str) -> Row:
    """The row of a run that has nothing to show."""
    return {**asdict(job), "versions": rows.versions(), "error": why}


def _kill(worker: _Worker) -> None:
    """The worker, and the peer it may have started, which are a process group."""
    if worker.process.pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.process.pid, signal.SIGKILL)
    worker.process.kill()
    worker.process.join()


def _serve(connection: Connection, work: Callable[[Job], Row], job: Job, runner: int) -> None:
    os.setpgid(0, 0)
    threading.Thread(target=_leave_with, args=(runner,), daemon=True).start()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    connection.send(work(job))


def _leave_with(runner: int) -> None:
    """A runner that is killed cannot stop its runs: they stop by themselves, with the peers they started."""
    while os.getppid() == runner:
        time.sleep(0.5)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _one_thread_each() -> contextlib.AbstractContextManager[None]:
    """Children inherit the environment at start; numerical libraries read it when they are first imported.

    What one run compiles the next ones find on disk, or each would compile the same for seconds.
    """
    compiled = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "boggn" / "bench-jax"
    cache = {"JAX_COMPILATION_CACHE_DIR": str(compiled), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    flags = " ".join(filter(None, [os.environ.get("XLA_FLAGS"), _ONE_THREAD["XLA_FLAGS"]]))
    return environment(**{**cache, **_kept(cache), **_ONE_THREAD, "XLA_FLAGS": flags})


@contextlib.contextmanager
def environment(**wanted: str) -> Iterator[None]:
    """These variables inside, and as they were afterwards."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _kept(names: Iterable[str]) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def run(
    jobs: list[Job], out: Path, workers: int, work: Callable[[Job], Row] = execute, limit: float | None = None
) -> int:
    """Do the jobs that `out` does not have yet, failed ones again; returns how many failed now."""
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {key(row) for row in read_rows(out) if row["error"] is None} if out.exists() else set()
    todo = [job for job in jobs if job not in done]
    todo = _without_absent(todo, out) if work is execute else todo
    print(f"{len(jobs) - len(todo)} of {len(jobs)} runs are in {out} already", file=sys.stderr)
    failed = 0
    with Progress(len(todo)) as progress:
        for row in run_jobs(todo, workers, work, limit):
            rows.append(out, row)
            failed += row["error"] is not None
            progress.advance(_summary(row), row["error"] is not None)
    return failed


def _without_absent(jobs: list[Job], out: Path) -> list[Job]:
    """A row for every run whose method is not installed, so that it is missed and not forgotten."""
    missing = {name: methods.absent(name) for name in dict.fromkeys(job.method for job in jobs)}
    for name, package in missing.items():
        if package is not None:
            print(f"{name} is absent: it needs {package}", file=sys.stderr)
    for job in jobs:
        if missing[job.method] is not None:
            why = f"Absent: {missing[job.method]} is not installed."
            rows.append(out, {**failure(job, why), "absent": True})
    return [job for job in jobs if missing[job.method] is None]


def _summary(row: Row) -> str:
    name = f"{row['task']} {row['method']} {row['seed']}"
    if row["error"] is not None:
        return f"{name}: {row['error'].strip().splitlines()[-1]}"
    return f"{name}: regret {min(row['regrets']):.2g}, ask {1e3 * float(np.mean(row['ask_seconds'])):.0f} ms"
