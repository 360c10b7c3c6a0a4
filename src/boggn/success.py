r"""Which points fail: a wide network with one threshold, between the trials that have an outcome and those that failed.

A failure is an outcome above every threshold, so P(y <= t | x) = P(success | x) P(y <= t | x, success): whatever is
integrated over thresholds, expected improvement among it, gains the factor P(success | x).
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from boggn import evidence
from boggn.config import Config
from boggn.encoding import Encoding
from boggn.observed import MOST_OBSERVED, History, arrange_classes, evenly, scheduled
from boggn.surrogate import FIT_ROWS, Conditioned, Memory, condition_wide

Floats = NDArray[np.float64]


def fit(config: Config, encoding: Encoding, history: History, memory: Memory) -> Conditioned:
    """Its acquisition is log P(success | x)."""
    units = np.vstack([history.units, history.failed])
    z = np.repeat([1.0, 0.0], [len(history.units), len(history.failed)])
    order = np.argsort([*history.numbers, *history.failed_numbers])
    units, z = units[order], z[order]
    hyper = _scales(config, encoding, units, z, memory)
    kept = _spread(z, MOST_OBSERVED)
    data = arrange_classes(config, encoding, units[kept], z[kept])
    nothing: Array = jnp.zeros_like(data.weight)
    conditioned: Conditioned = condition_wide(hyper, data, nothing, jnp.zeros(()), None, kind="pi")[2]
    return conditioned


def _scales(config: Config, encoding: Encoding, units: Floats, z: Floats, memory: Memory) -> Floats:
    """Prior scales learned from the first trials; those of the prior's mode until these are of two classes."""
    size = scheduled(len(z))[-1]
    units, z = units[:size], z[:size]

    def make() -> Floats:
        kept = _spread(z, FIT_ROWS)
        data = arrange_classes(config, encoding, units[kept], z[kept])
        start = evidence.start(data)
        learned = evidence.fit(data, [start]) if z.min() < z.max() else None
        return start if learned is None else learned.hyper

    name = repr(("success", config.link, encoding.names, encoding.distributions)).encode()
    scales: Floats = memory.recall([name, units.tobytes(), z.tobytes()], make)
    return scales


def _spread(z: Floats, limit: int) -> NDArray[np.intp]:
    """At most so many of the trials: of the rarer class as many as half of them allow, evenly spread over time."""
    failed, fine = np.flatnonzero(z == 0), np.flatnonzero(z == 1)
    few, many = sorted([failed, fine], key=len)
    few = evenly(few, max(limit // 2, limit - len(many)))
    return np.sort(np.concatenate([few, evenly(many, limit - len(few))]))
