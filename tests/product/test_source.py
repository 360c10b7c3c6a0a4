"""A study is found by what its storage holds, and nothing that is not ours is written to."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from boggn.errors import ConfigurationError, StudyError
from boggn.product.source import find
from boggn.product.storage import open_storage, shown


def named(where: object, name: str | None = None) -> str:
    return find(str(where), name).study.study_name


def test_the_only_study_or_the_one_of_that_name(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    optuna.create_study(storage=url, study_name="one")
    assert named(tmp_path / "study.db") == "one"
    optuna.create_study(storage=url, study_name="two")
    assert named(url, "two") == "two"
    with pytest.raises(StudyError, match=r"several studies: say which with --study\. There are: 'one', 'two'"):
        named(url)
    with pytest.raises(StudyError, match="no study three"):
        named(url, "three")


def test_a_file_is_known_by_what_is_in_it(tmp_path: Path) -> None:
    for name in ("study.journal", "of-any-name"):
        storage = JournalStorage(JournalFileBackend(str(tmp_path / name)))
        optuna.create_study(storage=storage, study_name="logged")
        assert named(tmp_path / name) == "logged"
    (tmp_path / "notes.txt").write_text("something else", encoding="utf-8")
    with pytest.raises(StudyError, match="neither a study file, nor an SQLite file or a journal"):
        named(tmp_path / "notes.txt")


def test_nothing_is_made_or_changed(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="There is no file"):
        named(f"sqlite:///{tmp_path}/absent.db")
    assert not (tmp_path / "absent.db").exists()
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("CREATE TABLE mine (x)")
    before = other.read_bytes()
    with pytest.raises(StudyError, match="none of Optuna"):
        named(other)
    assert other.read_bytes() == before


STUDY = "[objective]\ncommand = 'echo {x}'\n[space]\nx = [1, 2]\n[budget]\ntrials = 1\n"


def test_a_study_file_that_was_never_run_has_no_study_yet(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    with pytest.raises(StudyError, match=r"no study 'study' of .*study\.toml yet: `boggn run .*` begins it"):
        named(path)
    assert list(tmp_path.iterdir()) == [path]
    assert find(str(path), None, make=True).study.study_name == "study"
    assert named(path) == "study"
    with pytest.raises(StudyError, match="no study 'other'"):
        named(path, "other")


def test_two_files_that_may_have_the_study_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    for name in ("study.db", "study.journal"):
        path.with_name(name).touch()
    with pytest.raises(ConfigurationError, match=r"there are study\.db and study\.journal: say with `study\.storage`"):
        named(path)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("postgresql://lab:s3@cr:et@host/x", "postgresql://lab:***@host/x"),
        ("redis://:secret@host:6379", "redis://:***@host:6379"),
        ("postgresql:///x?user=a&password=secret&host=b", "postgresql:///x?user=a&password=***&host=b"),
        ("postgresql://lab@host/x", "postgresql://lab@host/x"),
        ("a/study.db", "a/study.db"),
    ],
)
def test_a_password_is_not_printed(name: str, printed: str) -> None:
    assert shown(name) == printed


def test_what_cannot_be_opened_is_told_with_a_remedy_and_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"nosuch://u:\*\*\*@h' is of no known kind\. Give a file"):
        open_storage("nosuch://u:secret@h")
    with pytest.raises(StudyError, match=r"there is no folder"):
        open_storage(tmp_path / "none" / "study.db")
    with pytest.raises(StudyError, match=r"needs the package 'MySQLdb': pip install MySQLdb"):
        open_storage("mysql://u:secret@h/x")


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises((StudyError, ConfigurationError), match="nonsense://x"):
        named("nonsense://x")
