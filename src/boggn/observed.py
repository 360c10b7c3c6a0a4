r"""What has been observed, arranged in the padded arrays that a classifier is fitted to.

| here       | meaning                                                                                     |
|------------|---------------------------------------------------------------------------------------------|
| `History`  | all that is visible: unit rows and outcomes of finished trials, unit rows of running ones     |
| `Observed` | unit rows and outcomes in the order of the history, with the scale of the outcomes            |
| schedule   | prior scales are learned from the first n_k observations, n_k growing by a fixed ratio       |
| `failed`   | unit rows of trials without an outcome: above every threshold, as it were                     |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from boggn.config import Config
from boggn.encoding import Encoding, bucket, padded_width
from boggn.evidence import Data, length_prior
from boggn.labels import cuts, intervals, label
from boggn.warp import Scale, scale_of

Floats = NDArray[np.float64]

BUCKETS = (32, 128, 256, 512, 1024, 1536)
MOST_OBSERVED = 512
"""A posterior is conditioned on at most so many observations."""
MOST_RUNNING = 256
REFIT_EVERY = 10
"""Prior scales are learned again whenever the history has grown by one part in so many."""


@dataclass(frozen=True)
class History:
    """What is visible of a study, in the order of trial numbers; outcomes are minimised and finite."""

    units: Floats
    values: Floats
    running: Floats
    numbers: tuple[int, ...]
    failed: Floats
    failed_numbers: tuple[int, ...]

    @property
    def tried(self) -> int:
        """Trials that tell something; failures tell nothing before there are outcomes to compare them with."""
        count = len(self.values)
        return count + len(self.failed) if count > 1 else count


class Observed(NamedTuple):
    """Observations in the order of the history, where they stand in it, and the scale of their outcomes."""

    units: Floats
    values: Floats
    position: NDArray[np.intp]
    scale: Scale

    @staticmethod
    def of(units: Floats, values: Floats) -> Observed | None:
        """None if there are no two different outcomes."""
        scale = scale_of(values) if len(values) else None
        return None if scale is None else Observed(units, values, np.arange(len(values)), scale)

    def first(self, count: int) -> Observed | None:
        """The oldest observations, on a scale of their own."""
        return Observed.of(self.units[:count], self.values[:count])

    def at_most(self, limit: int) -> Observed:
        """The best half of the limit, and an even spread over the rest, on the same scale."""
        if len(self.values) <= limit:
            return self
        order = np.argsort(self.values, kind="stable")
        best, rest = order[: limit // 2], np.sort(order[limit // 2 :])
        chosen = np.sort(np.concatenate([best, evenly(rest, limit - len(best))]))
        return Observed(self.units[chosen], self.values[chosen], self.position[chosen], self.scale)


def evenly(chosen: NDArray[np.intp], limit: int) -> NDArray[np.intp]:
    """At most so many of them, evenly spread."""
    if len(chosen) <= limit:
        return chosen
    return chosen[np.linspace(0, len(chosen) - 1, limit).astype(np.intp)]


def scheduled(count: int) -> list[int]:
    """From how many observations the prior scales were last learned afresh, and then again, each from the one before.

    A function of the count alone. The first is learned from scratch, as is every one that doubles the last such; so
    a process that knows nothing repeats a handful of short fits, whatever the count.
    """
    size = min(count, 2 * REFIT_EVERY)
    sizes = [size]
    while (size := size + max(1, size // REFIT_EVERY)) <= count:
        sizes = [size] if size >= 2 * sizes[0] else [*sizes, size]
    return sizes


def arrange(config: Config, encoding: Encoding, observed: Observed, running: Floats) -> tuple[Data, Array]:
    """Encoded and padded observations, and a mask of the running points behind them.

    With one threshold and EI weights an observation may take two rows (PAPER.md 2); its first is always its own.
    """
    count = len(observed.values)
    z, weight, row = np.zeros(count), np.ones(count), np.arange(count)
    if config.thresholds == "one":
        gamma = config.proportion(count)
        labels = label(observed.values, gamma, weighting="ei" if config.acquisition == "ei" else "pi")
        z, weight, row = labels.z, labels.weight, labels.row
    units = np.vstack([observed.units[row], running])
    size = bucket(len(units), BUCKETS)
    waiting = np.zeros(size)
    waiting[len(row) : len(units)] = 1.0
    utility = observed.scale.utility(observed.values)
    interval = None
    if isinstance(config.thresholds, int):
        ends = intervals(utility, cuts(utility, config.thresholds, config.proportion(count)))
        everywhere = np.broadcast_to([-np.inf, np.inf], (size - count, 2))
        interval = _put(np.concatenate([ends, everywhere]))
    data = Data(
        utility=_put(_padded(utility[row], size)),
        z=_put(_padded(z, size)),
        weight=_put(_padded(weight, size)),
        thresholds="several" if isinstance(config.thresholds, int) else config.thresholds,
        link=config.link,
        interval=interval,
        **_placed(encoding, units, size),
    )
    return data, _put(waiting)


def arrange_classes(config: Config, encoding: Encoding, units: Floats, z: Floats) -> Data:
    """Encoded and padded points of two classes that are given."""
    size = bucket(len(units), BUCKETS)
    return Data(
        utility=_put(np.zeros(size)),
        z=_put(_padded(z, size)),
        weight=_put(_padded(np.ones(len(units)), size)),
        thresholds="one",
        link=config.link,
        **_placed(encoding, units, size),
    )


def _placed(encoding: Encoding, units: Floats, size: int) -> dict[str, Array]:
    """What `Data` says of where the points are."""
    width = padded_width(encoding.width)
    column = np.zeros(width, dtype=np.int32)
    column[: encoding.width] = encoding.parameter_of_column
    rows = encoding.encode(units)
    return {
        "rows": _put(np.pad(rows, ((0, size - len(rows)), (0, width - encoding.width)))),
        "column": _put(column),
        "length_prior": _put(np.float64(length_prior(encoding.n_parameters))),
    }


_put = jax.device_put  # because each new shape given to `jnp.asarray` is compiled


def _padded(array: Floats, size: int) -> Floats:
    return np.pad(array, (0, size - len(array)))
