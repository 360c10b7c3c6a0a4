"""The bound on the regret: above the true regret, below what was there to gain, and the end of a study."""

import math
from pathlib import Path
from typing import Any

import pytest

import boggn
from boggn.product.studyfile import load
from boggn.product.terminator import note_if_enough, regret_bound, was_enough
from boggn.product.worker import study_of
from commandline import spawn

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


def bowl(parameters: dict[str, Any]) -> float:
    """Its least value is 1, at (0.3, 0.6)."""
    return float(1.0 + (parameters["x"] - 0.3) ** 2 + (parameters["y"] - 0.6) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["maximize"])
def test_the_bound_is_above_the_regret_and_ends_the_study(direction: str) -> None:
    sign = 1.0 if direction == "minimize" else -1.0

    def objective(parameters: dict[str, Any]) -> float:
        return sign * bowl(parameters)

    options: dict[str, Any] = {"seed": 0, "direction": direction, "progress": False, "n_startup_trials": 5}
    study = boggn.minimize(objective, SPACE, 14, **options)
    assert regret_bound(study) == math.inf  # too early
    study = boggn.minimize(objective, SPACE, 22, storage=study._storage, study_name=study.study_name, **options)
    bound = regret_bound(study)
    regret = sign * study.best_value - 1.0
    assert 0.0 <= regret <= bound < 0.01
    note_if_enough(study, bound / 2)
    assert was_enough(study, bound / 2) is None
    note_if_enough(study, 2 * bound)
    assert "95% probability" in str(was_enough(study, 2 * bound))
    assert was_enough(study, bound / 2) is None
    assert was_enough(study, None) is None


@pytest.mark.slow
def test_a_run_ends_when_it_is_good_enough(folder: Path) -> None:
    path = folder / "study.toml"
    path.write_text(
        """
        [objective]
        command = "awk 'BEGIN { print 1 + ({x} - 0.3)^2 }'"
        [space]
        x = { low = 0.0, high = 1.0 }
        [budget]
        trials = 60
        regret = 0.01
        [sampler]
        n_startup_trials = 4
        """,
        encoding="utf-8",
    )
    done = spawn("run", path)
    assert done.returncode == 0, done.stderr
    assert "with 95% probability the best is within" in done.stdout
    assert 14 <= len(study_of(load(path)).trials) < 60
