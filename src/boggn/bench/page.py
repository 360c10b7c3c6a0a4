r"""The report as one HTML page that needs no network: the tables, and plots a reader can question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from boggn.bench import document, report, results, statistics
from boggn.bench.results import Floats, Results
from boggn.bench.rows import Row

_POINTS = 24  # along the evaluations, at which ranks are bootstrapped
_DRAWS = 400
PROFILE_TARGET = 1e-2


def html(rows: Sequence[Row], checkpoints: Sequence[int], reference: str | None = None) -> str:
    """The whole page."""
    found = results.collect(rows)
    template = files("boggn.bench").joinpath("page.html").read_text(encoding="utf-8")
    # Inside a script element nothing but "</" could end it.
    data = json.dumps(_data(found, rows), separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    title = f"{len(found.methods)} methods on {len(found.curves)} tasks"
    first, *others = report.sections(rows, checkpoints, reference)
    parts = {"title": escape(title), "said": document.html([first]), "body": document.html(others), "data": data}
    for name, text in parts.items():
        template = template.replace("{{" + name + "}}", text)
    return template


def _data(found: Results, rows: Sequence[Row]) -> dict[str, Any]:
    data: dict[str, Any] = {"methods": found.methods, "tasks": {}}
    if not found.curves:
        return data
    for task, curves in found.curves.items():
        data["tasks"][task] = {"seeds": len(found.seeds[task]), "quartiles": _quartiles(curves)}
    if len(found.methods) > 1:
        per_task = np.array([statistics.ranks(task).mean(axis=0) for task in found.at(_longest(found))])
        data |= {"ranks": _ranks(found), "profile": _profile(found), "quality": _quality(found, rows)}
        data["difference"] = {
            "mean": _plain(per_task.mean(axis=0)),
            "critical": statistics.critical_difference(*per_task.shape[::-1]),
            "friedman": statistics.friedman(per_task),
            "tasks": len(per_task),
        }
    return data


def _longest(found: Results) -> int:
    return int(max(curve.shape[2] for curve in found.curves.values()))


def _plain(values: Floats) -> Any:
    """Four digits are more than a screen shows; what is not finite has no place on one."""
    return [_plain(value) if value.ndim else float(f"{value:.4g}") if np.isfinite(value) else None for value in values]


def _quartiles(curves: Floats) -> Any:
    """By method, lower quartile, median and upper quartile after each evaluation."""
    finite = np.where(np.isfinite(curves), curves, np.finfo(np.float64).max)
    quartiles = np.quantile(finite, [0.25, 0.5, 0.75], axis=0).swapaxes(0, 1)
    return [_plain(np.where(method < np.finfo(np.float64).max / 2, method, np.inf)) for method in quartiles]


def _ranks(found: Results) -> dict[str, Any]:
    counts = np.unique(np.linspace(1, _longest(found), _POINTS).astype(int))
    drawn = []
    for count in counts:
        per_task = [statistics.ranks(task) for task in found.at(int(count))]
        mean = np.mean([task.mean(axis=0) for task in per_task], axis=0)
        low, high = np.quantile(statistics.bootstrap(per_task, _DRAWS), [0.025, 0.975], axis=0)
        drawn.append([low, mean, high])
    return {"counts": counts.tolist(), "bands": [_plain(band) for band in np.array(drawn).transpose(2, 1, 0)]}


def _profile(found: Results) -> dict[str, Any]:
    ratios = np.geomspace(1, 20, 60)
    shares = statistics.profile(list(found.curves.values()), ratios, PROFILE_TARGET)
    return {"ratios": _plain(ratios), "shares": _plain(shares), "target": PROFILE_TARGET}


def _quality(found: Results, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per method, the area under its curves against what an evaluation costs: CPU where counted, else wall time."""
    per_task = [statistics.areas(curve) for curve in found.curves.values()]
    means, drawn = np.mean([task.mean(axis=0) for task in per_task], axis=0), statistics.bootstrap(per_task, _DRAWS)
    points = []
    for index, method in enumerate(found.methods):
        runs = [row for row in rows if row["method"] == method and row["error"] is None]
        counted = [row["cpu_seconds"] / row["evals"] for row in runs if "cpu_seconds" in row]
        seconds = counted or [float(np.mean(row["ask_seconds"])) for row in runs]
        area = statistics.interval(float(means[index]), drawn[:, index])
        cost = 1e3 * float(np.median(seconds)) if seconds else None
        points.append({"ms": cost, "cpu": bool(counted), "area": _plain(np.array([area.low, area.value, area.high]))})
    return points
