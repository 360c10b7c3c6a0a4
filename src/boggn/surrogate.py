r"""A classifier fitted to a history, conditioned on it, and ready to be searched.

| here          | meaning                                                                               |
|---------------|---------------------------------------------------------------------------------------|
| `Surrogate`   | what the engine searches and records                                                   |
| `Conditioned` | a posterior with the incumbent x* and the acquisition, as compiled code takes it         |
| `success`     | where trials have failed: the classifier of those that did not                            |
| `Memory`      | fits already made, by the bytes they were made from: a saving of time, never of information |

Two networks, one seam: the wide one with its closed-form prior, and the multilayer perceptron, linearised at its mode.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from boggn import evidence, perceptron
from boggn.acquisition import Acquisition, Incumbent, Kind, Moments
from boggn.config import Config
from boggn.encoding import Encoding
from boggn.evidence import Data
from boggn.labels import threshold, utilities
from boggn.laplace import Anchor
from boggn.network.spec import MLP, Wide
from boggn.network.wide import WideFeatures
from boggn.observed import MOST_OBSERVED, MOST_RUNNING, History, Observed, arrange, scheduled
from boggn.posterior.choose import condition
from boggn.posterior.features import FeaturePosterior
from boggn.posterior.function import FunctionPosterior
from boggn.posterior.structure import Structure
from boggn.predictive import Head
from boggn.warp import Scale

Floats = NDArray[np.float64]
FIT_ROWS = 256
"""Prior scales of the wide network are learned from at most so many observations."""
HIDDEN_LAYER = 0
"""Seed of a finite wide network's input weights: part of the model, so the same at every suggestion."""
PATH_WIDTH = 512
"""Hidden units of the network drawn for Thompson sampling."""
FRESH_EVERY = 10
"""Warm starts go on from a network trained from random weights whenever there are so many more observations."""
ONE_THRESHOLD_CURVATURE = 0.25
"""Curvature of a running point with one threshold: that of a logit of zero."""


class Memory:
    """The last few fits, by a hash of all they depend on. Safe to share between threads."""

    def __init__(self, size: int = 32) -> None:
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


class Posterior(Protocol):
    """What every posterior structure answers."""

    def anchored_moments(self, rows: Array, anchor: Anchor) -> tuple[Array, Array, Array]:
        """Of the latent at encoded rows: mean, variance, and covariance with that at the anchor."""


CAUTION = 4.0
"""Power of P(no failure). One would do if it were exact; Laplace's is too unsure of itself where trials always fail."""
_CONDITIONED = ["posterior", "anchor", "acquisition", "success"]


@partial(jax.tree_util.register_dataclass, data_fields=_CONDITIONED, meta_fields=[])
@dataclass(frozen=True)
class Conditioned:
    """What compiled code needs: a posterior, the encoded incumbent, and what is to be maximised."""

    posterior: Posterior
    anchor: Anchor
    acquisition: Acquisition
    success: Conditioned | None = None

    def moments(self, rows: Array) -> Moments:
        """Of the latent at encoded rows."""
        return Moments(*self.posterior.anchored_moments(rows, self.anchor))

    def log_success(self, rows: Array) -> Array:
        """log P(no failure | x)."""
        if self.success is None:
            return jnp.zeros(len(rows), rows.dtype)
        return self.success.acquisition(self.success.moments(rows))

    def value(self, point: Moments, log_success: Array) -> Array:
        """What rows are worth: a failure is above every threshold, so log P(no failure) is a summand."""
        return self.acquisition(point) + CAUTION * log_success


@dataclass(frozen=True)
class Surrogate:
    """A posterior over the latent of a history, and how to read it."""

    conditioned: Conditioned
    searched: Conditioned
    """The same, but for Thompson sampling, where it is one draw of the latent."""
    means: Floats
    """Posterior mean at each observation of the history; smaller is better. Infinite where it was left out."""
    scale: Scale
    """How the history's outcomes are read as utilities."""
    width: int
    record: dict[str, Any]
    knows: frozenset[str]
    """Of "pi", "ratio" and "ei": with one threshold the improvement is unknown, and with weighted labels the others."""

    def cautious(self, success: Conditioned) -> Surrogate:
        """The same, aware of where trials fail."""
        conditioned, searched = (replace(each, success=success) for each in (self.conditioned, self.searched))
        return replace(self, conditioned=conditioned, searched=searched)


class _Request(NamedTuple):
    """All that a classifier is fitted to."""

    config: Config
    encoding: Encoding
    observed: Observed
    data: Data
    waiting: Array
    tau: Array
    seed: list[int]
    memory: Memory


def fit_surrogate(
    config: Config, encoding: Encoding, history: History, seed: list[int], memory: Memory
) -> Surrogate | str:
    """Fit the configured classifier, or say why it cannot be fitted."""
    values, running = history.values, history.running
    everything = Observed.of(history.units, utilities(values)) if len(values) else None
    if everything is None:
        return "all outcomes are equal"
    observed = everything.at_most(MOST_OBSERVED)
    data, waiting = arrange(config, encoding, observed, running[-MOST_RUNNING:])
    gamma = config.proportion(len(values))
    tau = threshold(everything.values, gamma)
    request = _Request(
        config,
        encoding,
        everything,
        data,
        waiting,
        jax.device_put(everything.scale.utility(np.array(tau))),
        seed,
        memory,
    )
    fitted = (_perceptron if isinstance(config.network, MLP) else _wide)(request)
    if fitted is None:
        return "the evidence has no finite maximum"
    conditioned, searched, ranked, found = fitted
    means = np.full(len(values), np.inf)
    means[observed.position] = np.asarray(ranked)[: len(observed.values)]
    if not np.all(np.isfinite(means[observed.position])):
        return "the posterior is not finite"
    record = {
        "model": f"{config.network} network, {_structure(config)}{_thresholds(config)}, {config.link} link",
        "gamma": gamma,
        "threshold": tau,
        "observations": len(values),
        "running": len(running),
        **found,
    }
    return Surrogate(conditioned, searched, means, everything.scale, data.rows.shape[1], record, _knows(config))


def _structure(config: Config) -> str:
    """The wide network's posterior is exact, and needs no name."""
    return f"{config.posterior.replace('_', ' ')} posterior, " if isinstance(config.network, MLP) else ""


def _knows(config: Config) -> frozenset[str]:
    if config.thresholds != "one":
        return frozenset({"pi", "ratio", "ei"})
    return frozenset() if config.acquisition == "ei" else frozenset({"pi", "ratio"})


def _thresholds(config: Config) -> str:
    return f"{config.thresholds} threshold{'s' if config.thresholds not in {'one', 1} else ''}"


class _Fitted(NamedTuple):
    """A classifier of either network, before it is described."""

    conditioned: Conditioned
    searched: Conditioned
    ranked: Array
    found: dict[str, Any]


def _ready(
    posterior: FunctionPosterior | FeaturePosterior | Structure,
    head: Head,
    latent: Array,
    data: Data,
    waiting: Array,
    tau: Array,
    kind: Kind,
) -> tuple[Conditioned, Array]:
    """Find the incumbent among all rows known or running; also the ranking of the rows, smaller being better."""
    ranked = latent if head.warp is not None else -latent
    known = (data.weight > 0) | (waiting > 0)
    best = jnp.argmin(jnp.where(known, ranked, jnp.inf))
    anchor = posterior.anchor(jax.nn.one_hot(best, len(ranked), dtype=ranked.dtype))
    mean, variance, _ = posterior.anchored_moments(data.rows[best][None], anchor)
    cut = jnp.zeros(()) if head.warp is None else head.warp.target(tau)
    acquisition = Acquisition(head, Incumbent(mean[0], variance[0]), cut, kind)
    return Conditioned(posterior, anchor, acquisition), ranked


def _believed(head: Head, waiting: Array) -> Array:
    """The curvature that running points will have."""
    return waiting * (ONE_THRESHOLD_CURVATURE if head.warp is None else 1.0 / head.scale**2)


# ---------------------------------------------------------------------------------------------------- wide network


@partial(jax.jit, static_argnames=("kind",))
def condition_wide(
    hyper: Array, data: Data, waiting: Array, tau: Array, features: WideFeatures | None, kind: Kind
) -> tuple[FunctionPosterior | FeaturePosterior, Array, Conditioned, Array]:
    """The wide network's posterior, its log evidence, what is to be maximised, and the ranking of the rows."""
    likelihood, head, log_jacobian = evidence.likelihood_of(hyper, data)
    prior = evidence.prior_of(hyper, data)
    posterior: FunctionPosterior | FeaturePosterior
    if features is None:
        posterior = FunctionPosterior.of(prior, data.rows, likelihood, _believed(head, waiting))
    else:
        posterior = FeaturePosterior.of(prior, features, data.rows, likelihood, _believed(head, waiting))
    known = posterior.evidence + log_jacobian
    return posterior, known, *_ready(posterior, head, posterior.latent, data, waiting, tau, kind)


def _learn_wide(request: _Request, sizes: list[int]) -> evidence.Fit | None:
    """Prior scales learned from the first observations, starting from those learned from fewer of them."""
    config, encoding, observed = request.config, request.encoding, request.observed
    *fewer, size = sizes
    learned_from = observed.first(size)
    if learned_from is None:
        return None

    def make() -> evidence.Fit | None:
        data, _ = arrange(config, encoding, learned_from.at_most(FIT_ROWS), observed.units[:0])
        before = _learn_wide(request, fewer) if fewer else None
        if before is not None:
            return evidence.fit(data, [before.hyper])
        starts = [evidence.start(data)]
        if config.thresholds != "one":
            starts.append(evidence.start(data, log_noise=-4.0, log_offset=4.0))
        return evidence.fit(data, starts)

    fit: evidence.Fit | None = request.memory.recall(_names(request, learned_from), make)
    return fit


def _names(request: _Request, learned_from: Observed) -> list[bytes]:
    """All that a fit to some observations depends on."""
    name = repr((request.config, request.encoding.names, request.encoding.distributions)).encode()
    return [name, learned_from.units.tobytes(), learned_from.values.tobytes()]


def _wide(request: _Request) -> _Fitted | None:
    fit = _learn_wide(request, scheduled(len(request.observed.values)))
    if fit is None:
        return None
    kind, network, columns = request.config.acquisition, request.config.network, request.data.rows.shape[1]
    features = None
    if isinstance(network, Wide) and network.units is not None:
        features = WideFeatures.draw(np.random.default_rng(HIDDEN_LAYER), columns, network.units)
    posterior, log_evidence, conditioned, ranked = condition_wide(
        fit.hyper, request.data, request.waiting, request.tau, features, kind=kind
    )
    searched = conditioned
    if kind == "thompson":
        rng = np.random.default_rng([*request.seed, 1])
        if isinstance(posterior, FeaturePosterior):
            draw: Posterior = posterior.draw(jnp.asarray(rng.standard_normal(len(posterior.mean))))
        else:
            path = WideFeatures.draw(rng, columns, PATH_WIDTH)
            draw = posterior.draw(path, rng.standard_normal(PATH_WIDTH), rng.standard_normal(len(ranked)))
        searched = replace(conditioned, posterior=draw)
    found = {"log_evidence": float(log_evidence), "scales": _wide_scales(request, fit.hyper)}
    return _Fitted(conditioned, searched, ranked, found)


def _wide_scales(request: _Request, hyper: Floats) -> dict[str, Any]:
    """The prior scales by the names users know."""
    lengths = np.exp(hyper[: request.encoding.n_parameters])
    *_, variance, noise, offset = np.exp(hyper * np.where(np.arange(len(hyper)) == len(hyper) - 2, 0.5, 1.0))
    scales: dict[str, Any] = {
        "length-scale": {name: _short(length) for name, length in zip(request.encoding.names, lengths, strict=True)},
        "output variance": _short(variance),
    }
    if request.config.thresholds != "one":
        scales |= {"noise": _short(noise), "warp offset": _short(offset)}
    return scales


def _short(value: float) -> float:
    """Four digits are enough to read, and keep the record short."""
    return float(f"{value:.4g}")


# ------------------------------------------------------------------------------------------ multilayer perceptron


@partial(jax.jit, static_argnames=("kind",))
def _ready_perceptron(
    posterior: Structure, head: Head, data: Data, waiting: Array, tau: Array, kind: Kind
) -> tuple[Conditioned, Array]:
    return _ready(posterior, head, posterior.mean(data.rows), data, waiting, tau, kind)


def _earlier_network(request: _Request) -> tuple[perceptron.Start | None, int]:
    """The network to go on from, and the steps of training that it took just now, 0 if it was remembered.

    It is a function of the first observations alone, so that a process that does not remember it finds the same.
    """
    config, encoding, count = request.config, request.encoding, len(request.observed.values)
    size = count - count % FRESH_EVERY
    known = request.observed.first(size) if config.warm_start else None
    if known is None:
        return None, 0
    steps = 0

    def make() -> perceptron.Trained | None:
        nonlocal steps
        data, _ = arrange(config, encoding, known.at_most(MOST_OBSERVED), known.units[:0])
        made = perceptron.train(config, encoding, data, [size])
        steps = 0 if made is None else made.steps
        return made

    earlier: perceptron.Trained | None = request.memory.recall(_names(request, known), make)
    return None if earlier is None else perceptron.Start(earlier.fit.params, behind=count > size), steps


def _perceptron(request: _Request) -> _Fitted | None:
    start, steps = _earlier_network(request)
    trained = perceptron.train(request.config, request.encoding, request.data, request.seed, start)
    if trained is None:
        return None
    kind, head = request.config.acquisition, trained.head
    known = condition(request.config.posterior, trained.fit, jax.random.key(request.seed[2]))
    # Running points change what is expected of x, not what the outcomes say of the model.
    running = np.asarray(request.waiting).any()
    posterior = known.expecting(_believed(head, request.waiting)) if running else known
    conditioned, ranked = _ready_perceptron(posterior, head, request.data, request.waiting, request.tau, kind=kind)
    searched = conditioned
    if kind == "thompson":
        searched = replace(conditioned, posterior=posterior.draw(jax.random.key(request.seed[1])))
    found = {
        "log_evidence": float(known.log_evidence()) + trained.log_jacobian,
        "scales": {name: _short(value) for name, value in trained.scales.items()},
    }
    if request.config.training == "adam":
        found["training_steps"] = steps + trained.steps
    return _Fitted(conditioned, searched, ranked, found)
