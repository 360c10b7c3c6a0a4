r"""Figure 1: its exact ratio is that of the densities, and it comes with numbers and the command that makes it."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy.integrate import quad

pytest.importorskip("matplotlib", reason="the figures need the extra boggn[paper]")

from boggn.paper import Size, fig1, make
from boggn.ratio import KDE, ClassifierRatio

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


def test_it_is_made_with_its_numbers(tmp_path, monkeypatch):
    light = {"KDE": lambda: KDE(gamma=GAMMA), "random forest": lambda: ClassifierRatio("forest", gamma=GAMMA)}
    monkeypatch.setattr(fig1, "_models", lambda seed: {name: new() for name, new in light.items()})
    monkeypatch.setattr(fig1, "COLOURS", {name: fig1.COLOURS[name] for name in light})
    monkeypatch.setattr(fig1, "FRESH", 2000)
    picture, numbers, text = make("fig1", tmp_path, Size(seeds=2))
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(numbers.open(encoding="utf-8")))
    scored = [row for row in rows if row["calibration error"]]
    assert {(row["model"], row["seed"]) for row in scored} == {
        (name, seed) for name in ("exact", *light) for seed in ("0", "1")
    }
    worst = {row["model"]: float(row["calibration error"]) for row in scored}
    assert worst["exact"] < worst["KDE"] < worst["random forest"]
    drawn = [row for row in rows if row["x"] and row["model"] == "KDE" and row["seed"] == "1"]
    assert len(drawn) == fig1.POINTS
    assert all(0 <= float(row["ratio"]) <= 1 / GAMMA + 1e-5 for row in drawn)
    assert "boggn paper fig1 --seeds 2 --out FOLDER" in text.read_text(encoding="utf-8")
