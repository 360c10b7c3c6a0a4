r"""Which network the trials of a study speak for, by the evidence (PAPER.md 5, "Model Evidence").

M is the architecture (depth, width, activation) with its prior precisions. Each candidate is trained on all trials, its
precisions fixed or themselves chosen by the evidence, and ranked by log q(D | M): how probable it held the outcomes to
be before it saw them. A network too small for them fits poorly; one too large spreads its bets. The evidence is that
of the exact Laplace posterior, and carries the Jacobian of the warp, so that all candidates are densities of the same
outcomes. A network is judged as the sampler would train it. That may end in a poor mode: the best of a few starts
counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, final

from boggn.belief import sampler_of
from boggn.config import Config
from boggn.errors import ConfigurationError, UnfittedError
from boggn.network.spec import MLP, Network, parse_network
from boggn.sampler import BOGGNSampler

if TYPE_CHECKING:
    from optuna.study import Study

    from boggn.sampler import Fitted

NETWORKS = ("mlp:8:tanh", "mlp:32:tanh", "mlp:32:relu", "mlp:32x32:tanh", "mlp:32x32:relu", "mlp:32x32x32:tanh", "wide")
"""Depths, widths and activations that are compared unless others are named."""
RESTARTS = 2

Precision = float | Literal["evidence"]


@final
@dataclass(frozen=True)
class Candidate:
    """One network, its prior, and what the trials say for it; `failure` says why where there is no evidence."""

    network: Network
    prior_precision: Precision
    parameters: int | None
    """None for the wide network of infinitely many units."""
    log_evidence: float
    scales: dict[str, Any]
    failure: str | None = None


@final
@dataclass(frozen=True)
class Selection:
    """Candidates by their evidence, the best first."""

    candidates: tuple[Candidate, ...]
    observations: int

    @property
    def best(self) -> Candidate:
        """The candidate of the largest evidence."""
        return self.candidates[0]

    def probabilities(self) -> tuple[float, ...]:
        """Of every candidate given the trials, all having been equally probable before."""
        odds = [math.exp(candidate.log_evidence - self.best.log_evidence) for candidate in self.candidates]
        return tuple(one / sum(odds) for one in odds)

    def __str__(self) -> str:
        rows = [("network", "parameters", "prior precision", "log evidence", "behind", "probability")]
        for candidate, probability in zip(self.candidates, self.probabilities(), strict=True):
            prior = candidate.prior_precision
            size = "infinite" if candidate.parameters is None else str(candidate.parameters)
            known = (str(candidate.network), size, prior if isinstance(prior, str) else f"{prior:g}")
            if candidate.failure is not None:
                rows.append((*known, candidate.failure, "", ""))
                continue
            behind = self.best.log_evidence - candidate.log_evidence
            rows.append((*known, f"{candidate.log_evidence:.2f}", f"{behind:.2f}", f"{probability:.3f}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(cells))
            for cells in (zip(row, widths, strict=True) for row in rows)
        ]
        return "\n".join([f"Networks by the evidence of {self.observations} outcomes", *map(str.rstrip, lines)])


def select(
    study: Study,
    *,
    networks: Sequence[str | Network] = NETWORKS,
    prior_precisions: Sequence[Precision] | None = None,
    sampler: BOGGNSampler | None = None,
    restarts: int = RESTARTS,
) -> Selection:
    """Rank networks, each with each prior precision, by the evidence of the study's trials.

    All else is as in `sampler`, or in the study's own if it is one of ours: its thresholds, link, gamma and training,
    and its prior precision where none is given.
    """
    if type(restarts) is not int or restarts < 1:
        raise ConfigurationError.invalid("restarts", restarts, "a whole number, 1 or more")
    if sampler is not None and not isinstance(sampler, BOGGNSampler):
        raise ConfigurationError.invalid("sampler", sampler, "a BOGGNSampler or None")
    config = (sampler_of(study) if sampler is None else sampler).config
    chosen = _listed("networks", networks)
    precisions = [config.prior_precision] if prior_precisions is None else _listed("prior_precisions", prior_precisions)
    # All of them are checked before the first is trained.
    plain = replace(config, posterior="function", classifier=None)
    configs = [
        replace(plain, network=parse_network(network), prior_precision=precision)
        for network in chosen
        for precision in precisions
    ]
    tried = [_best_of(study, one, restarts) for one in configs]
    ranked = sorted((candidate for candidate, _ in tried), key=lambda candidate: -candidate.log_evidence)
    if ranked[0].failure is not None:
        raise UnfittedError(f"There is no model of this study yet: {ranked[0].failure}.")
    return Selection(tuple(ranked), max(observations for _, observations in tried))


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise ConfigurationError.invalid(name, values, "a list with at least one entry")
    return list(values)


def _best_of(study: Study, config: Config, restarts: int) -> tuple[Candidate, int]:
    """The best of several trainings; the wide network needs but one."""
    options = {name: getattr(config, name) for name in Config.__dataclass_fields__}
    count = restarts if isinstance(config.network, MLP) else 1
    fits = [BOGGNSampler(seed=seed, **options).fit(study) for seed in range(count)]
    usable = [fit for fit in fits if not isinstance(fit, str) and math.isfinite(_log_evidence(fit))]
    if not usable:
        failure = next((fit for fit in fits if isinstance(fit, str)), "its evidence is not finite")
        return Candidate(config.network, config.prior_precision, None, -math.inf, {}, failure), 0
    best = max(usable, key=_log_evidence)
    record = best.surrogate.record
    size = _size(config.network, best.encoding.width)
    found = Candidate(config.network, config.prior_precision, size, record["log_evidence"], record["scales"])
    return found, record["observations"]


def _log_evidence(fitted: Fitted) -> float:
    value: float = fitted.surrogate.record["log_evidence"]
    return value


def _size(network: Network, width: int) -> int | None:
    if isinstance(network, MLP):
        from boggn.network import mlp

        return mlp.n_parameters(network, width)
    return network.units
