"""One process, run to its end or ended: its output kept within bounds, and nothing of it left behind."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self, final

MARK = "BOGGN_MARK"
"""The variable by which a process that has left its group and its session is still known as the trial's."""

CHUNK = 1 << 16
KEPT_BYTES = 1 << 20
"""Of each stream so much of the beginning is kept, and so much of the end."""
LONGEST_LINE = 1 << 14
GRACE_SECONDS = 3.0
TICK_SECONDS = 0.1
_PROCESSES = Path("/proc")


@final
@dataclass(frozen=True)
class Ended:
    """How a process ended: by itself with a status, negative for a signal; or because it was ended, and why."""

    status: int
    stopped: str | None
    last_line: str
    error_tail: str


@final
class Capture:
    """A stream, written to a file with its middle left out where it is long, and cut into lines."""

    def __init__(self, path: Path, on_lines: Callable[[str], None] | None = None) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._on_lines = on_lines
        self._room = KEPT_BYTES
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._left_out = 0
        self._rest = b""
        self.last_line = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._lines(b"\n")
        if self._left_out:
            self._file.write(f"\n[... {self._left_out} bytes are left out here ...]\n".encode())
        for chunk in self._tail:
            self._file.write(chunk)
        self._file.close()

    def take(self, chunk: bytes) -> None:
        """Some more of the stream."""
        self._lines(chunk)
        head, rest = chunk[: self._room], chunk[self._room :]
        self._room -= len(head)
        self._file.write(head)
        self._file.flush()
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail_size > KEPT_BYTES:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self._left_out += gone

    def _lines(self, chunk: bytes) -> None:
        whole, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
        self._rest = self._rest[-LONGEST_LINE:]  # a line without end keeps its end
        if not newline or not (text := whole.decode("utf-8", errors="replace").strip()):
            return
        self.last_line = text.rpartition("\n")[2].strip()[-LONGEST_LINE:]
        if self._on_lines is not None:
            self._on_lines(text)


def run(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    logs: Path,
    on_lines: Callable[[str], None],
    should_stop: Callable[[float], str | None],
) -> Ended:
    """Run a command in a session of its own. `should_stop` is asked often, with the seconds gone, why to end it.

    When the command has ended, what it left running is killed: its group, and on Linux whatever bears the mark of its
    environment, even in another session.
    """
    with Capture(logs / "stdout.txt", on_lines) as output, Capture(logs / "stderr.txt") as errors:
        process = _start(words, cwd, env)
        try:
            stopped = _attend(process, {process.stdout: output, process.stderr: errors}, should_stop)
        finally:
            _end(process.pid)
            kill_strays(env.get(MARK, ""))
            status = process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
    return Ended(status, stopped, output.last_line, errors.last_line)


def kill_strays(name: str) -> None:
    """Kill every process with this mark in its environment. Linux alone can tell."""
    if not name or not _PROCESSES.is_dir():
        return
    mark = f"{MARK}={name}".encode()
    for entry in _PROCESSES.iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # gone, or another user's
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


def _start(words: Sequence[str], cwd: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603  the command is the user's own
            list(words),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except ValueError as error:  # a null byte, or = in the name of a variable
        raise OSError(f"the command cannot be started: {error}") from error


def _attend(
    process: subprocess.Popen[bytes],
    streams: Mapping[IO[bytes] | None, Capture],
    should_stop: Callable[[float], str | None],
) -> str | None:
    """Read the streams until the process has ended or is to be ended; why, in the second case."""
    began, stopped = time.monotonic(), None
    deadline = float("inf")
    with selectors.DefaultSelector() as selector:
        for stream, capture in streams.items():
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, capture)
        while not _has_ended(process.pid):
            for key, _ in selector.select(TICK_SECONDS):
                _read(selector, key)
            if not selector.get_map():
                time.sleep(TICK_SECONDS / 10)
            if stopped is None and (stopped := should_stop(time.monotonic() - began)) is not None:
                _signal_group(process.pid, signal.SIGTERM)
                deadline = time.monotonic() + GRACE_SECONDS
            elif time.monotonic() > deadline:
                break
        _end(process.pid)
        for key in list(selector.get_map().values()):  # what was written before the end
            while _read(selector, key):
                pass
    return stopped


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> bool:
    """Take what a stream has to give now; whether there may be more."""
    try:
        chunk = os.read(key.fd, CHUNK)
    except BlockingIOError:
        return False
    if chunk:
        key.data.take(chunk)
    else:
        selector.unregister(key.fileobj)
    return bool(chunk)


def _has_ended(pid: int) -> bool:
    """Without collecting it: until then its number, which is its group's too, is not given to another process."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(pid: int) -> None:
    _signal_group(pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
