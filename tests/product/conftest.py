"""A quick folder for studies, and one cache of what JAX compiles for all of them."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import commandline


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    if not commandline.has_memory():
        yield tmp_path
        return
    made = Path(tempfile.mkdtemp(prefix="boggn-", dir=commandline.MEMORY))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jax")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, compiled: Path) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(compiled))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
