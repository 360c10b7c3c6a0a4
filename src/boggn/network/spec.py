"""Which network: named and validated without JAX, so that a configuration is light to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from boggn.errors import ConfigurationError

Activation = Literal["relu", "elu", "tanh", "silu", "gelu", "softplus", "sin"]
MOST_UNITS = 4096
_FORM = "'wide', 'wide:512', 'mlp', or an MLP such as 'mlp:32x32:relu' with one of " + ", ".join(get_args(Activation))


@dataclass(frozen=True)
class Wide:
    """One hidden layer of cosine units: infinitely many, or the `units` given."""

    units: int | None = None

    def __post_init__(self) -> None:
        if self.units is not None and not (type(self.units) is int and 1 <= self.units <= MOST_UNITS):
            raise ConfigurationError.invalid("units", self.units, f"None or a whole number from 1 to {MOST_UNITS}")

    def __str__(self) -> str:
        return "wide" if self.units is None else f"wide:{self.units}"


@dataclass(frozen=True)
class MLP:
    """A multilayer perceptron: the widths of its hidden layers and their activation."""

    hidden: tuple[int, ...] = (32, 32)
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        widths: object = self.hidden
        whole = isinstance(widths, tuple) and all(type(width) is int for width in widths)
        if not whole or any(not 1 <= width <= MOST_UNITS for width in self.hidden):
            allowed = f"a tuple of whole numbers from 1 to {MOST_UNITS} (empty: a linear model)"
            raise ConfigurationError.invalid("hidden", widths, allowed)
        if self.activation not in get_args(Activation):
            raise ConfigurationError.invalid("activation", self.activation, "one of " + ", ".join(get_args(Activation)))

    def __str__(self) -> str:
        return f"mlp:{'x'.join(map(str, self.hidden))}:{self.activation}"


Network = Wide | MLP


def parse_network(network: object) -> Network:
    """Read a network from 'wide', 'wide:512', 'mlp', 'mlp:32x32', 'mlp:32x32:relu', or take one as it is."""
    if isinstance(network, Network):
        return network
    kind, *rest = network.split(":") if isinstance(network, str) else [""]
    widths = rest[0].split("x") if rest else []
    if all(width.isdecimal() for width in widths):
        if kind == "wide" and len(rest) <= 1 and len(widths) <= 1:
            return Wide(int(widths[0]) if widths else None)
        if kind == "mlp" and len(rest) <= 2:
            hidden = tuple(map(int, widths)) if widths else (32, 32)
            return MLP(hidden, rest[1] if len(rest) > 1 else "relu")  # type: ignore[arg-type]
    raise ConfigurationError.invalid("network", network, _FORM)
