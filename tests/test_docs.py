"""The documentation is true: its links lead somewhere, its Python blocks run, and so do the examples."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pages

WITH_PYTHON = [path for path in pages.files() if pages.python_blocks(path)]


def relative(path: Path) -> str:
    return path.relative_to(pages.ROOT).as_posix()


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one page compiles the next one finds on disk."""
    return {
        **os.environ,
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path_factory.mktemp("jax-cache")),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "NO_COLOR": "1",
    }


def run(arguments: list[str], directory: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("path", pages.files(), ids=relative)
def test_relative_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in pages.links(path):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, fragment = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (fragment and fragment not in pages.anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_is_reachable_from_the_readme() -> None:
    seen: set[Path] = set()
    waiting = [pages.ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        targets = {(path.parent / link.partition("#")[0]).resolve() for link in pages.links(path) if "://" not in link}
        waiting += [target for target in targets - seen if target.suffix == ".md" and target.exists()]
    assert [relative(path) for path in pages.files() if path not in seen] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_PYTHON, ids=relative)
def test_python_blocks_run(path: Path, tmp_path: Path, environment: dict[str, str]) -> None:
    """The blocks of one page run one after another in one process, as a reader would paste them."""
    script = tmp_path / "page.py"
    script.write_text("\n".join(pages.python_blocks(path)), encoding="utf-8")
    run([script.name], tmp_path, environment)
