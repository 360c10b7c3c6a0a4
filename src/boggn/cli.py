"""The command line. Commands import what they need when they run, so that help and errors come at once."""

from __future__ import annotations

import enum
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from optuna.exceptions import StorageInternalError
from rich.console import Console

from boggn.bench.command import app as bench
from boggn.errors import BoggnError
from boggn.product import commands

app = typer.Typer(
    name="boggn",
    help="Bayesian optimisation by a Bayesian neural network that classifies at every threshold.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from boggn import __version__

        typer.echo(f"boggn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    del version, debug
    if context.invoked_subcommand in {"bench", "dashboard", "paper"}:  # they have something to put in order
        signal.signal(signal.SIGINT, signal.default_int_handler)


for command in (
    commands.init,
    commands.run,
    commands.ask,
    commands.tell,
    commands.explain,
    commands.report,
    commands.dashboard,
):
    app.command()(command)
app.command()(commands.schema)
app.add_typer(bench)


class FigureName(enum.StrEnum):
    """What `boggn paper` can make."""

    fig1 = "fig1"
    fig2 = "fig2"
    fig3 = "fig3"
    fig4 = "fig4"
    fig5 = "fig5"
    fig6 = "fig6"
    all = "all"


@app.command()
def paper(
    figure: Annotated[FigureName, typer.Argument(help="Which figure; `all` makes one after another.")],
    out: Annotated[Path, typer.Option(help="Folder for pictures, numbers and captions.")] = Path("paper"),
    seeds: Annotated[int | None, typer.Option(help="Replicates; the figure's own number if left out.")] = None,
    evals: Annotated[int | None, typer.Option(help="Evaluations of a run, likewise.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes, one thread each.")] = 2,
) -> None:
    """Make the paper's figures from runs of our own: a picture, its numbers as CSV, and a caption with the command.

    fig1 density ratios, fig2 the workflow, fig3 regret, fig4 labels and what they allow, fig5 calibration,
    fig6 the number of thresholds. Long runs are kept in the folder: the same command goes on where it was stopped.
    """
    import optuna

    from boggn.paper import NAMES, Size, fitting, make
    from boggn.product.worker import keep_compiled

    keep_compiled()  # each run is a process of its own
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    size = Size(seeds, evals, jobs)
    sizes = {name: fitting(name, size) for name in NAMES} if figure is FigureName.all else {figure.value: size}
    for name, its_size in sizes.items():
        for path in make(name, out, its_size):
            typer.echo(path)


def main() -> None:
    """Run the command line. A failure is one line; --debug shows where it came from."""
    debug = "--debug" in sys.argv[1:]
    try:
        app()
    except BoggnError as error:
        if debug:
            raise
        _complain(f"boggn: {error}")
        sys.exit(2)
    except OSError as error:
        if debug:
            raise
        _complain(f"boggn: {error.filename or 'a file'}: {error.strerror or error}. May it be read and written?")
        sys.exit(2)
    except StorageInternalError as error:
        if debug:
            raise
        _complain(f"boggn: the storage cannot be used any more: {error}. Is it there, and may it be written?")
        sys.exit(2)
    except Exception as error:
        if debug:
            raise
        _complain(f"boggn: unforeseen: {type(error).__name__}: {error} (--debug, before the command, shows where)")
        sys.exit(3)


def _complain(message: str) -> None:
    Console(stderr=True, highlight=False).print(" ".join(message.split()), markup=False, soft_wrap=True)
