"""The command line as a shell sees it: help, completion, colours, pipes."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commandline import command, spawn

COMMANDS = ("init", "run", "ask", "tell", "explain", "report", "dashboard", "schema", "bench", "paper")


def test_every_command_has_a_manual() -> None:
    listed = spawn("--help").stdout
    assert "\x1b" not in listed
    for name in COMMANDS:
        assert f" {name} " in listed
    for name in ("run", "ask", "tell", "explain", "report", "dashboard", "schema"):
        told = spawn(name, "--help").stdout
        assert "For instance" in told
        assert f"boggn {name} " in told
        assert "\x1b" not in told


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [(["boggn", "re"], "report"), (["boggn", "run", "--dry"], "--dry-run"), (["boggn", "bench", "sc"], "scale")],
    ids=["a command", "an option", "a command's command"],
)
def test_bash_completes(words: list[str], wanted: str) -> None:
    typed = " ".join(words)
    script = f"""
        eval "$(_BOGGN_COMPLETE=source_bash boggn)"
        COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
        $(complete -p boggn | sed -E 's/.*-F ([^ ]+).*/\\1/') boggn
        echo "${{COMPREPLY[@]}}"
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=os.environ | {"PATH": path}, check=False
    )
    assert wanted in done.stdout.split(), done.stderr


def on_a_terminal(**variables: str) -> str:
    """What `boggn --help` writes to one."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "TERM"}}
    process = subprocess.Popen(
        command("--help"), stdout=theirs, stderr=theirs, env=kept | {"TERM": "xterm"} | variables
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # so Linux says that nobody writes any more
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert process.wait() == 0
    return said.decode()


def test_colours_are_for_terminals_that_want_them() -> None:
    coloured = re.compile(r"\x1b\[(\d+;)*3\dm")
    assert coloured.search(on_a_terminal())
    assert not coloured.search(on_a_terminal(NO_COLOR="1"))
