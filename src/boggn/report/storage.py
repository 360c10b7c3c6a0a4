"""A study from where it is stored: an address that Optuna knows, or a file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.exc import SQLAlchemyError

from boggn.errors import StudyError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage
    from optuna.study import Study

_SQLITE = b"SQLite format 3\0"


def load(place: str, name: str | None = None) -> Study:
    """The study of that name, or the only one there, from a storage URL, an SQLite file or a journal file."""
    storage = _storage(place)
    try:
        names = sorted(each.study_name for each in optuna.get_all_study_summaries(storage, include_best_trial=False))
    except (SQLAlchemyError, ImportError, RuntimeError) as error:
        raise StudyError(f"Optuna cannot open {place}: {error}") from error
    known = ", ".join(map(repr, names)) or "none"
    if name is None:
        if len(names) != 1:
            raise StudyError(f"{place} has {len(names)} studies ({known}): say which one with --study.")
        name = names[0]
    if name not in names:
        raise StudyError(f"{place} has no study {name!r}: it has {known}.")
    return optuna.load_study(study_name=name, storage=storage)


def _storage(place: str) -> str | BaseStorage:
    # Optuna would make a new database where there is none, and its tables in one that is not its own.
    path = Path(place.removeprefix("sqlite:///") if place.startswith("sqlite:///") else place)
    if "://" in place and not place.startswith("sqlite:///"):
        return place
    if not path.is_file():
        raise StudyError(f"There is no file {path}. Give a storage URL, an SQLite file or a journal file.")
    with path.open("rb") as file:
        head = file.read(len(_SQLITE))
    if head == _SQLITE:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'studies'").fetchone():
                raise StudyError(f"{path} is an SQLite file, but none of Optuna: it holds no studies.")
        return f"sqlite:///{path}"
    if not head.startswith(b"{"):
        raise StudyError(f"{path} is neither an SQLite file nor a journal file of Optuna.")
    return JournalStorage(JournalFileBackend(str(path)))
