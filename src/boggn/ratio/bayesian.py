r"""A Bayesian neural network that tells the samples apart, and the band of its posterior on the ratio (PAPER.md 2-6).

| here       | meaning                                                                                  |
|------------|------------------------------------------------------------------------------------------|
| `latent`   | f(x), the logit of coming from the numerator's sample                                       |
| base logit | b = log N / M, that of the sizes alone; f - b = log l / g                                    |
| `mean`, `deviation` | of log l / g, Gaussian under Laplace's posterior                                     |
| ratio      | E[r_gamma] over it; with gamma = N / (N + M) it is E[pi(x)] / gamma, as in the paper          |
"""

from __future__ import annotations

import math
from functools import partial
from statistics import NormalDist
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from boggn import evidence
from boggn.belief import LEVEL, Band
from boggn.encoding import bucket, padded_width
from boggn.errors import ConfigurationError
from boggn.evidence import Data
from boggn.fit import FixedLikelihood, fit_evidence
from boggn.laplace import find_mode, log_evidence_at
from boggn.likelihood import OneThreshold
from boggn.network import mlp
from boggn.network.spec import MLP, Network, Wide, parse_network
from boggn.posterior.function import FunctionPosterior
from boggn.posterior.linearised import LinearisedPosterior
from boggn.predictive import QUADRATURE_NODES
from boggn.ratio.base import DensityRatio, check_count, check_real, log_relative

Floats = NDArray[np.float64]
BUCKETS = (64, 256, 512, 1024, 2048)
"""Rows are padded to one of these sizes, so that few shapes are compiled."""
SCALE_ROWS = 256
"""Prior scales of the wide network are learned from at most so many rows."""
BLOCK = 256
ROUNDS = 4
"""Turns of training and evidence of a multilayer perceptron."""
REACH = 0.5
"""Standardised columns times this are about as wide as the unit rows [-1, 1] that the prior scales are meant for."""


@final
class BayesianRatio(DensityRatio):
    """The ratio by a Bayesian neural network, and how sure it is: `ratio_band`.

    `network` is "wide" or a multilayer perceptron, as "mlp:32x32:tanh"; the evidence chooses its prior scales. The cost
    grows with the cube of the rows: of more than `max_rows`, so many are drawn at random, each sample's share kept.
    """

    def __init__(
        self,
        network: Network | str = "wide",
        *,
        max_rows: int = 1024,
        gamma: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.network = network
        self.max_rows = max_rows
        self.gamma = gamma
        self.random_state = random_state

    def ratio_band(self, x: ArrayLike, *, level: float = LEVEL) -> Band:
        """Mean of r_gamma at rows (B, D), and the interval that holds it with probability `level`; (B,) each."""
        check_real("level", level, 0.0, 1.0, "a number strictly between 0 and 1")
        mean, deviation = self._moments(self._standard(x))
        end = NormalDist().inv_cdf(0.5 + 0.5 * level)
        low, high = (self._bounded(log_relative(mean + side * deviation, self.gamma)) for side in (-end, end))
        return Band(self.ratio(x), low, high)

    def log_ratio(self, x: ArrayLike) -> Floats:
        """log E[r_gamma] at rows (B, D) -> (B,), by Gauss-Hermite quadrature."""
        gamma = self._checked_gamma()
        mean, deviation = self._moments(self._standard(x))
        node, weight = np.polynomial.hermite_e.hermegauss(QUADRATURE_NODES)
        logs = log_relative(mean[:, None] + deviation[:, None] * node, gamma)
        found: Floats = logsumexp(logs, axis=1, b=weight / weight.sum())
        return found

    def _log_plain_ratio(self, rows: Floats) -> Floats:
        """That of the mean network."""
        return self._moments(rows)[0]

    def _fit(self, numerator: Floats, denominator: Floats) -> None:
        network = parse_network(self.network)
        if isinstance(network, Wide) and network.units is not None:
            raise ConfigurationError.invalid("network", self.network, "'wide', infinitely so, or an MLP")
        check_count("max_rows", self.max_rows, 4, BUCKETS[-1])
        rng = np.random.default_rng(self.random_state)
        kept = _thinned([numerator, denominator], int(self.max_rows), rng)
        self.base_logit_ = math.log(len(kept[0]) / len(kept[1]))
        with jax.enable_x64(True):
            if isinstance(network, MLP):
                fitted = _fit_perceptron(network, _data(kept), numerator.shape[1], int(rng.integers(2**31)))
            else:
                fitted = _fit_wide(_data(kept), _data(_thinned(kept, SCALE_ROWS, rng), halves=True), self.base_logit_)
            # As NumPy's arrays: one of JAX's in double precision comes back from a file in single.
            self.posterior_: Any = jax.tree.map(np.asarray, fitted.posterior)
        self.log_evidence_ = fitted.log_evidence
        self.shift_ = self.base_logit_ if isinstance(network, MLP) else 0.0

    def _moments(self, rows: Floats) -> tuple[Floats, Floats]:
        """Mean and standard deviation of log l / g at standardised rows."""
        means, variances = [], []
        for begin in range(0, len(rows), BLOCK):
            part = rows[begin : begin + BLOCK]
            with jax.enable_x64(True):
                mean, variance = _moments(self.posterior_, _padded(REACH * part, BLOCK, padded_width(rows.shape[1])))
            means.append(np.asarray(mean)[: len(part)])
            variances.append(np.asarray(variance)[: len(part)])
        return np.concatenate(means) - self.shift_, np.sqrt(np.concatenate(variances))


class _Fitted(NamedTuple):
    posterior: FunctionPosterior | LinearisedPosterior
    log_evidence: float


def _thinned(samples: list[Floats], limit: int, rng: np.random.Generator) -> list[Floats]:
    """At most so many rows of both samples together, in their order, their shares kept as whole numbers allow."""
    total = sum(map(len, samples))
    if total <= limit:
        return samples
    first = min(max(round(limit * len(samples[0]) / total), 1), limit - 1)
    counts = (first, limit - first)
    return [
        rows[np.sort(rng.choice(len(rows), size=min(count, len(rows)), replace=False))]
        for rows, count in zip(samples, counts, strict=True)
    ]


def _padded(values: Floats, rows: int, columns: int) -> Floats:
    return np.pad(values, ((0, rows - len(values)), (0, columns - values.shape[1])))


def _data(samples: list[Floats], *, halves: bool = False) -> Data:
    """Padded rows with their labels; with `halves` each sample has half of the weight, whatever its size."""
    rows = REACH * np.concatenate(samples)
    counts = list(map(len, samples))
    size, width = bucket(len(rows), BUCKETS), padded_width(rows.shape[1])
    z = np.repeat([1.0, 0.0], counts)
    weight = np.repeat([0.5 * len(rows) / count if halves else 1.0 for count in counts], counts)
    column = np.zeros(width, np.int32)
    column[: rows.shape[1]] = np.arange(rows.shape[1])
    put = jax.device_put
    return Data(
        rows=put(_padded(rows, size, width)),
        utility=put(np.zeros(size)),
        z=put(np.pad(z, (0, size - len(z)))),
        weight=put(np.pad(weight, (0, size - len(z)))),
        column=put(column),
        length_prior=put(np.float64(evidence.length_prior(rows.shape[1]))),
        thresholds="one",
        link="logit",
    )


def _fit_wide(data: Data, balanced: Data, base_logit: float) -> _Fitted:
    """Prior scales by the evidence of a balanced sample, then the posterior of all rows.

    The base logit is the prior's mean: far from all rows the ratio is one, whatever the sizes of the samples.
    """
    found = evidence.fit(balanced, [evidence.start(balanced)])
    hyper = evidence.start(balanced) if found is None else found.hyper
    posterior = _condition(hyper, data, base_logit)
    return _Fitted(posterior, float(posterior.log_evidence()))


@jax.jit
def _condition(hyper: Array, data: Data, base_logit: Array | float) -> FunctionPosterior:
    prior = evidence.prior_of(hyper, data)
    likelihood, _, _ = evidence.likelihood_of(hyper, data)
    kernel = prior.covariance(data.rows, data.rows)
    mode = find_mode(kernel, jnp.full_like(data.weight, base_logit), likelihood)
    value = log_evidence_at(kernel, likelihood, mode)
    return FunctionPosterior(prior, data.rows, mode.latent, mode.dual, mode.curvature, mode.whitener, value)


def _fit_perceptron(spec: MLP, data: Data, columns: int, seed: int) -> _Fitted:
    width = data.rows.shape[1]
    groups = mlp.prior_groups(spec, width, "input", range(columns))
    start = mlp.ravel(_initial(jax.random.key(seed), spec, width))
    model = FixedLikelihood(OneThreshold(data.z, data.weight))
    found = fit_evidence(
        start, spec, data.rows, model, groups, (np.zeros(int(groups.max()) + 1), np.zeros(0)), rounds=ROUNDS
    )
    posterior = LinearisedPosterior.of(found.fit)
    return _Fitted(posterior, float(posterior.log_evidence()))


@partial(jax.jit, static_argnames=("spec", "width"))
def _initial(key: Array, spec: MLP, width: int) -> Any:
    return mlp.init(spec, key, width, jnp.zeros(()).dtype)


@jax.jit
def _moments(posterior: FunctionPosterior | LinearisedPosterior, rows: Array) -> tuple[Array, Array]:
    return posterior.moments(rows)
