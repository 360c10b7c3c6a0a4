"""The commands around studies. Each imports what it needs when it runs, so that help and errors come at once."""

from __future__ import annotations

import json
import sys
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from boggn.product.source import Source

INTERRUPTED = 130
FAILED = 1

StudyPath = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file; `boggn init` writes one.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace what the file says, as in budget.trials=5. Repeatable."),
]
SourceText = Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or a storage's file or address.")]
StudyName = Annotated[str | None, typer.Option(help="The name of the study, where a storage has several.")]


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

    Exit status: 0 the study is at its end, 1 its trials fail, 2 the file or the machine is not
    right, 3 something unforeseen, 130 it was interrupted.

    For instance:

    - `boggn run study.toml`
    - `boggn run study.toml --workers 4`
    - `boggn run study.toml --set budget.trials=200 --set study.seed=1`
    - `boggn run study.toml --dry-run`
    """
    import optuna

    from boggn.errors import StudyError
    from boggn.product import supervisor
    from boggn.product.studyfile import load
    from boggn.product.texts import plan_text, result_text

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    more = [] if workers is None else [f"study.workers={workers}"]
    plan = load(study, [*(overrides or []), *more])
    if dry_run:
        typer.echo(plan_text(plan))
        return
    if sys.platform == "win32":
        raise StudyError(
            "`boggn run` needs Linux or macOS. On Windows use boggn.minimize, or boggn ask and boggn tell."
        )
    ended = supervisor.run(plan, progress=not quiet)
    typer.echo(result_text(ended, plan))
    if ended.interrupted:
        raise typer.Exit(INTERRUPTED)
    if ended.failing:
        raise typer.Exit(FAILED)


def init(
    path: Annotated[Path, typer.Argument(metavar="[STUDY.toml]", help="Where to write it.")] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write an example study file, and the script it runs: it works as it is, and is there to be changed.

    Every key has a comment. For completion in an editor, `boggn schema` prints the JSON schema of study files.
    """
    from boggn.errors import StudyError
    from boggn.product.example import SCRIPT, study_text

    script = path.with_name("train.py")
    for each in (path, script):
        if each.exists() and not force:
            raise StudyError(f"{each} exists already: name another file, or --force to replace it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(study_text(path.name, script.name), encoding="utf-8")
    script.write_text(SCRIPT, encoding="utf-8")
    typer.echo(f"{path} and {script} are written. Next: boggn run {path}")


def schema() -> None:
    """Print the JSON schema of study files, for editors.

    For instance:

    - `boggn schema > study.schema.json`
    """
    from boggn.product import definition

    typer.echo(json.dumps(definition.schema(), indent=2, ensure_ascii=False))


def ask(
    source: SourceText,
    study: StudyName = None,
    count: Annotated[int, typer.Option("--n", min=1, help="How many, spread out.")] = 1,
    still_open: Annotated[
        bool, typer.Option("--open", help="Ask for none: list those asked for and not told.")
    ] = False,
) -> None:
    """Ask for parameters to try, as JSON; `boggn tell` takes the outcomes.

    For experiments that boggn does not run itself: a robot, a wet bench, another language. Trials may be told in any
    order, days later and from another machine. A batch is spread out: each trial knows of those that are still open.

    For instance:

    - `boggn ask study.toml --n 4`
    - `boggn ask postgresql://lab@host/studies --study paint`
    """
    from boggn.product import asktell

    found = _find(source, study, make=True)
    _print_json(asktell.asked(found) if still_open else asktell.ask(found, count))


def tell(
    source: SourceText,
    study: StudyName = None,
    trial: Annotated[int | None, typer.Option(help="The number of the trial.")] = None,
    value: Annotated[list[float] | None, typer.Option(help="Its value; once per objective.")] = None,
    failed: Annotated[str | None, typer.Option(help="Why it has no value.")] = None,
) -> None:
    """Tell outcomes: of one trial by options, or of many as JSON on the standard input.

    Telling the same outcome twice changes nothing, so that a script may be run again. Another outcome for a trial that
    has one is an error. Of a list all outcomes are told, or none if one of them is wrong.

    For instance:

    - `boggn tell study.toml --trial 3 --value 0.25`
    - `boggn tell study.toml --trial 4 --failed "the sample broke"`
    - `echo '[{"trial": 5, "value": 0.2, "metrics": {"hours": 3}}]' | boggn tell study.toml`
    """
    from boggn.errors import StudyError
    from boggn.product import asktell

    if trial is None and (value or failed is not None):
        raise StudyError("--value and --failed need --trial, the number that `boggn ask` gave.")
    if trial is None and sys.stdin.isatty():
        typer.echo("Type outcomes as JSON, then Ctrl-D; or leave with Ctrl-C and see boggn tell --help.", err=True)
    told = asktell.parse(sys.stdin.read()) if trial is None else {"trial": trial}
    if trial is not None:
        told |= {"values": value} if value else {}
        told |= {"failed": failed} if failed is not None else {}
    _print_json(asktell.tell(_find(source, study), told))


def explain(
    source: SourceText,
    study: StudyName = None,
    trial: Annotated[int | None, typer.Option(help="Its number; the recommended one, if left out.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for other programs.")] = False,
) -> None:
    """Explain why a trial was suggested: what the model knew, expected, and how sure it was.

    For instance:

    - `boggn explain study.toml --trial 17`
    - `boggn explain study.toml --json`
    """
    from dataclasses import asdict

    import boggn

    found = _find(source, study).study
    explanation = boggn.explain(found, boggn.recommend(found).number if trial is None else trial)
    if as_json:
        _print_json(asdict(explanation))
    else:
        typer.echo(explanation)


def report(
    source: SourceText,
    study: StudyName = None,
    out: Annotated[Path, typer.Option(help="The file to write.")] = Path("report.html"),
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Show a study on one HTML page that needs no network: what happened, what was learnt, what to expect.

    It may be made while the study runs, or afterwards.

    For instance:

    - `boggn report study.toml --out study.html --open`
    - `boggn report study.db`
    """
    import boggn

    path = boggn.report(_find(source, study).study, out)
    typer.echo(path)
    if show:
        webbrowser.open(path.resolve().as_uri())


def dashboard(
    source: SourceText,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")] = 8080,
) -> None:
    """Show a study in the browser, while it runs or afterwards, by Optuna's dashboard (the extra `boggn[dashboard]`).

    For instance:

    - `boggn dashboard study.toml --port 8081`
    """
    from boggn.errors import MissingPackageError, StudyError

    try:
        from optuna_dashboard import run_server
    except ModuleNotFoundError as error:
        raise MissingPackageError.of("optuna-dashboard", "Pages of `dashboard`", "boggn[dashboard]") from error
    from boggn.product.ledger import storage_of
    from boggn.product.storage import open_existing

    storage = storage_of(_find(source, None).study) if source.endswith(".toml") else open_existing(source)
    typer.echo(f"http://{host}:{port}  (Ctrl-C stops it)")
    try:
        run_server(storage, host=host, port=port)
    except OSError as error:
        raise StudyError(f"Port {port} on {host} cannot be used: {error.strerror}. --port takes another.") from error


def _find(source: str, study: str | None, *, make: bool = False) -> Source:
    import optuna

    from boggn.product.source import find
    from boggn.product.worker import keep_compiled

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    keep_compiled()
    return find(source, study, make=make)


def _print_json(content: object) -> None:
    typer.echo(json.dumps(content, ensure_ascii=False))
