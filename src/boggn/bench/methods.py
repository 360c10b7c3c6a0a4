r"""Who minimises: boggn, its variants, and its peers.

A method is written `name` or `name:option=value,option=value`; the options go to what makes the sampler or peer, as in
`boggn:thresholds=one,link=logit`, `boggn:classifier=forest,acquisition=pi` (BORE) or `tpe:multivariate=true`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import optuna
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, RandomSampler, TPESampler
from optuna.study import Study
from optuna.trial import FrozenTrial

from boggn.bench.optimiser import Optimiser, OptunaOptimiser, PruningOptimiser
from boggn.bench.peers import PEERS, python_of
from boggn.bench.peers.client import PeerOptimiser
from boggn.bench.task import Task
from boggn.errors import StudyError


@dataclass(frozen=True)
class Method:
    r"""`start(task, seed, evals)` makes a fresh optimiser, `recommend` says which trial its model thinks best.

    That is the one with the best posterior mean, in the history so far; None for a method without a model of the mean.
    """

    name: str
    start: Callable[[Task, int, int], Optimiser]
    recommend: Callable[[int, Sequence[FrozenTrial]], int] | None = None


def _boggn(name: str) -> Any:
    """A public name of boggn, imported only when a method asks for it: peers run without JAX."""
    module = importlib.import_module("boggn")
    if not hasattr(module, name):
        raise ImportError(f"boggn has no public {name!r}; is another package of that name on the path?")
    return getattr(module, name)


def _make_boggn(seed: int, **options: Any) -> BaseSampler:
    sampler: BaseSampler = _boggn("BOGGNSampler")(seed=seed, **options)
    return sampler


def _make_paper(seed: int, **options: Any) -> BaseSampler:
    sampler: BaseSampler = _boggn("BOGGNSampler").paper(seed=seed, **options)
    return sampler


def _recommend_boggn(study: Study) -> int:
    return int(_boggn("recommend")(study).number)


def _recommend_gp(study: Study) -> int:
    """The evaluated point with the best posterior mean of the GP that `GPSampler` fits by default to this history."""
    # Private modules of Optuna, used as GPSampler itself uses them: its model is not public.
    import torch
    from optuna._gp import gp, prior, search_space
    from optuna.search_space import intersection_search_space

    trials = study.trials
    distributions = {k: d for k, d in intersection_search_space(trials).items() if not d.single()}
    space = search_space.SearchSpace(distributions)
    x = space.get_normalized_params(trials)
    score = -np.array([trial.value for trial in trials], dtype=np.float64)
    model = gp.fit_kernel_params(
        X=x,
        Y=(score - score.mean()) / max(1e-10, float(score.std())),
        is_categorical=space.is_categorical,
        log_prior=prior.default_log_prior,
        minimum_noise=prior.DEFAULT_MINIMUM_NOISE_VAR,
        deterministic_objective=False,
    )
    with torch.no_grad():
        mean, _ = model.posterior(torch.from_numpy(x))
    return int(mean.argmax())


def _make_tpe(seed: int, **options: Any) -> BaseSampler:
    return TPESampler(seed=seed, **options)


def _make_gp(seed: int, **options: Any) -> BaseSampler:
    return GPSampler(seed=seed, **options)


def _make_random(seed: int, **options: Any) -> BaseSampler:
    return RandomSampler(seed=seed, **options)


def _make_cmaes(seed: int, **options: Any) -> BaseSampler:
    return CmaEsSampler(seed=seed, warn_independent_sampling=False, **options)  # it falls back by design


@dataclass(frozen=True)
class _Family:
    """Methods that are samplers of Optuna; `needs` is a package that only this one needs."""

    make: Callable[..., BaseSampler]
    description: str
    recommend: Callable[[Study], int] | None = None
    needs: str | None = None
    hyperband: bool = False


_FAMILIES: dict[str, _Family] = {
    "boggn": _Family(_make_boggn, "boggn, its defaults", _recommend_boggn),
    "boggn-paper": _Family(_make_paper, "boggn as in the paper", _recommend_boggn),
    "tpe": _Family(_make_tpe, "Optuna's tree of Parzen estimators"),
    "gp": _Family(_make_gp, "Optuna's Gaussian process", _recommend_gp, needs="torch"),
    "cmaes": _Family(_make_cmaes, "Optuna's CMA-ES; categorical parameters at random", needs="cmaes"),
    "random": _Family(_make_random, "uniform random search"),
    "hyperband": _Family(_make_random, "Hyperband: random search with early ends; tasks with steps", hyperband=True),
    "bohb": _Family(_make_tpe, "BOHB as in Optuna: TPE and Hyperband; tasks with steps", hyperband=True),
    "boggn-hyperband": _Family(_make_boggn, "boggn and Hyperband; tasks with steps", hyperband=True),
}


def get(name: str) -> Method:
    """The method that a name, with its options if any, stands for."""
    family_name, _, text = name.partition(":")
    if family_name not in _FAMILIES and family_name not in PEERS:
        raise StudyError(f"Unknown method {family_name!r}; known are {', '.join([*_FAMILIES, *PEERS])}.")
    options = _parse_options(name, text)
    if family_name in PEERS:
        return Method(name, lambda task, seed, evals: PeerOptimiser(family_name, task, seed, evals, options))
    family = _FAMILIES[family_name]
    sampler = functools.partial(family.make, **options)
    if family.hyperband:
        return Method(name, lambda task, seed, _: PruningOptimiser.pruned(task, sampler(seed), seed))
    recommend = None if family.recommend is None else functools.partial(_recommend, family.recommend, sampler)
    return Method(name, lambda task, seed, _: OptunaOptimiser.of(task, sampler(seed)), recommend)


def _recommend(
    ask: Callable[[Study], int],
    sampler: Callable[[int], BaseSampler],
    seed: int,
    past: Sequence[FrozenTrial],
) -> int:
    """On a copy of the history: it must not steer or slow the run itself."""
    study = optuna.create_study(sampler=sampler(seed))
    study.add_trials(past)
    return ask(study)


def absent(name: str) -> str | None:
    """What is missing for a method to run here, if anything."""
    family_name = name.partition(":")[0]
    if family_name in PEERS:
        return None if python_of(family_name) is not None else PEERS[family_name].install
    needs = _FAMILIES[family_name].needs
    return None if needs is None or importlib.util.find_spec(needs) is not None else needs


def describe() -> dict[str, str]:
    """Every method's name and what it is."""
    ours = {name: family.description for name, family in _FAMILIES.items()}
    return ours | {name: peer.description for name, peer in PEERS.items()}


def _parse_options(name: str, text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key.isidentifier() or key in options:
            raise StudyError(f"Method {name!r}: {item!r} is not one more option=value.")
        options[key] = _parse_value(value)
    return options


def _parse_value(value: str) -> Any:
    """Numbers, true, false and null as in JSON; anything else is a string."""
    try:
        return json.loads(value)
    except json.JSONDecodeError:
        return value


def split_names(text: str) -> list[str]:
    r"""Split a command line's list of methods at the commas between methods, not at those between options.

    `tpe,boggn:link=logit,thresholds=one,gp` has three: a piece with `=` but no `:` continues the method before it.
    """
    names: list[str] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        if names and "=" in piece and ":" not in piece.partition("=")[0]:
            names[-1] += f",{piece}"
        else:
            names.append(piece)
    return names
