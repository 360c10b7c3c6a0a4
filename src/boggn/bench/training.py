r"""Real models trained on data that scikit-learn brings along, each in well under a second.

The minimum of these is not known. `optimum` is the lowest value that a long search found, with the scikit-learn of
constraints.txt; a point that is lower still has regret zero.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
import math
from collections.abc import Callable

import numpy as np
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

from boggn.bench.task import Params, Task
from boggn.errors import MissingPackageError

FOLDS = 3
GUESSING = math.log(10.0)
NETWORK_EPOCHS, NETWORK_BEST = 27, 0.19622528525848537
SVM_BEST, BOOST_BEST = 0.08499999999999996, 0.7047192340979238


def _trained(
    name: str, space: dict[str, BaseDistribution], loss: Callable[..., float], optimum: float, description: str
) -> Task:
    """A task whose value comes from training once per point, however often it is asked for."""
    if importlib.util.find_spec("sklearn") is None:
        raise MissingPackageError.of("scikit-learn", f"The task {name!r} would", "boggn[classifiers]")
    once = functools.lru_cache(maxsize=4)(lambda items: loss(**dict(items)))

    def value(params: Params) -> float:
        return once(tuple(sorted(params.items())))

    return Task(name, space, lambda p, _: value(p), lambda p: max(value(p) - optimum, 0.0), optimum, description)


def _network_losses(rate: float, width: int, decay: float, batch: int, momentum: float) -> list[float]:
    """Cross-entropy on 600 held-out handwritten digits after each epoch, at most that of guessing."""
    from sklearn.datasets import load_digits
    from sklearn.metrics import log_loss
    from sklearn.neural_network import MLPClassifier

    x, y = load_digits(return_X_y=True)
    x = x / 16.0
    network = MLPClassifier(
        (width,),
        solver="sgd",
        learning_rate_init=rate,
        alpha=decay,
        batch_size=batch,
        momentum=momentum,
        random_state=0,
    )
    losses = []
    for _ in range(NETWORK_EPOCHS):
        with np.errstate(all="ignore"):
            try:
                network.partial_fit(x[:600], y[:600], classes=range(10))
                probabilities = np.nan_to_num(network.predict_proba(x[600:1200]), nan=0.1)
            except ValueError:  # its weights are no longer finite
                break
        losses.append(min(float(log_loss(y[600:1200], probabilities, labels=range(10))), GUESSING))
    return losses + [GUESSING] * (NETWORK_EPOCHS - len(losses))


def network_digits() -> Task:
    """A small network, epoch by epoch."""
    space: dict[str, BaseDistribution] = {
        "rate": FloatDistribution(1e-4, 1.0, log=True),
        "width": IntDistribution(4, 64, log=True),
        "decay": FloatDistribution(1e-6, 1.0, log=True),
        "batch": IntDistribution(32, 256, step=32),
        "momentum": FloatDistribution(0.0, 0.95),
    }
    text = "a network on 600 digits: cross-entropy on 600 others after each of 27 epochs, best known"
    once = functools.lru_cache(maxsize=4)(lambda items: _network_losses(**dict(items)))

    def curve(params: Params) -> list[float]:
        return once(tuple(sorted(params.items())))

    made = _trained("network-digits", space, lambda **params: curve(params)[-1], NETWORK_BEST, text)
    return dataclasses.replace(made, steps=NETWORK_EPOCHS, curve=lambda params, _: curve(params))


def _svm_loss(cost: float, gamma: float, components: int) -> float:
    """Share of 600 handwritten digits misread."""
    from sklearn.datasets import load_digits
    from sklearn.decomposition import PCA
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    x, y = load_digits(return_X_y=True)
    model = make_pipeline(PCA(components, random_state=0), SVC(C=cost, gamma=gamma))
    return 1.0 - float(cross_val_score(model, x[:600], y[:600], cv=FOLDS).mean())


def svm_digits() -> Task:
    """Support vectors behind principal components."""
    space: dict[str, BaseDistribution] = {
        "cost": FloatDistribution(1e-3, 1e4, log=True),
        "gamma": FloatDistribution(1e-7, 1.0, log=True),
        "components": IntDistribution(2, 60),
    }
    text = "support vectors on 600 digits: share misread, 3 folds; steps of 1/600, best known"
    return _trained("svm-digits", space, _svm_loss, SVM_BEST, text)


def _boost_loss(rate: float, trees: int, depth: int, leaf: int, rows: float, columns: float) -> float:
    """Root of the mean squared error, over the standard deviation of the outcome."""
    from sklearn.datasets import load_diabetes
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    x, y = load_diabetes(return_X_y=True)
    model = GradientBoostingRegressor(
        learning_rate=rate,
        n_estimators=trees,
        max_depth=depth,
        min_samples_leaf=leaf,
        subsample=rows,
        max_features=columns,
        random_state=0,
    )
    residual = y - cross_val_predict(model, x, y, cv=FOLDS)
    return float((residual**2).mean() ** 0.5 / y.std())


def boost_diabetes() -> Task:
    """Boosted trees on a small regression."""
    space: dict[str, BaseDistribution] = {
        "rate": FloatDistribution(5e-3, 1.0, log=True),
        "trees": IntDistribution(5, 100, log=True),
        "depth": IntDistribution(1, 6),
        "leaf": IntDistribution(1, 40),
        "rows": FloatDistribution(0.2, 1.0),
        "columns": FloatDistribution(0.1, 1.0),
    }
    text = "boosted trees on the diabetes data: relative error, 3 folds; rugged, best known"
    return _trained("boost-diabetes", space, _boost_loss, BOOST_BEST, text)
