"""The commands around studies. Each imports what it needs when it runs, so that help and errors come at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

INTERRUPTED = 130
FAILED = 1

StudyPath = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file; `boggn init` writes one.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace what the file says, as in budget.trials=5. Repeatable."),
]


def run(
    study: StudyPath,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes at the same time, instead of the file's.")
    ] = None,
    overrides: Overrides = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file, show what would be done, and stop.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress; the result alone.")] = False,
) -> None:
    """Run a study file to its end, or go on where it was stopped.

    The study file says what to run (a command or a Python function), over which parameters, and for how long. Every
    trial is a process of its own, with its output kept in a folder beside the file. A trial that fails, hangs or
    prints nonsense is recorded with its reason, and the study goes on.

    Ctrl-C lets the running trials finish and stops; a second one gives them up. Whatever happens, also SIGKILL or a
    reboot: the same command goes on, and tries the interrupted trials again.

    Exit status: 0 the study is at its end, 1 it stopped because its trials fail, 2 the file or the machine is not
    right, 130 it was interrupted.

    Examples:
        boggn run study.toml

        boggn run study.toml --workers 4

        boggn run study.toml --set budget.trials=200 --set study.seed=1

        boggn run study.toml --dry-run
    """
    import optuna

    from boggn.product import supervisor
    from boggn.product.studyfile import load
    from boggn.product.texts import plan_text, result_text

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    more = [] if workers is None else [f"study.workers={workers}"]
    plan = load(study, [*(overrides or []), *more])
    if dry_run:
        typer.echo(plan_text(plan))
        return
    ended = supervisor.run(plan, progress=not quiet)
    typer.echo(result_text(ended, plan))
    if ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if ended.hopeless:
        raise typer.Exit(FAILED)
