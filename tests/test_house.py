"""The house is in order: imports are light, versions are pinned, and no file betrays the machine it was written on."""

import itertools
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

HEAVY = ("jax", "optax", "scipy", "sklearn", "torch", "pandas", "rich")

ABSOLUTE_PATH = re.compile(r"(?<![\w.~/:-])/(?:home|root|Users|work|workspace|tmp|opt|mnt|private|var)/\w")
ADDRESS = re.compile(r"://|^-|@", re.MULTILINE)
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][0-9A-Za-z.]*")


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a git work tree")
    return [path for line in listed.stdout.splitlines() if (path := ROOT / line).is_file()]


def pins() -> list[str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_import_is_light() -> None:
    code = f"import sys, boggn; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_import_changes_no_logging() -> None:
    code = (
        "import logging, optuna; before = list(logging.root.handlers), logging.root.level\n"
        "import boggn; assert before == (list(logging.root.handlers), logging.root.level)"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    try:
        installed = version("boggn")
    except PackageNotFoundError:
        pytest.skip("boggn is on the path but not installed")
    assert installed == project["version"]


def test_constraints_are_exact_versions_of_names() -> None:
    assert [line for line in pins() if not PIN.fullmatch(line)] == []
    names = [canonical(line.split("==")[0]) for line in pins()]
    assert len(names) == len(set(names))
    assert not ADDRESS.search("\n".join(pins()))


def test_every_declared_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = list(itertools.chain(project["dependencies"], *project["optional-dependencies"].values()))
    names = {canonical(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]) for requirement in declared}
    names -= {project["name"]}  # an extra that takes in others names the project itself
    assert names - {canonical(line.split("==")[0]) for line in pins()} == set()


def test_no_absolute_path_of_a_machine() -> None:
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture
            continue
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in ABSOLUTE_PATH.finditer(text)]
    assert found == []


def test_the_package_is_typed() -> None:
    assert (ROOT / "src" / "boggn" / "py.typed").exists()
