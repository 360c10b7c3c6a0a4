"""Calibration: how well each model and each posterior structure foretells the next trial of real runs."""

from __future__ import annotations

import itertools
import statistics
from typing import Any

import numpy as np
import optuna

from boggn.bench import run, tasks
from boggn.bench.run import Job
from boggn.errors import BoggnError
from boggn.paper import style
from boggn.paper.figure import Drawn, Figure, Request, Row
from boggn.prequential import Prediction, Prequential, prequential
from boggn.sampler import BOGGNSampler

TASKS = ("branin", "hartmann3", "protein", "wave2", "branin-hetero")
EVERY = 3
NETWORK = "mlp:32x32:tanh"
SMALL = {"thresholds": "one", "link": "logit", "acquisition": "pi", "network": NETWORK}
MODELS: dict[str, dict[str, Any]] = {
    "all, wide": {},
    "all, wide, logistic": {"link": "logit"},
    "all, MLP": {"network": NETWORK},
    "one, wide": {"thresholds": "one", "link": "logit", "acquisition": "pi"},
    "one, MLP, function": SMALL,
    "one, MLP, full": SMALL | {"posterior": "full"},
    "one, MLP, KFAC": SMALL | {"posterior": "kron"},
    "one, MLP, diagonal": SMALL | {"posterior": "diagonal"},
    "one, MLP, last layer": SMALL | {"posterior": "last_layer"},
    "one, MLP, mean field": SMALL | {"posterior": "mean_field"},
}


def predict(job: Job) -> run.Row:
    """What one model would have said of each trial of a run that mixes suggestions of ours with random ones."""
    task = tasks.get(job.task)
    # Half of the points are random: where all of them are suggested, nearly all are good, and little is asked.
    study = optuna.create_study(sampler=BOGGNSampler(seed=job.seed, epsilon=0.5))
    for number in range(job.evals):
        trial = study.ask(dict(task.space))
        study.tell(trial, task.function(trial.params, np.random.default_rng([job.seed, number])))
    said = prequential(study, sampler=BOGGNSampler(seed=0, **MODELS[job.method]), every=EVERY)
    return {
        "task": job.task,
        "method": job.method,
        "seed": job.seed,
        "evals": job.evals,
        "error": None,
        "regrets": [task.regret(trial.params) for trial in study.trials],
        "ask_seconds": [0.0],
        "predictions": [list(prediction) for prediction in said.predictions],
    }


def _draw(request: Request) -> Drawn:
    jobs = [
        Job(task, model, seed, request.evals) for task in TASKS for model in MODELS for seed in range(request.seeds)
    ]
    if failed := run.run(jobs, request.runs, request.jobs, work=predict):
        raise BoggnError(f"{failed} of {len(jobs)} runs failed: their errors are in {request.runs.name}.")
    rows = {run.key(row): row for row in run.read_rows(request.runs)}
    said = {job: Prequential(tuple(Prediction(*one) for one in rows[job]["predictions"])) for job in jobs}
    numbers: list[Row] = [
        {"task": job.task, "model": job.method, "seed": job.seed, **one._asdict()}
        for job, made in said.items()
        for one in made.predictions
    ]
    summary = [{"model": model} | _scores(said, model) for model in MODELS]
    caption = (
        f"The probability that the next outcome is at the threshold or better, said of every {EVERY}rd trial of "
        f"{request.seeds} runs of {request.evals} evaluations a task, before it ran; half of the points are random. "
        "Frequency against probability over all tasks, in bins that hold equally many; the closer to the diagonal the "
        "better calibrated. The table has the log-loss on each task (smaller is better) and, over all of them, the "
        "mean log-loss and the calibration error."
    )
    return Drawn(_picture(said), numbers, caption, summary)


def _together(said: dict[Job, Prequential], model: str, names: tuple[str, ...] = TASKS) -> Prequential:
    chosen = [made.predictions for job, made in said.items() if job.method == model and job.task in names]
    return Prequential(tuple(itertools.chain.from_iterable(chosen)))


def _scores(said: dict[Job, Prequential], model: str) -> dict[str, float]:
    losses = {task: _together(said, model, (task,)).log_loss for task in TASKS}
    everything = _together(said, model)
    return losses | {
        "mean log-loss": statistics.mean(losses.values()),
        "calibration error": everything.calibration_error,
    }


def _picture(said: dict[Job, Prequential]) -> Any:
    with style.look():
        picture, axes = style.grid(2, 5, width=2.3, height=2.3, sharex=True, sharey=True)
        for axis, model in zip(axes.ravel(), MODELS, strict=False):
            made = _together(said, model)
            bins = made.reliability(8)
            axis.plot([0, 1], [0, 1], color=style.GREY, linewidth=0.8)
            x, y = [b.class_probability for b in bins], [b.frequency for b in bins]
            deviation = [np.sqrt(max(b.frequency * (1 - b.frequency), 1e-9) / b.size) for b in bins]
            axis.errorbar(x, y, yerr=deviation, fmt="o-", color=style.BLUE, markersize=3, elinewidth=0.8)
            axis.set_title(f"{model}\nlog-loss {made.log_loss:.2f}", fontsize=8)
        for axis in axes[-1]:
            axis.set_xlabel("class probability")
        for axis in axes[:, 0]:
            axis.set_ylabel("frequency")
    return picture


FIGURE = Figure("Figure 5: calibration of the class probability", _draw, seeds=2, evals=40)
