r"""Command line of the benchmark: `run`, `table`, `cost` and `posteriors`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import optuna

from boggn.bench import cost, methods, report, run, tasks


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m boggn.bench", description="Regret of boggn and its peers.")
    commands = parser.add_subparsers(dest="command", required=True)

    runs = commands.add_parser("run", help="run methods on tasks, append a JSON row per run; resumes")
    runs.add_argument("--tasks", required=True, help=f"names or groups ({', '.join(tasks.GROUPS)}), comma-separated")
    runs.add_argument("--methods", required=True, help="such as boggn,tpe,boggn:thresholds=one,link=logit")
    runs.add_argument("--seeds", type=int, default=10, help="seeds first-seed .. first-seed + SEEDS - 1")
    runs.add_argument("--first-seed", type=int, default=0)
    runs.add_argument("--evals", type=int, default=100)
    runs.add_argument("--out", type=Path, required=True)
    runs.add_argument("--jobs", type=int, default=1, help="worker processes, one thread each; 0: in this process")

    table = commands.add_parser("table", help="Markdown tables of finished runs")
    table.add_argument("files", type=Path, nargs="+")
    table.add_argument("--reference", help="method to compare the others with")
    table.add_argument("--at", default="25,50,100", help="numbers of evaluations to report")

    times = commands.add_parser("cost", help="milliseconds per suggestion, all methods in this one process")
    times.add_argument("--methods", default="boggn,tpe,gp,random")
    times.add_argument("--told", default="100", help="numbers of trials told, comma-separated")
    times.add_argument("--asks", type=int, default=20)

    structures = commands.add_parser("posteriors", help="milliseconds of each posterior structure, by parameters")
    structures.add_argument("--names", default="function,full,subset,kron,diagonal,last_layer,mean_field")
    structures.add_argument("--parameters", default="1000,5000,20000", help="about so many, comma-separated")
    structures.add_argument("--told", type=int, default=100, help="number of trials told")
    structures.add_argument("--asks", type=int, default=5, help="whole suggestions timed; 0: none")
    return parser


def _run(args: argparse.Namespace) -> int:
    names = methods.split_names(args.methods)
    for name in names:
        methods.get(name)
    chosen = tasks.expand(name.strip() for name in args.tasks.split(","))
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    jobs = [run.Job(task, method, seed, args.evals) for method in names for task in chosen for seed in seeds]
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return 1 if run.run(jobs, args.out, args.jobs) else 0


def _posteriors(args: argparse.Namespace) -> int:
    from boggn.bench import posteriors  # it needs JAX, which a comparison of peers does not

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sizes = [int(size) for size in args.parameters.split(",")]
    print(posteriors.markdown(args.names.split(","), sizes, args.told, args.asks))
    return 0


def main(argv: list[str] | None = None) -> int:
    """The exit status: 1 where a run failed, 2 where the question was wrong."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        if args.command == "run":
            return _run(args)
        if args.command == "cost":
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            names = methods.split_names(args.methods)
            print(cost.markdown(names, [int(count) for count in args.told.split(",")], args.asks))
            return 0
        if args.command == "posteriors":
            return _posteriors(args)
        checkpoints = [int(count) for count in args.at.split(",")]
        rows = [row for path in args.files for row in run.read_rows(path)]
        print(report.markdown(rows, checkpoints, args.reference))
    except (ValueError, ImportError, FileNotFoundError) as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
