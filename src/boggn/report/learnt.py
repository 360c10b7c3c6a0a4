"""What the model says of a study, as plain values: importance, slices, planes, what is next. It asks `boggn.belief`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from boggn.belief import Band, Belief, belief, sampler_of
from boggn.errors import BoggnError, StudyError
from boggn.explain import Model, explain

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from optuna.study import Study

    from boggn.report.axes import Axis

    Floats = NDArray[np.float64]

_logger = logging.getLogger(__name__)

SLICE_POINTS = 61
PLANE_POINTS = 25
SOBOL_ROWS = 256
MOST_SLICES = 12
MOST_IN_PLANES = 4
TOP = 10
LEAST = 5
"""Outcomes below which a model says more of its prior than of the study."""


class Share(NamedTuple):
    """How much of the variance of the expected rank a parameter explains: alone, and with all its interactions."""

    name: str
    alone: float
    total: float


@final
@dataclass(frozen=True)
class Slice:
    """One parameter moves, the others stay at the recommended trial."""

    name: str
    values: list[Any]
    class_probability: Band
    outcome: Band | None


@final
@dataclass(frozen=True)
class Plane:
    """Two parameters move, the others stay where the sampler would go next.

    `worth` is what the sampler maximises as a share of what it is there, (values of y, values of x).
    """

    x: str
    y: str
    x_values: list[Any]
    y_values: list[Any]
    worth: Floats


@final
@dataclass(frozen=True)
class Learnt:
    """What the model believes now. `expected` has the outcomes of the best trials: median and interval."""

    params: tuple[str, ...]
    gamma: float
    threshold: float
    log_evidence: float
    anchor: int
    shares: tuple[Share, ...]
    slices: tuple[Slice, ...]
    planes: tuple[Plane, ...]
    expected: dict[int, tuple[float, float, float]]
    next_params: dict[str, Any] | None
    next_model: Model | None


def by_importance(names: Iterable[str], learnt: Learnt | None) -> list[str]:
    """Parameters, those that decide most about the outcome first; without a model, as they come."""
    known = {share.name: place for place, share in enumerate(learnt.shares)} if learnt else {}
    return sorted(names, key=lambda name: known.get(name, len(known)))


def learn(study: Study, axes: Mapping[str, Axis], best: Sequence[int]) -> Learnt | str:
    """Ask the model of a study's snapshot, or say why there is none. `best` are the numbers of the best trials."""
    if len(best) < LEAST:
        return f"{len(best)} outcome{'s are' if len(best) != 1 else ' is'} too few to learn from"
    try:
        believed = belief(study)
        evidence = believed.log_evidence
        trials = study.get_trials(deepcopy=False)
        completed = set(best)
        anchor = next((number for number in believed.ranking() if number in completed), None)
        if anchor is None:
            return "no completed trial lies inside the space as it is now"
        centre = {name: trials[anchor].params[name] for name in believed.params}
        shares = importance(believed, axes)
        ranked = [share.name for share in shares]
        top = [trials[number].params for number in best[:TOP]]
        next_params, next_model = _next(study)
    except (BoggnError, ArithmeticError, RuntimeError) as error:
        _logger.debug("No model for the report.", exc_info=True)
        return str(error).removeprefix("There is no model of this study yet: ").rstrip(".")
    return Learnt(
        params=believed.params,
        gamma=believed.gamma,
        threshold=believed.threshold,
        log_evidence=evidence,
        anchor=anchor,
        shares=shares,
        slices=tuple(_slices(believed, axes, centre, ranked[:MOST_SLICES])),
        planes=tuple(
            _planes(believed, axes, next_params or centre, ranked[:MOST_IN_PLANES], logarithmic=_logarithmic(study))
        ),
        expected=_expected(best[:TOP], _outcome(believed, top)),
        next_params=next_params,
        next_model=next_model,
    )


def importance(believed: Belief, axes: Mapping[str, Axis]) -> tuple[Share, ...]:
    """The parameters of a belief, those that decide most about the outcome first.

    Of ranks, so that an increasing transform of the outcomes changes nothing and a few extreme ones do not decide.
    """
    names = believed.params

    def ranks(units: Floats) -> Floats:
        from scipy.stats import rankdata

        columns = [_drawn(axes[name], units[:, j]) for j, name in enumerate(names)]
        points = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        outcome = _outcome(believed, points)
        values = believed.class_probability(points).mean if outcome is None else outcome.mean
        ranked: Floats = rankdata(values) / len(values)
        return ranked

    alone, total = variance_shares(ranks, len(names), SOBOL_ROWS)
    shares = [Share(*each) for each in zip(names, alone.tolist(), total.tolist(), strict=True)]
    return tuple(sorted(shares, key=lambda share: (-share.total, share.name)))


def variance_shares(function: Callable[[Floats], Floats], dimension: int, rows: int) -> tuple[Floats, Floats]:
    r"""First-order and total Sobol' indices of a function of the unit cube, by Jansen's estimators, each in [0, 1].

    With rows A and B, and A_j being A with column j from B: alone_j = 1 - E[(f(B) - f(A_j))^2] / 2V and
    total_j = E[(f(A) - f(A_j))^2] / 2V. Zero where the function is constant. (D,) each.
    """
    from scipy.stats import qmc

    sample = qmc.Sobol(2 * dimension, scramble=True, rng=np.random.default_rng(0)).random(rows)
    a, b = sample[:, :dimension], sample[:, dimension:]
    mixed = [np.where(np.arange(dimension) == j, b, a) for j in range(dimension)]
    values = function(np.vstack([a, b, *mixed])).reshape(dimension + 2, rows)
    variance = float(np.var(values[:2]))
    if not variance > 1e-24:
        return np.zeros(dimension), np.zeros(dimension)
    alone = 1.0 - np.mean((values[1] - values[2:]) ** 2, axis=1) / (2 * variance)
    total = np.mean((values[0] - values[2:]) ** 2, axis=1) / (2 * variance)
    return np.clip(alone, 0.0, 1.0), np.clip(total, 0.0, 1.0)


def _drawn(axis: Axis, units: Floats) -> list[Any]:
    """Values of an axis at places in [0, 1); levels are equally likely."""
    if axis.levels is None:
        return axis.at(units)
    return [axis.levels[int(unit * len(axis.levels))] for unit in units]


def _slices(believed: Belief, axes: Mapping[str, Axis], centre: dict[str, Any], names: Sequence[str]) -> list[Slice]:
    """One question to the model for all of them."""
    values = {name: axes[name].values(SLICE_POINTS, centre[name]) for name in names}
    points = [centre | {name: value} for name in names for value in values[name]]
    probability, outcome = believed.class_probability(points), _outcome(believed, points)
    ends = np.cumsum([0, *(len(values[name]) for name in names)])
    return [
        Slice(name, values[name], _part(probability, ends[j], ends[j + 1]), _maybe(outcome, ends[j], ends[j + 1]))
        for j, name in enumerate(names)
    ]


def _planes(
    believed: Belief, axes: Mapping[str, Axis], centre: dict[str, Any], names: Sequence[str], *, logarithmic: bool
) -> list[Plane]:
    """One question to the model for all of them."""
    values = {name: axes[name].values(PLANE_POINTS, centre[name]) for name in names}
    pairs = list(combinations(names, 2))
    points = [centre] + [centre | {x: a, y: b} for x, y in pairs for b in values[y] for a in values[x]]
    worth = relative(believed.acquisition(points), logarithmic=logarithmic)
    ends = np.cumsum([1, *(len(values[x]) * len(values[y]) for x, y in pairs)])
    return [
        Plane(x, y, values[x], values[y], worth[ends[j] : ends[j + 1]].reshape(len(values[y]), len(values[x])))
        for j, (x, y) in enumerate(pairs)
    ]


def relative(acquisition: Floats, *, logarithmic: bool) -> Floats:
    """Values as shares of the first one; those that are no logarithms have no zero but the least of them."""
    known = np.isfinite(acquisition)
    if not known.any():
        return np.ones_like(acquisition)
    low, high = acquisition[known].min(), acquisition[known].max()
    first = acquisition[0] if known[0] else high
    if logarithmic:
        return np.where(known, np.exp(np.minimum(acquisition - first, 1.0)), 0.0)  # the first is the best, or nearly
    return np.where(known, acquisition - low, 0.0) / (first - low) if first > low else np.ones_like(acquisition)


def _next(study: Study) -> tuple[dict[str, Any] | None, Model | None]:
    """Where the sampler would go next, and what it expects there; nothing if it would draw at random."""
    trial = study.ask()
    params = trial.relative_params
    model = explain(study, trial.number).model
    return (None, None) if model is None else (params, model)


def _logarithmic(study: Study) -> bool:
    """A network's improvement or probability comes as its logarithm; a classifier's, or a hopeful outcome, does not."""
    config = sampler_of(study).config
    return config.classifier is None and config.acquisition in {"ei", "pi"}


def _outcome(believed: Belief, points: Sequence[Mapping[str, Any]]) -> Band | None:
    try:
        with np.errstate(over="ignore"):  # far from the trials an outcome may be beyond all numbers
            return believed.outcome(points)
    except StudyError:  # a model of one threshold knows no outcomes
        return None


def _expected(numbers: Sequence[int], band: Band | None) -> dict[int, tuple[float, float, float]]:
    if band is None:
        return {}
    rows = zip(numbers, *(column.tolist() for column in band), strict=True)
    return {number: (middle, low, high) for number, middle, low, high in rows if math.isfinite(middle)}


def _part(band: Band, begin: int, end: int) -> Band:
    return Band(*(column[begin:end] for column in band))


def _maybe(band: Band | None, begin: int, end: int) -> Band | None:
    return None if band is None else _part(band, begin, end)
