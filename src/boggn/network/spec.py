"""Which network: named and validated without JAX, so that a configuration is light to make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from boggn.errors import ConfigurationError

Activation = Literal["relu", "elu", "tanh", "silu", "gelu", "softplus", "sin"]
MOST_UNITS = 4096
WIDE: Literal["wide"] = "wide"
_FORM = "'wide', 'mlp', or an MLP such as 'mlp:32x32:relu' with one of " + ", ".join(get_args(Activation))


@dataclass(frozen=True)
class MLP:
    """A multilayer perceptron: the widths of its hidden layers and their activation."""

    hidden: tuple[int, ...] = (32, 32)
    activation: Activation = "relu"

    def __post_init__(self) -> None:
        widths: object = self.hidden
        whole = isinstance(widths, tuple) and all(isinstance(w, int) and not isinstance(w, bool) for w in widths)
        if not whole or any(not 1 <= width <= MOST_UNITS for width in self.hidden):
            raise ConfigurationError.invalid(
                "hidden", widths, f"a tuple of whole numbers from 1 to {MOST_UNITS} (empty: a linear model)"
            )
        if self.activation not in get_args(Activation):
            raise ConfigurationError.invalid("activation", self.activation, "one of " + ", ".join(get_args(Activation)))

    def __str__(self) -> str:
        return f"mlp:{'x'.join(map(str, self.hidden))}:{self.activation}"


def parse_network(network: object) -> Literal["wide"] | MLP:
    """Read a network from 'wide', 'mlp', 'mlp:32x32', 'mlp:32x32:relu' or an `MLP`."""
    if isinstance(network, MLP):
        return network
    if network == WIDE:
        return WIDE
    if not isinstance(network, str):
        raise ConfigurationError.invalid("network", network, _FORM)
    head, *rest = network.split(":")
    widths = rest[0].split("x") if rest else ["32", "32"]
    activation = rest[1] if len(rest) > 1 else "relu"
    if head != "mlp" or len(rest) > 2 or not all(w.isdecimal() for w in widths):
        raise ConfigurationError.invalid("network", network, _FORM)
    return MLP(tuple(map(int, widths)), activation)  # type: ignore[arg-type]
