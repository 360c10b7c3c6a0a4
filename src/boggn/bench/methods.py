r"""Who minimises: boggn, its variants, and peers, each behind Optuna's sampler interface.

A method is written `name` or `name:option=value,option=value`; the options go to the sampler's constructor, as in
`boggn:thresholds=one,link=logit`, `boggn:classifier=forest,acquisition=pi` (BORE) or `tpe:multivariate=true`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.study import Study


@dataclass(frozen=True)
class Method:
    r"""`sampler(seed)` makes a fresh sampler; `recommend(study)` is the number of the trial that its model thinks best.

    That is the one with the best posterior mean. None for a sampler without a model of the mean.
    """

    name: str
    sampler: Callable[[int], BaseSampler]
    recommend: Callable[[Study], int] | None = None


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


@dataclass(frozen=True)
class _Family:
    make: Callable[..., BaseSampler]
    recommend: Callable[[Study], int] | None = None


_FAMILIES: dict[str, _Family] = {
    "boggn": _Family(_make_boggn, _recommend_boggn),
    "boggn-paper": _Family(_make_paper, _recommend_boggn),
    "tpe": _Family(_make_tpe),
    "gp": _Family(_make_gp, _recommend_gp),
    "random": _Family(_make_random),
}


def get(name: str) -> Method:
    """The method that a name, with its options if any, stands for."""
    family_name, _, text = name.partition(":")
    if family_name not in _FAMILIES:
        raise ValueError(f"Unknown method {family_name!r}; known are {', '.join(_FAMILIES)}.")
    family = _FAMILIES[family_name]
    options = _parse_options(name, text)
    return Method(name, lambda seed: family.make(seed, **options), family.recommend)


def _parse_options(name: str, text: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals or not key.isidentifier() or key in options:
            raise ValueError(f"Method {name!r}: {item!r} is not one more option=value.")
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
