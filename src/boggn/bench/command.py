"""`boggn bench`: the commands. Each imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from boggn.errors import ConfigurationError, StudyError

if TYPE_CHECKING:
    from boggn.bench.document import Section
    from boggn.bench.rows import Job, Row

app = typer.Typer(
    name="bench",
    help="Compare optimisers: who finds better points, how surely, and at what cost.",
    no_args_is_help=True,
)

Methods = Annotated[str, typer.Option(help="Comma-separated, with options if any: boggn,tpe,boggn:thresholds=one.")]
Files = Annotated[list[Path], typer.Argument(help="Files that `run` wrote.", exists=True, dir_okay=False)]


@app.command()
def run(
    tasks: Annotated[
        str, typer.Option(help="Tasks and groups of them, comma-separated; `boggn bench tasks` lists them.")
    ],
    methods: Methods,
    out: Annotated[Path, typer.Option(help="File of JSON lines, a row a run; what it has is not run again.")],
    seeds: Annotated[str, typer.Option(help="How many, from 0; or a range such as 10-19.")] = "10",
    evals: Annotated[str, typer.Option(help="Evaluations of a run; for some tasks others: 100,hartmann6=30.")] = "100",
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time, each a process with one thread.")] = 1,
    limit: Annotated[float, typer.Option(help="Seconds after which a run is stopped and recorded as failed.")] = 3600.0,
) -> None:
    """Run every method on every task from every seed; goes on where it was stopped, even by a kill.

    Methods advance seed by seed, so that a stopped comparison is a smaller one and not a lopsided one.
    """
    from boggn.bench import methods as known
    from boggn.bench import run as runner
    from boggn.bench import tasks as catalogue

    names = known.split_names(methods)
    for name in names:
        known.get(name)
    chosen = catalogue.expand(name.strip() for name in tasks.split(","))
    lengths = _lengths(evals, chosen)
    todo: list[Job] = [
        runner.Job(task, method, seed, lengths[task]) for seed in _seeds(seeds) for task in chosen for method in names
    ]
    if runner.run(todo, out, jobs, limit=limit):
        raise typer.Exit(1)


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    try:
        found = range(int(first), int(last) + 1) if dash else range(int(text))
    except ValueError:
        found = range(0)
    if not found:
        raise ConfigurationError.invalid("seeds", text, "a number above 0 or a range such as 10-19")
    return found


def _lengths(text: str, chosen: Sequence[str]) -> dict[str, int]:
    allowed = "a number above 0, then task=number for other tasks, comma-separated"
    first, *others = text.split(",")
    try:
        of_task = {task: int(count) for task, count in (item.split("=") for item in others)}
        lengths = {task: of_task.get(task, int(first)) for task in chosen}
    except ValueError:
        raise ConfigurationError.invalid("evals", text, allowed) from None
    if unknown := set(of_task) - set(chosen):
        raise ConfigurationError.invalid("evals", text, f"{allowed}; not among the tasks: {', '.join(sorted(unknown))}")
    if min(lengths.values()) < 1:
        raise ConfigurationError.invalid("evals", text, allowed)
    return lengths


@app.command()
def report(
    files: Files,
    reference: Annotated[str | None, typer.Option(help="Method to compare the others with; else the best.")] = None,
    at: Annotated[str, typer.Option(help="Numbers of evaluations to report, comma-separated.")] = "25,50,100",
    methods: Annotated[str | None, typer.Option(help="Only these, in this order; else all that were run.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with plots there instead; it needs no network.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of the terminal's tables.")] = False,
) -> None:
    """Regret with its spread, mean ranks with intervals, tests, profiles, cost, and what can be said."""
    from boggn.bench import document, page
    from boggn.bench import report as maker

    rows = _rows(files, methods)
    try:
        checkpoints = [int(count) for count in at.split(",")]
    except ValueError:
        raise ConfigurationError.invalid("at", at, "numbers, comma-separated") from None
    if reference is not None and reference not in {row["method"] for row in rows}:
        known = ", ".join(dict.fromkeys(row["method"] for row in rows))
        raise ConfigurationError.invalid("reference", reference, f"one of the methods that were run ({known})")
    if html is not None:
        html.write_text(page.html(rows, checkpoints, reference), encoding="utf-8")
        typer.echo(html)
    elif markdown:
        typer.echo(document.markdown(maker.sections(rows, checkpoints, reference)))
    else:
        _show(maker.sections(rows, checkpoints, reference))


def _rows(files: Sequence[Path], methods: str | None) -> list[Row]:
    from boggn.bench.methods import split_names
    from boggn.bench.rows import read_rows

    rows = [row for path in files for row in read_rows(path)]
    if methods is not None:
        wanted = split_names(methods)
        rows = sorted((row for row in rows if row["method"] in wanted), key=lambda row: wanted.index(row["method"]))
    if not rows:
        raise StudyError(f"There are no rows of these methods in {', '.join(map(str, files))}.")
    return rows


def _show(sections: Sequence[Section]) -> None:
    from rich.console import Console

    from boggn.bench import document

    Console(width=None if sys.stdout.isatty() else 200).print(document.terminal(sections))


@app.command()
def scale(
    methods: Methods = "boggn,tpe,gp,random",
    told: Annotated[str, typer.Option(help="Numbers of trials told, comma-separated.")] = "10,100,1000,10000",
    asks: Annotated[int, typer.Option(min=1, help="Suggestions to time, after three that are not counted.")] = 10,
    limit: Annotated[float, typer.Option(help="Seconds a method may take for one number of trials.")] = 600.0,
) -> None:
    """Time and memory of a suggestion with 10 to 10,000 trials told, and the wait from a cold start."""
    from boggn.bench import cost
    from boggn.bench import methods as known

    names = known.split_names(methods)
    for name in names:
        if missing := known.absent(known.get(name).name):
            raise StudyError(f"{name} is absent: it needs {missing}.")
    try:
        counts = [int(count) for count in told.split(",")]
    except ValueError:
        raise ConfigurationError.invalid("told", told, "numbers, comma-separated") from None
    _show(cost.sections(names, counts, asks, limit))


@app.command()
def posteriors(
    names: Annotated[str, typer.Option(help="Structures, comma-separated; all of them if left out.")] = "",
    parameters: Annotated[str, typer.Option(help="About so many parameters, comma-separated.")] = "1000,5000,20000",
    told: Annotated[int, typer.Option(min=2, help="Trials told.")] = 100,
    asks: Annotated[int, typer.Option(min=0, help="Whole suggestions timed; 0: none.")] = 5,
) -> None:
    """Time each posterior structure of the perceptron: conditioning, a query, a whole suggestion."""
    import optuna

    from boggn.bench import posteriors as structures

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sizes = [int(size) for size in parameters.split(",")]
    except ValueError:
        raise ConfigurationError.invalid("parameters", parameters, "numbers, comma-separated") from None
    chosen = [name.strip() for name in names.split(",")] if names else structures.NAMES
    _show(structures.sections(chosen, sizes, told, asks))


@app.command()
def tasks() -> None:
    """List the tasks: what there is to minimise, yours among them."""
    from boggn.bench import tasks as catalogue
    from boggn.bench.document import Section, Table
    from boggn.errors import MissingPackageError

    groups = [f"{name} = {', '.join(members)}" for name, members in catalogue.GROUPS.items()]
    lines = []
    for name in catalogue.names():
        try:
            task = catalogue.get(name)
        except MissingPackageError as error:
            lines.append((name, "", "", "", str(error)))
            continue
        kind = "conditional" if task.conditions else ""
        lines.append(
            (name, str(len(task.space)), f"{task.optimum:.6g}", "noisy" if task.noisy else kind, task.description)
        )
    table = Table.of(("task", "parameters", "minimum", "", "description"), lines)
    _show([Section("Tasks", [table]), Section("Groups", list(groups))])


@app.command()
def methods() -> None:
    """List the methods: boggn's own and its peers, and which of them are installed here."""
    from boggn.bench import methods as known
    from boggn.bench.document import Section, Table

    lines = []
    for name, description in known.describe().items():
        missing = known.absent(name)
        lines.append((name, f"absent: needs {missing}" if missing else "here", description))
    table = Table.of(("method", "", "description"), lines)
    note = "`make peers` installs those of other packages; here gp needs torch, and cmaes the extra boggn[bench]."
    _show([Section("Methods", [table, note])])
