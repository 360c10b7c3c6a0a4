r"""Data grow at every trial; compiled code must not be made anew with them."""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST = 12
CODE = """
import jax
import optuna
from boggn import BOGGNSampler

compiled = []

def listen(event, duration, **_):
    if event == "/jax/core/compile/backend_compile_duration":
        compiled.append(duration)

jax.monitoring.register_event_duration_secs_listener(listen)

def objective(trial):
    x, y = trial.suggest_float("x", -5.0, 10.0), trial.suggest_float("y", 0.0, 15.0)
    return (x - 2.0) ** 2 + (y - 3.0) ** 2

optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=BOGGNSampler(seed=0))
study.optimize(objective, n_trials=200)
print(len(compiled))
"""


@pytest.mark.slow
def test_a_study_of_200_trials_compiles_little() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    count = int(done.stdout)
    assert 0 < count <= MOST
