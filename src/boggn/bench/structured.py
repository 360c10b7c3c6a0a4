r"""Tasks whose parameters are of several kinds, or are there only at times; in closed form, with minimum 0."""

from __future__ import annotations

import math

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from boggn.bench.task import Condition, Params, Task

_MIXED_OPTIMISERS = {"sgd": (-1.2, 0.11), "adam": (-3.1, 0.0), "lamb": (-2.3, 0.04)}  # best log10 rate, penalty
_MIXED_ACTIVATIONS = {"relu": (4, 0.03), "tanh": (2, 0.14), "gelu": (5, 0.0), "elu": (3, 0.07)}  # best depth, penalty


def mixed_value(params: Params) -> float:
    """A made-up learning problem: the best rate depends on the optimiser, the best depth on the activation; min 0."""
    best_rate, optimiser = _MIXED_OPTIMISERS[params["optimiser"]]
    best_depth, activation = _MIXED_ACTIVATIONS[params["activation"]]
    rate = math.log10(params["rate"]) - best_rate
    width = math.log2(params["width"]) - 7
    dropout = float(params["dropout"]) - 0.23 - 0.04 * width
    ripple = 0.05 * (1 - math.cos(3 * math.pi * rate))
    depth = int(params["depth"]) - best_depth
    return 0.3 * rate**2 + ripple + 1.5 * dropout**2 + 0.04 * width**2 + 0.05 * depth**2 + optimiser + activation


MIXED_MINIMISER = {
    "optimiser": "adam",
    "activation": "gelu",
    "rate": 10**-3.1,
    "width": 128,
    "dropout": 0.23,
    "depth": 5,
}


def mixed() -> Task:
    """Numbers on linear and logarithmic scales beside categories, all of them interacting."""
    space: dict[str, BaseDistribution] = {
        "optimiser": CategoricalDistribution(tuple(_MIXED_OPTIMISERS)),
        "activation": CategoricalDistribution(tuple(_MIXED_ACTIVATIONS)),
        "rate": FloatDistribution(1e-5, 1.0, log=True),
        "width": IntDistribution(8, 1024, log=True),
        "dropout": FloatDistribution(0.0, 0.8),
        "depth": IntDistribution(1, 8),
    }
    text = "two floats (one log), two ints (one log), two categoricals, interacting"
    return Task("mixed", space, lambda params, _: mixed_value(params), mixed_value, 0.0, text)


PIPELINE_MINIMISER = {"model": "svm", "kernel": "rbf", "cost": 10**1.3, "gamma": 10**-2.2}


def pipeline_value(params: Params) -> float:
    """The choice of a model and then of its own settings: the best is the narrowest, the widest is the worst."""
    if params["model"] == "forest":
        trees, leaf, share = math.log10(params["trees"]) - 2.4, int(params["leaf"]) - 3, float(params["share"]) - 0.4
        return 0.06 + 0.02 * trees**2 + 0.001 * leaf**2 + 0.1 * share**2
    if params["model"] == "network":
        rate = math.log10(params["rate"]) + 2.7
        return (
            0.02 + 0.1 * rate**2 + 0.05 * (1 - math.cos(3 * math.pi * rate)) + 0.02 * (int(params["layers"]) - 3) ** 2
        )
    cost = math.log10(params["cost"]) - 1.3
    if params["kernel"] == "linear":
        return 0.09 + 0.05 * cost**2
    gamma = math.log10(params["gamma"]) + 2.2
    return 0.15 * (cost + gamma) ** 2 + 0.6 * (gamma - cost) ** 2  # a valley across the axes


def pipeline() -> Task:
    """A tree of two levels: three models, and two kernels of one of them."""
    space: dict[str, BaseDistribution] = {
        "model": CategoricalDistribution(("forest", "network", "svm")),
        "trees": IntDistribution(10, 1000, log=True),
        "leaf": IntDistribution(1, 20),
        "share": FloatDistribution(0.05, 1.0),
        "rate": FloatDistribution(1e-5, 1.0, log=True),
        "layers": IntDistribution(1, 6),
        "kernel": CategoricalDistribution(("linear", "rbf")),
        "cost": FloatDistribution(1e-3, 1e3, log=True),
        "gamma": FloatDistribution(1e-5, 10.0, log=True),
    }
    conditions = {
        **{name: Condition("model", ("forest",)) for name in ("trees", "leaf", "share")},
        **{name: Condition("model", ("network",)) for name in ("rate", "layers")},
        **{name: Condition("model", ("svm",)) for name in ("kernel", "cost")},
        "gamma": Condition("kernel", ("rbf",)),
    }
    text = "conditional: three models, each with parameters of its own, one of them with a kernel that has another"
    return Task("pipeline", space, lambda p, _: pipeline_value(p), pipeline_value, 0.0, text, conditions=conditions)
