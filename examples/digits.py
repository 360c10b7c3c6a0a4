r"""Tune a small neural network on scikit-learn's digits, explain the best trial, and compare with random search.

    python examples/digits.py                  # about two minutes on two cores
    python examples/digits.py --trials 20 --seeds 1

Every run is kept in a SQLite file (`--storage`), so a run that was stopped goes on where it was, and a second call
only prints. Delete the file to begin anew.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import optuna
from optuna.samplers import BaseSampler, RandomSampler
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import boggn

FOLDS = 3
EPOCHS = 12
PLAIN_EVERY = 10
"""Trials between two progress lines where there is no terminal."""


def make_objective() -> Callable[[optuna.Trial], float]:
    """The mean accuracy on the held-out thirds of the digits; the same parameters always give the same value."""
    images, digits = load_digits(return_X_y=True)
    images = images / 16
    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(images, digits))

    def objective(trial: optuna.Trial) -> float:
        width = trial.suggest_int("width", 8, 64, log=True)
        depth = trial.suggest_int("depth", 1, 3)
        options = {
            "learning_rate_init": trial.suggest_float("learning_rate", 1e-4, 0.3, log=True),
            "alpha": trial.suggest_float("alpha", 1e-6, 10.0, log=True),
            "activation": trial.suggest_categorical("activation", ["relu", "tanh", "logistic"]),
            "batch_size": trial.suggest_int("batch_size", 32, 256, step=32),
        }
        scores = []
        with warnings.catch_warnings():
            # Fits are kept short on purpose, and a huge learning rate may overflow: that is what its score says.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            for train, test in folds:
                network = MLPClassifier((width,) * depth, max_iter=EPOCHS, random_state=0, **options)
                scores.append(network.fit(images[train], digits[train]).score(images[test], digits[test]))
        return float(np.mean(scores))

    return objective


@contextmanager
def progress_line(console: Console, name: str, total: int, done: int) -> Iterator[Callable[[int, float], None]]:
    """Yield `report(done, best)`: a live line on a terminal, now and then a plain one anywhere else."""
    if not console.is_terminal:

        def report_plain(done: int, best: float) -> None:
            if done % PLAIN_EVERY == 0 or done == total:
                console.print(f"  {name:<16} {done:>3}/{total} trials, best accuracy {best:.4f}")

        yield report_plain
        return
    columns = (TextColumn("  {task.description:<16}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("best accuracy {task.fields[best]}"), console=console) as progress:
        task = progress.add_task(name, total=total, completed=done, best="-")

        def report_live(done: int, best: float) -> None:
            progress.update(task, completed=done, best=f"{best:.4f}")

        yield report_live


def finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """The trials that have a value, in order."""
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))


def random_sampler(seed: int, done: int) -> RandomSampler:
    """Random search that goes on: with its seed alone it would draw the first `done` trials again."""
    return RandomSampler(seed=seed + 1000 * done)


def run(
    console: Console,
    storage: str,
    name: str,
    make_sampler: Callable[[int], BaseSampler],
    objective: Callable[[optuna.Trial], float],
    trials: int,
) -> optuna.Study:
    """Bring the study `name` to `trials` finished trials: none of those it already has is run again."""
    study = optuna.create_study(storage=storage, study_name=name, direction="maximize", load_if_exists=True)
    done = len(finished(study))
    study.sampler = make_sampler(done)
    if done >= trials:
        console.print(f"  {name:<16} {done:>3}/{trials} trials are in the file already")
        return study
    with progress_line(console, name, trials, done) as report:
        if done:
            report(done, study.best_value)

        def after_trial(study: optuna.Study, _trial: optuna.trial.FrozenTrial) -> None:
            report(len(finished(study)), study.best_value)

        study.optimize(objective, n_trials=trials - done, callbacks=[after_trial])
    return study


def best_after(study: optuna.Study, trials: int) -> float:
    """The best accuracy among the first `trials` finished trials."""
    return max(trial.value for trial in finished(study)[:trials] if trial.value is not None)


def print_comparison(console: Console, ours: list[optuna.Study], random: list[optuna.Study], trials: int) -> None:
    """Medians over the seeds, and how many seeds each sampler won: whatever they are."""
    budgets = sorted({min(10, trials), min(20, trials), trials})
    console.print(f"\nBest accuracy after so many trials, median of {len(ours)} seeds (worst to best seed):")
    console.print(" " * 16 + "".join(f"{f'{budget} trials':<28}" for budget in budgets))
    for label, studies in (("boggn", ours), ("random search", random)):
        cells = []
        for budget in budgets:
            values = [best_after(study, budget) for study in studies]
            cells.append(f"{statistics.median(values):.4f} ({min(values):.4f} to {max(values):.4f})")
        console.print(f"  {label:<14}" + "".join(f"{cell:<28}" for cell in cells))
    pairs = [(best_after(a, trials), best_after(b, trials)) for a, b in zip(ours, random, strict=True)]
    better, worse = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    ties = len(pairs) - better - worse
    console.print(
        f"After {trials} trials boggn was better on {better} of {len(pairs)} seeds, worse on {worse}, equal on {ties}."
    )
    console.print(
        "A few seeds of one small problem are a demonstration, not evidence: for that see the README.",
    )


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40, help="trials of each run (40)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each sampler (3)")
    parser.add_argument("--storage", type=Path, default=Path("digits.db"), help="SQLite file (digits.db)")
    arguments = parser.parse_args()
    if arguments.trials < 1 or arguments.seeds < 1:
        parser.error("--trials and --seeds must be at least 1")
    return arguments


def demonstrate(console: Console, arguments: argparse.Namespace) -> None:
    """Tune, explain, compare."""
    started = time.perf_counter()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = f"sqlite:///{arguments.storage}"
    objective = make_objective()

    console.print(
        f"Tuning six hyper-parameters of a neural network on 1,797 digits, {FOLDS}-fold accuracy of {EPOCHS} epochs.\n"
        f"Runs are kept in {arguments.storage}: stop at will, the same command goes on.\n",
    )

    def run_boggn(seed: int) -> optuna.Study:
        name = f"boggn, seed {seed}"
        return run(console, storage, name, lambda _: boggn.BOGGNSampler(seed=seed), objective, arguments.trials)

    def run_random(seed: int) -> optuna.Study:
        name = f"random, seed {seed}"
        return run(console, storage, name, partial(random_sampler, seed), objective, arguments.trials)

    ours = [run_boggn(0)]
    best = ours[0].best_trial
    console.print(f"\nBest trial: number {best.number}, accuracy {best.values[0]:.4f}")
    for name, value in best.params.items():
        shown = f"{value:.3g}" if isinstance(value, float) else value
        console.print(f"  {name:<14} {shown}")
    console.print(f"\n{boggn.explain(ours[0], best.number)}\n", markup=False)

    console.print("The same budget again, with other seeds and by random search:")
    ours += [run_boggn(seed) for seed in range(1, arguments.seeds)]
    random = [run_random(seed) for seed in range(arguments.seeds)]
    print_comparison(console, ours, random, arguments.trials)
    console.print(f"Took {time.perf_counter() - started:.0f} s.")


def main() -> int:
    """Run the demonstration."""
    arguments = parse_arguments()
    console = Console(soft_wrap=True, highlight=False)
    try:
        # Matrices of this size only get slower with more threads.
        with threadpool_limits(limits=1):
            demonstrate(console, arguments)
    except KeyboardInterrupt:
        console.print("\nStopped. The finished trials are kept: the same command goes on.")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
