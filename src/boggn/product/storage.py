"""Where studies are kept: any of Optuna's storages, named by an address or a file."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalStorage
from optuna.storages.journal._file import BaseJournalFileLock

from boggn.errors import ConfigurationError, StudyError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

SQLITE = (".db", ".sqlite", ".sqlite3")
JOURNAL = (".journal", ".log")
ADDRESSES = (
    "a file that ends in .db (SQLite) or .journal, or an address such as sqlite:///study.db, "
    "postgresql://user@host/name, redis://host or grpc://host:13000"
)
SQLITE_ADDRESS = "sqlite:///"
_SQLITE_HEAD = b"SQLite format 3\0"
_MADE_MEANWHILE = ("already exists", "UNIQUE", "unique", "no such table")
_MOMENT = 0.2
_PATIENCE = 120.0
"""Seconds that one SQLite worker waits for another one's turn."""


def shown(name: str) -> str:
    """An address as it may be printed: without its password."""
    return re.sub(r"(password=)[^&]*", r"\1***", re.sub(r"(://[^:/@]*):.*@", r"\1:***@", name))


def file_of(name: str) -> Path | None:
    """The file of a storage that is one."""
    return Path(name.removeprefix(SQLITE_ADDRESS)) if "://" not in name or name.startswith(SQLITE_ADDRESS) else None


def open_storage(name: str | os.PathLike[str], *, tries: int = 10) -> BaseStorage:
    """The storage of an address or a file, which is made if it does not exist.

    Of two processes that make one at the same time Optuna lets one fail; that one tries again.
    """
    text = os.fspath(name)
    told = shown(text)
    if (file := file_of(text)) is not None and text.endswith((*SQLITE, *JOURNAL)) and not file.parent.is_dir():
        raise StudyError(f"Storage {told!r} cannot be opened: there is no folder {str(file.parent)!r}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)  # of theirs: the user has asked for it
            return _open(text)
    except (OSError, ImportError, ValueError, StorageInternalError) as error:
        if isinstance(error, ConfigurationError):
            raise
        if isinstance(error.__cause__, ModuleNotFoundError):
            needed = error.__cause__.name
            raise StudyError(f"Storage {told!r} needs the package {needed!r}: pip install {needed}") from error
        cause = str(error).strip().splitlines() or [type(error).__name__]
        raise StudyError(f"Storage {told!r} cannot be opened: {cause[0]} Give {ADDRESSES}.") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] != "sqlalchemy":
            raise
        cause = str(error).strip().splitlines()
        if tries > 1 and any(sign in cause[0] for sign in _MADE_MEANWHILE):
            time.sleep(_MOMENT)
            return open_storage(name, tries=tries - 1)
        if type(error).__name__ == "NoSuchModuleError":
            raise StudyError(f"Storage {told!r} is of no known kind. Give {ADDRESSES}.") from error
        remedy = "Is it a database, and reachable?" if file is None else "May it be read and written?"
        raise StudyError(f"Storage {told!r} cannot be opened: {cause[0]}. {remedy}") from error


def open_existing(name: str) -> BaseStorage:
    """The storage of an address or a file. A file is known by what is in it, must exist, and must be one of Optuna's.

    Optuna would make a database where there is none, and its tables in one that is somebody else's.
    """
    path = file_of(name)
    if path is None:
        return open_storage(name)
    if not path.is_file():
        raise StudyError(f"There is no file {str(path)!r}: name a study file, a storage's file or its address.")
    with path.open("rb") as file:
        head = file.read(len(_SQLITE_HEAD))
    if head == _SQLITE_HEAD:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchone():
                raise StudyError(f"{path} is an SQLite file, but none of Optuna: it holds no studies.")
        return open_storage(f"{SQLITE_ADDRESS}{path}")
    if not head.startswith(b"{"):
        raise StudyError(f"{path} is neither a study file, nor an SQLite file or a journal file of Optuna.")
    return _journal(str(path))


def _open(text: str) -> BaseStorage:
    scheme, mark, rest = text.partition("://")
    if not mark:
        if text.endswith(SQLITE):
            return _open(f"{SQLITE_ADDRESS}{text}")
        if text.endswith(JOURNAL):
            return _journal(text)
        raise ConfigurationError.invalid("storage", text, ADDRESSES)
    if scheme == "grpc":
        from optuna.storages import GrpcStorageProxy

        host, _, port = rest.rpartition(":")
        if not host or not port.isdigit():
            raise ConfigurationError.invalid("storage", text, "grpc://host:port where it begins with grpc")
        return GrpcStorageProxy(host=host, port=int(port))
    if scheme.startswith("redis"):
        from optuna.storages.journal import JournalRedisBackend

        return JournalStorage(JournalRedisBackend(text))
    if scheme.startswith("sqlite"):
        return RDBStorage(text, engine_kwargs={"connect_args": {"timeout": _PATIENCE}})
    return RDBStorage(text)


def _journal(path: str) -> JournalStorage:
    return JournalStorage(JournalFileBackend(path, lock_obj=_journal_lock(path)))


def _journal_lock(path: str) -> _FileLock | None:
    return None if sys.platform == "win32" else _FileLock(path)


class _FileLock(BaseJournalFileLock):
    """The journal's lock, held by the kernel: a process that is killed lets go of it at once.

    A process killed in the middle of a line leaves half of it behind; whoever locks next cuts it off.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._held: list[int] = []

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._held.append(lock(self._path.with_name(self._path.name + ".lock")))
        self._cut_half_a_line()
        return True

    def release(self) -> None:
        """Let go of it."""
        os.close(self._held.pop())

    def _cut_half_a_line(self) -> None:
        with self._path.open("r+b") as file:
            end = file.seek(0, os.SEEK_END)
            if end == 0:
                return
            file.seek(end - 1)
            if file.read(1) == b"\n":
                return
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)


def lock(path: Path) -> int:
    """Wait for the lock of a file, and hold it until the descriptor returned is closed or the process ends."""
    import fcntl

    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone among the processes that lock this file."""
    descriptor = lock(path)
    try:
        yield
    finally:
        os.close(descriptor)
