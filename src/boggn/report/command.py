"""`boggn report`: a report from the command line."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer


def report(
    storage: Annotated[str, typer.Argument(help="A storage URL, an SQLite file or a journal file.")],
    study: Annotated[str | None, typer.Option(help="Its name; may be left out where there is one study only.")] = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Show a study on one HTML page that needs no network: what happened, what was learnt, what to expect."""
    from boggn.report import report as write
    from boggn.report.storage import load

    path = write(load(storage, study), out)
    typer.echo(path)
    if open_:
        webbrowser.open(path.resolve().as_uri())
