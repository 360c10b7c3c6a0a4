"""The study's objective and budget again, with several seeds: boggn against random search.

    python examples/digits/compare.py

Runs are kept in compare.db beside this file: one that was stopped goes on, and a second call only prints.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import optuna
from optuna.samplers import RandomSampler
from rich.console import Console
from rich.progress import Progress
from threadpoolctl import threadpool_limits
from train import FOLDS, accuracies

import boggn

HERE = Path(__file__).parent
NAMES = ("boggn", "random search")


def mean_accuracy(parameters: dict[str, Any]) -> float:
    """What the study maximises."""
    return sum(accuracies(parameters)) / FOLDS


def run(name: str, seed: int, trials: int, storage: str) -> list[float]:
    """The best accuracy so far after each trial."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = tomllib.loads((HERE / "study.toml").read_text(encoding="utf-8"))["space"]
    sampler = RandomSampler(seed) if name == "random search" else boggn.BOGGNSampler(seed=seed)
    with threadpool_limits(limits=1):  # matrices of this size only get slower with more threads
        study = boggn.minimize(
            mean_accuracy,
            space,
            trials,
            storage=storage,
            study_name=f"{name}, seed {seed}",
            direction="maximize",
            progress=False,
            sampler=sampler,
        )
    values = [trial.value for trial in study.trials if trial.value is not None]
    return [max(values[:count]) for count in range(1, len(values) + 1)]


def main() -> None:
    """Run what is missing, then say how it went, whatever that is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=25, help="trials of each run (25)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each sampler (3)")
    parser.add_argument("--storage", default=str(HERE / "compare.db"), help="where they are kept")
    asked = parser.parse_args()
    if asked.trials < 1 or asked.seeds < 1:
        parser.error("--trials and --seeds must be at least 1")
    console = Console(soft_wrap=True, highlight=False)
    curves: dict[str, dict[int, list[float]]] = {name: {} for name in NAMES}
    with ProcessPoolExecutor(2) as pool, Progress(console=console, disable=not console.is_terminal) as progress:
        jobs = {
            pool.submit(run, name, seed, asked.trials, asked.storage): (name, seed)
            for seed in range(asked.seeds)
            for name in NAMES
        }
        for job in progress.track(as_completed(jobs), total=len(jobs), description="boggn and random search"):
            name, seed = jobs[job]
            curves[name][seed] = job.result()
            console.print(f"  {name}, seed {seed}: {curves[name][seed][-1]:.4f} after {len(curves[name][seed])} trials")
    console.print(f"\nBest accuracy, median of {asked.seeds} seeds (worst to best seed):")
    for name in NAMES:
        for count in sorted({min(10, asked.trials), min(20, asked.trials), asked.trials}):
            best = [curve[min(count, len(curve)) - 1] for curve in curves[name].values()]
            console.print(
                f"  {name:<14} {count:>3} trials  {statistics.median(best):.4f} ({min(best):.4f} to {max(best):.4f})"
            )
    console.print("A few seeds of one small problem are a demonstration, not evidence: for that see docs/benchmarks.")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("\nStopped. What has finished is kept: the same command goes on.")
