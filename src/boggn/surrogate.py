r"""A fitted classifier of a history: prior scales by evidence, posterior, and how to read it.

| here        | meaning                                                                                   |
|-------------|-------------------------------------------------------------------------------------------|
| `Surrogate` | posterior and head, the incumbent T*, the cut T(tau), posterior means, and the record       |
| `Memory`    | fits already made, by the bytes they were made from: a saving of time, never of information |
| schedule    | prior scales are fitted on the first n_k observations, n_k growing by a fixed ratio          |
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from boggn import evidence
from boggn.config import Config
from boggn.encoding import Encoding, bucket, padded_width
from boggn.labels import label, threshold, utilities
from boggn.predictive import Head
from boggn.warp import scale_of

Floats = NDArray[np.float64]
BUCKETS = (32, 128, 256, 512, 1024)
FIT_ROWS = 256
"""Prior scales are learned from at most so many observations."""
REFIT_EVERY = 16
"""Prior scales are learned again whenever the history has grown by one part in so many."""


class Memory:
    """The last few fits, by a hash of all they depend on. Safe to share between threads."""

    def __init__(self, size: int = 8) -> None:
        self._size = size
        self._fits: OrderedDict[bytes, Any] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, inputs: list[bytes], make: Callable[[], Any]) -> Any:
        """What `make` returned for these inputs, now or before."""
        key = hashlib.blake2b(b"|".join(inputs), digest_size=16).digest()
        with self._lock:
            if key in self._fits:
                self._fits.move_to_end(key)
                return self._fits[key]
        made = make()
        with self._lock:
            self._fits[key] = made
            while len(self._fits) > self._size:
                self._fits.popitem(last=False)
        return made


@dataclass(frozen=True)
class Surrogate:
    """A posterior over the latent, and how to read it."""

    posterior: Any
    head: Head
    incumbent: Array
    cut: Array
    means: Floats
    """Posterior mean at each observation; smaller is better."""
    width: int
    record: dict[str, Any]


def scheduled(count: int) -> int:
    """How many of `count` observations the prior scales are fitted on: a function of the count alone."""
    size = min(count, REFIT_EVERY)
    while (larger := size + max(1, size // REFIT_EVERY)) <= count:
        size = larger
    return size


def _subset(values: Floats, limit: int) -> NDArray[np.intp]:
    """At most `limit` observations: the best half, and an even spread over the rest."""
    if len(values) <= limit:
        return np.arange(len(values))
    order = np.argsort(values, kind="stable")
    best, rest = order[: limit // 2], np.sort(order[limit // 2 :])
    spread = rest[np.linspace(0, len(rest) - 1, limit - len(best)).astype(np.intp)]
    return np.sort(np.concatenate([best, spread]))


def _padded(array: Floats, size: int) -> Floats:
    return np.pad(array, [(0, size - len(array))] + [(0, 0)] * (array.ndim - 1))


def _data(config: Config, encoding: Encoding, units: Floats, values: Floats, running: Floats) -> evidence.Data | None:
    """Observations and running points as padded arrays; None if all outcomes are equal."""
    scale = scale_of(values)
    if scale is None:
        return None
    utility, z, weight, row = scale.utility(values), np.zeros(len(values)), np.ones(len(values)), np.arange(len(values))
    if config.thresholds == "one":
        labels = label(values, config.gamma, weighting="ei" if config.acquisition == "ei" else "pi")
        z, weight, row = labels.z, labels.weight, labels.row
    size = bucket(len(row) + len(running), BUCKETS)
    width = padded_width(encoding.width)
    rows = np.vstack([encoding.encode(units[row]), encoding.encode(running)])
    column = np.zeros(width, dtype=np.int32)
    column[: encoding.width] = encoding.parameter_of_column
    return evidence.Data(
        rows=np.pad(rows, ((0, size - len(rows)), (0, width - encoding.width))),
        utility=_padded(utility[row], size),
        z=_padded(z, size),
        weight=_padded(weight, size),
        column=column,
        length_prior=np.float64(evidence.length_prior(encoding.n_parameters)),
        thresholds=config.thresholds,
        link=config.link,
    )


def _fit_scales(config: Config, encoding: Encoding, units: Floats, values: Floats, memory: Memory) -> evidence.Fit | None:
    count = scheduled(len(values))
    units, values = units[:count], values[:count]
    chosen = _subset(values, FIT_ROWS)
    units, values = units[chosen], values[chosen]

    def make() -> evidence.Fit | None:
        data = _data(config, encoding, units, values, units[:0])
        if data is None:
            return None
        starts = [evidence.start(data)]
        if config.thresholds == "all":
            starts.append(evidence.start(data, log_noise=-4.0, log_offset=4.0))
        return evidence.fit(data, starts)

    return memory.recall([repr((config, encoding.distributions)).encode(), units.tobytes(), values.tobytes()], make)


def fit_surrogate(
    config: Config, encoding: Encoding, units: Floats, values: Floats, running: Floats, memory: Memory
) -> Surrogate | str:
    """Fit the configured classifier, or say why it cannot be fitted."""
    values = utilities(values)
    chosen = _subset(values, BUCKETS[-1] // 2)
    running = running[-BUCKETS[-1] // 4 :]
    data = _data(config, encoding, units[chosen], values[chosen], running)
    if data is None:
        return "all outcomes are equal"
    fit = _fit_scales(config, encoding, units, values, memory)
    if fit is None:
        return "the evidence was not finite"
    pending = np.zeros(len(data.rows))
    begin = int(np.sum(np.asarray(data.weight) > 0))
    pending[begin : begin + len(running)] = 1.0
    posterior, head = evidence.condition(fit.hyper, data, pending)
    latent = np.asarray(posterior.latent)
    if not np.all(np.isfinite(latent)):
        return "the posterior was not finite"
    sign = 1.0 if config.thresholds == "all" else -1.0
    known = latent[: begin + len(running)]
    means = np.full(len(values), np.inf)
    means[chosen] = sign * latent[: len(chosen)]
    tau = threshold(values, config.gamma)
    scale = scale_of(values[chosen])
    assert scale is not None
    cut = np.float64(0.0)
    if head.warp is not None:
        utility = float(scale.utility(np.array([tau]))[0])
        cut = (math.log(utility + math.exp(float(head.warp.log_offset))) - float(head.warp.center)) / float(head.warp.spread)
    record = {
        "model": f"wide network, {config.thresholds} thresholds, {config.link} link",
        "gamma": config.gamma,
        "threshold": tau,
        "log_evidence": float(posterior.evidence),
        "log_joint": fit.log_joint,
        "log_lengths": [round(float(v), 4) for v in fit.hyper[: encoding.n_parameters]],
        "log_amplitude": round(float(fit.hyper[-3]), 4),
        "log_noise": round(float(fit.hyper[-2]), 4),
        "log_offset": round(float(fit.hyper[-1]), 4),
        "fitted_on": scheduled(len(values)),
        "observations": len(values),
        "running": len(running),
        "span": scale.span,
    }
    return Surrogate(
        posterior, head, np.float64(np.min(sign * known)), np.float64(cut), means, data.rows.shape[1], record
    )
