r"""Figure 1: its exact ratio is that of the densities, and it comes with numbers and the command that makes it."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.integrate import quad

pytest.importorskip("matplotlib", reason="the figures need the extra boggn[paper]")

from boggn.paper import Size, fig1, make

GAMMA = fig1.GAMMA


def test_the_densities_and_the_exact_ratio():
    for part in (0, 1):
        mass = quad(lambda x, part=part: float(fig1.densities(np.array(x))[part]), -12, 12, points=[-3, 0, 2])[0]
        assert mass == pytest.approx(1.0, abs=1e-6)
    grid = np.linspace(-6, 6, 101)
    above, below = fig1.densities(grid)
    np.testing.assert_allclose(1 / fig1.exact(grid), GAMMA + (1 - GAMMA) * below / above, rtol=1e-12)


def test_its_sample_is_of_these_densities():
    above, below = fig1._sample(np.random.default_rng(0), 30_000)
    assert (len(above), len(below)) == (10_000, 20_000)
    assert np.mean(above < 0) == pytest.approx(0.7 + 0.3 * 0.0228, abs=0.015)
    assert above.mean() == pytest.approx(0.3 * 2 - 0.7 * 3, abs=0.08)
    assert below.std() == pytest.approx(2.0, abs=0.05)


@pytest.mark.slow
def test_it_is_made_with_its_numbers(tmp_path, monkeypatch):
    pytest.importorskip("xgboost", reason="boosted trees need the package xgboost")
    monkeypatch.setattr(fig1, "ROWS", 240)  # fewer rows than the figure's own: the networks take their time
    monkeypatch.setattr(fig1, "FRESH", 2000)
    picture, numbers, text = make("fig1", tmp_path, Size(seeds=1))
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(numbers.read_text(encoding="utf-8").splitlines()))
    scored = {row["model"]: row for row in rows if row["calibration error"]}
    assert scored.keys() == {"exact", *fig1._models(0)}
    error = {name: float(row["calibration error"]) for name, row in scored.items()}
    assert error["exact"] < 0.5 * error["random forest"]
    assert {name for name, row in scored.items() if row["coverage"]} == {
        name for name in scored if name.startswith("Bayesian")
    }
    for name in fig1.COLOURS:
        drawn = [row for row in rows if row["x"] and row["model"] == name]
        assert len(drawn) == fig1.POINTS
        assert all(0 <= float(row["ratio"]) <= 1 / GAMMA + 1e-5 for row in drawn)
    assert "boggn paper fig1 --seeds 1 --out FOLDER" in text.read_text(encoding="utf-8")
