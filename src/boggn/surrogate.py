r"""A fitted classifier of a history: prior scales by evidence, posterior, and how to read it.

| here        | meaning                                                                                   |
|-------------|-------------------------------------------------------------------------------------------|
| `Surrogate` | posterior and head, the incumbent T*, the cut T(tau), posterior means, and the record       |
| `Memory`    | fits already made, by the bytes they were made from: a saving of time, never of information |
| schedule    | prior scales are fitted on the first n_k observations, n_k growing by a fixed ratio          |
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from boggn import evidence
from boggn.acquisition import Acquisition, Incumbent, Kind
from boggn.config import Config
from boggn.encoding import Encoding, bucket, padded_width
from boggn.labels import label, threshold, utilities
from boggn.posterior.function import FunctionPosterior
from boggn.warp import Scale, scale_of

Floats = NDArray[np.float64]
BUCKETS = (32, 128, 256, 512, 1024)
FIT_ROWS = 256
"""Prior scales are learned from at most so many observations."""
REFIT_EVERY = 10
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


@partial(jax.tree_util.register_dataclass, data_fields=["posterior", "best", "acquisition"], meta_fields=[])
@dataclass(frozen=True)
class Conditioned:
    """What compiled code needs: a posterior, the encoded incumbent, and what is to be maximised."""

    posterior: Any
    best: Array
    acquisition: Acquisition


@dataclass(frozen=True)
class Surrogate:
    """A posterior over the latent of a history, and how to read it."""

    conditioned: Conditioned
    units: Floats
    means: Floats
    """Posterior mean at each of the units; smaller is better."""
    span: float
    width: int
    record: dict[str, Any]


def scheduled(count: int) -> int:
    """How many of `count` observations the prior scales are fitted on: a function of the count alone."""
    size = min(count, 2 * REFIT_EVERY)
    while (larger := size + max(1, size // REFIT_EVERY)) <= count:
        size = larger
    return size


class Observed(NamedTuple):
    """Observations in the order of the history, and the scale of their outcomes."""

    units: Floats
    values: Floats
    scale: Scale

    @staticmethod
    def of(units: Floats, values: Floats) -> Observed | None:
        """None if there are no two different outcomes."""
        scale = scale_of(values) if len(values) else None
        return None if scale is None else Observed(units, values, scale)

    def first(self, count: int) -> Observed | None:
        """The oldest observations, on a scale of their own."""
        return Observed.of(self.units[:count], self.values[:count])

    def at_most(self, limit: int) -> Observed:
        """The best half of the limit, and an even spread over the rest, on the same scale."""
        if len(self.values) <= limit:
            return self
        order = np.argsort(self.values, kind="stable")
        best, rest = order[: limit // 2], np.sort(order[limit // 2 :])
        spread = rest[np.linspace(0, len(rest) - 1, limit - len(best)).astype(np.intp)]
        chosen = np.sort(np.concatenate([best, spread]))
        return Observed(self.units[chosen], self.values[chosen], self.scale)


def _padded(array: Floats, size: int) -> Floats:
    return np.pad(array, [(0, size - len(array))] + [(0, 0)] * (array.ndim - 1))


def _data(config: Config, encoding: Encoding, observed: Observed, running: Floats) -> evidence.Data:
    """Observations and running points as padded arrays."""
    count = len(observed.values)
    z, weight, row = np.zeros(count), np.ones(count), np.arange(count)
    if config.thresholds == "one":
        labels = label(observed.values, config.gamma, weighting="ei" if config.acquisition == "ei" else "pi")
        z, weight, row = labels.z, labels.weight, labels.row
    size = bucket(len(row) + len(running), BUCKETS)
    width = padded_width(encoding.width)
    rows = np.vstack([encoding.encode(observed.units[row]), encoding.encode(running)])
    column = np.zeros(width, dtype=np.int32)
    column[: encoding.width] = encoding.parameter_of_column
    return evidence.Data(
        rows=np.pad(rows, ((0, size - len(rows)), (0, width - encoding.width))),
        utility=_padded(observed.scale.utility(observed.values)[row], size),
        z=_padded(z, size),
        weight=_padded(weight, size),
        column=column,
        length_prior=np.float64(evidence.length_prior(encoding.n_parameters)),
        thresholds=config.thresholds,
        link=config.link,
    )


def _fit_scales(config: Config, encoding: Encoding, observed: Observed, memory: Memory) -> evidence.Fit | None:
    learned_from = observed.first(scheduled(len(observed.values)))
    if learned_from is None:
        return None

    def make() -> evidence.Fit | None:
        data = _data(config, encoding, learned_from.at_most(FIT_ROWS), observed.units[:0])
        starts = [evidence.start(data)]
        if config.thresholds == "all":
            starts.append(evidence.start(data, log_noise=-4.0, log_offset=4.0))
        return evidence.fit(data, starts)

    name = repr((config, encoding.names, encoding.distributions)).encode()
    return memory.recall([name, learned_from.units.tobytes(), learned_from.values.tobytes()], make)


@partial(jax.jit, static_argnames=("kind",))
def _condition(hyper: Array, data: evidence.Data, running: Array, tau: Array, kind: Kind) -> tuple[Conditioned, Array]:
    """The posterior at the fitted scales, what is to be maximised, and the latent's mean at every row."""
    likelihood, head, _ = evidence.likelihood_of(hyper, data)
    believed = running * (0.25 if head.warp is None else 1.0 / head.scale**2)
    posterior = FunctionPosterior.of(evidence.prior_of(hyper, data), data.rows, likelihood, believed)
    ranked = posterior.latent if head.warp is not None else -posterior.latent
    known = (data.weight > 0) | (running > 0)
    best = data.rows[jnp.argmin(jnp.where(known, ranked, jnp.inf))]
    mean, variance = posterior.moments(best[None])
    cut = jnp.zeros(()) if head.warp is None else head.warp.target(tau)
    acquisition = Acquisition(head, Incumbent(mean[0], variance[0]), cut, kind)
    return Conditioned(posterior, best, acquisition), ranked


def fit_surrogate(
    config: Config, encoding: Encoding, units: Floats, values: Floats, running: Floats, memory: Memory
) -> Surrogate | str:
    """Fit the configured classifier, or say why it cannot be fitted."""
    observed = Observed.of(units, utilities(values))
    if observed is None:
        return "all outcomes are equal"
    fit = _fit_scales(config, encoding, observed, memory)
    if fit is None:
        return "the evidence has no finite maximum"
    shown = observed.at_most(BUCKETS[-1] // 2)
    running = running[-BUCKETS[-1] // 4 :]
    data = _data(config, encoding, shown, running)
    pending = np.zeros(len(data.rows))
    begin = int(np.count_nonzero(data.weight))
    pending[begin : begin + len(running)] = 1.0
    tau = threshold(observed.values, config.gamma)
    conditioned, ranked = _condition(
        fit.hyper, data, pending, observed.scale.utility(np.array(tau)), kind=config.acquisition
    )
    means = np.asarray(ranked)[: len(shown.values)]
    if not np.all(np.isfinite(means)):
        return "the posterior is not finite"
    log_scales = {
        "log_lengths": [round(float(v), 4) for v in fit.hyper[: encoding.n_parameters]],
        "log_amplitude": round(float(fit.hyper[-3]), 4),
        "log_noise": round(float(fit.hyper[-2]), 4),
        "log_offset": round(float(fit.hyper[-1]), 4),
    }
    record = {
        "model": f"wide network, {config.thresholds} thresholds, {config.link} link",
        "gamma": config.gamma,
        "threshold": tau,
        "log_evidence": float(conditioned.posterior.evidence),
        "log_joint": fit.log_joint,
        **log_scales,
        "fitted_on": scheduled(len(observed.values)),
        "observations": len(observed.values),
        "running": len(running),
    }
    return Surrogate(conditioned, shown.units, means, observed.scale.span, data.rows.shape[1], record)
