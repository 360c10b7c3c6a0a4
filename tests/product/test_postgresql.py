"""Two machines on one PostgreSQL database: a server of our own, two folders that share nothing, real processes."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from optuna.trial import FrozenTrial, TrialState

from boggn.product.studyfile import load
from boggn.product.worker import study_of
from commandline import SHARED, command, spawn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        None in (shutil.which("initdb"), shutil.which("pg_ctl")),
        reason="PostgreSQL's initdb and pg_ctl are not on PATH",
    ),
]


@pytest.fixture
def server() -> Iterator[str]:
    """The address of an empty database, reached by a socket in a folder, so that no port is taken."""
    user = "nobody" if os.geteuid() == 0 else None  # PostgreSQL refuses to serve as root
    folder = Path(tempfile.mkdtemp(prefix="boggn-pg-"))  # a short path, as a socket's must be
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    options = f"-k {folder} -c listen_addresses='' -c fsync=off"

    def call(*words: str | Path) -> None:
        subprocess.run([*map(str, words)], check=True, stdout=subprocess.DEVNULL, cwd=folder, user=user)

    try:
        call("initdb", "--auth=trust", "--username=lab", "--encoding=UTF8", "--pgdata", data)
        call("pg_ctl", "start", "--wait", "--pgdata", data, "--log", folder / "log", "--options", options)
        yield f"postgresql://lab@/postgres?host={folder}"
        call("pg_ctl", "stop", "--pgdata", data, "--mode", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stored(path: Path) -> list[FrozenTrial]:
    study = study_of(load(path))
    trials = study.trials
    study._storage._backend.engine.dispose()
    return trials


def test_two_machines_share_a_study(server: str, folder: Path) -> None:
    paths = [folder / machine / "study.toml" for machine in ("here", "there")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(SHARED.format(storage=server, total=12, startup=100_000), encoding="utf-8")
    runs = [
        subprocess.Popen(
            command("run", path, "--workers", "2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for path in paths
    ]
    for run in runs:
        _, told = run.communicate(timeout=240)
        assert run.returncode == 0, told
    trials = stored(paths[0])
    # Each machine counts under a lock of its own, so that a trial of each worker may be one too many.
    assert 12 <= len(trials) <= 15
    assert {trial.state for trial in trials} == {TrialState.COMPLETE}
    points = {(trial.params["x"], trial.params["y"]) for trial in trials}
    assert len(points) == len(trials)
    logs = [len(list((path.parent / "study.trials").glob("*/"))) for path in paths]
    assert min(logs) > 0
    again = spawn("run", paths[1])
    assert again.returncode == 0
    assert len(stored(paths[0])) == len(trials)
    explained = spawn("explain", server, "--study", "study")
    assert "startup" in explained.stdout, explained.stderr
