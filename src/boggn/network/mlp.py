r"""The paper's network: a multilayer perceptron with one output, its Jacobian and its prior (PAPER.md 3, 4, 6).

| here                 | meaning                                                                          |
|----------------------|----------------------------------------------------------------------------------|
| `params`             | ((W_1, b_1), ..., (W_L, b_L)); W_l is (inputs, outputs)                            |
| `theta`              | the same, flat: layer after layer, W_l row by row, then b_l                        |
| `latent`             | f(x; theta), the network's output                                                |
| `inputs[l]`          | a_l with a one appended, (B, inputs + 1): what layer l reads, the one for the bias |
| `slopes[l]`          | d f / d (output of layer l before its activation), (B, outputs)                   |
| `row_variance[l]`    | prior variance of the weights that leave one input of layer l, (inputs + 1,)       |

Row n of the Jacobian, in layer l, is the outer product of `inputs[l][n]` and `slopes[l][n]`. Where the prior
variance v does not depend on the output a weight goes to, K = J S_0 J' is therefore

    K = sum_l (A_l diag(v_l) A_l') * (D_l D_l')        (* elementwise)

which costs O(N^2 (inputs + outputs)) per layer and never forms the N x P Jacobian.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from boggn.errors import ConfigurationError
from boggn.network.spec import MLP

PriorStructure = Literal["global", "layer", "input"]
Params = tuple[tuple[Array, Array], ...]
_Vector = TypeVar("_Vector", Array, np.ndarray[Any, Any])

_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "elu": jax.nn.elu,
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "gelu": jax.nn.gelu,
    "softplus": jax.nn.softplus,
    "sin": jnp.sin,
}
_HALVING = frozenset({"relu", "elu", "silu", "gelu"})
"""Activations that let about half of their input's power through: their initial weights are larger by sqrt 2."""


class Factors(NamedTuple):
    """The network's output at B rows and its Jacobian there, in factored form."""

    latent: Array
    inputs: tuple[Array, ...]
    slopes: tuple[Array, ...]


def shapes(spec: MLP, width: int) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of every layer, for rows of `width` columns."""
    sizes = (width, *spec.hidden, 1)
    return tuple(itertools.pairwise(sizes))


def n_parameters(spec: MLP, width: int) -> int:
    """P."""
    return sum((inputs + 1) * outputs for inputs, outputs in shapes(spec, width))


def layers(spec: MLP, width: int) -> tuple[slice, ...]:
    """Which slice of `theta` each layer takes: its weights, then its biases."""
    ends = np.cumsum([0, *((inputs + 1) * outputs for inputs, outputs in shapes(spec, width))]).tolist()
    return tuple(slice(start, end) for start, end in itertools.pairwise(ends))


def init(spec: MLP, key: Array, width: int, dtype: Any = jnp.float32) -> Params:
    """Random weights that keep a signal's size from layer to layer, and zero biases."""
    sizes = shapes(spec, width)
    params = []
    for layer, (inputs, outputs) in enumerate(sizes):
        power = 2.0 if layer > 0 and spec.activation in _HALVING else 1.0
        weights = jax.random.normal(jax.random.fold_in(key, layer), (inputs, outputs), dtype)
        params.append((math.sqrt(power / inputs) * weights, jnp.zeros((outputs,), dtype)))
    return tuple(params)


def unravel(spec: MLP, theta: Array, width: int) -> Params:
    """Flat parameters to layers; the inverse of `ravel`."""
    return tuple((block[:-1], block[-1]) for block in blocks(spec, theta, width))


def blocks(spec: MLP, values: _Vector, width: int) -> tuple[_Vector, ...]:
    """For every layer its part of a (P,) vector, (inputs + 1, outputs): weights, and below them the biases."""
    parts = zip(shapes(spec, width), layers(spec, width), strict=True)
    return tuple(values[part].reshape(inputs + 1, outputs) for (inputs, outputs), part in parts)


def logit(spec: MLP, params: Params, x: Array) -> Array:
    """f(x; theta) of encoded rows (B, W) -> (B,)."""
    signal = x
    for weights, bias in params[:-1]:
        signal = _ACTIVATIONS[spec.activation](signal @ weights + bias)
    weights, bias = params[-1]
    return (signal @ weights + bias)[:, 0]


def factors(spec: MLP, params: Params, x: Array) -> Factors:
    """One pass forward and one back: the output and the Jacobian's factors at encoded rows (B, W)."""
    one = jnp.ones((x.shape[0], 1), x.dtype)
    signal, inputs, bends = x, [], []
    for weights, bias in params[:-1]:
        inputs.append(jnp.concatenate([signal, one], axis=1))
        before = signal @ weights + bias
        signal, bend = jax.jvp(_ACTIVATIONS[spec.activation], (before,), (jnp.ones_like(before),))
        bends.append(bend)
    inputs.append(jnp.concatenate([signal, one], axis=1))
    weights, bias = params[-1]
    slopes = [one]
    for (following, _), bend in zip(params[:0:-1], bends[::-1], strict=True):
        slopes.append((slopes[-1] @ following.T) * bend)
    return Factors((signal @ weights + bias)[:, 0], tuple(inputs), tuple(slopes[::-1]))


def jacobian(spec: MLP, params: Params, x: Array) -> Array:
    """J, (B, P): one flat gradient per row, in the order of `theta`."""
    return expand(factors(spec, params, x))


def expand(rows: Factors) -> Array:
    """J from its factors, (B, P)."""
    parts = [
        (read[:, :, None] * slope[:, None, :]).reshape(read.shape[0], -1)
        for read, slope in zip(rows.inputs, rows.slopes, strict=True)
    ]
    return jnp.concatenate(parts, axis=1)


def squared(rows: Factors) -> Factors:
    """The factors of J * J, elementwise."""
    return Factors(rows.latent, tuple(read**2 for read in rows.inputs), tuple(slope**2 for slope in rows.slopes))


def ravel(params: Params) -> Array:
    """Layers to flat parameters: layer after layer, weights row by row (one input's weights together), then biases."""
    return jnp.concatenate([part.reshape(-1) for layer in params for part in layer])


def prior_groups(
    spec: MLP, width: int, structure: PriorStructure, parameter_of_column: Sequence[int]
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Which prior precision each flat parameter has, (P,) integers from zero without gaps.

    "global": one. "layer": one per layer, biases with the weights. "input": as "layer", but the weights that leave
    the columns of original parameter j have group j; the first layer's biases come after them, then the other
    layers. Columns beyond `parameter_of_column` are padding, always zero, and share the first biases' group.
    """
    sizes = shapes(spec, width)
    if structure == "global":
        return np.zeros(n_parameters(spec, width), dtype=np.intp)
    if structure == "layer":
        return np.repeat(np.arange(len(sizes)), [(inputs + 1) * outputs for inputs, outputs in sizes])
    if structure != "input":
        raise ConfigurationError.invalid("prior structure", structure, f"one of {', '.join(get_args(PriorStructure))}")
    count = max(parameter_of_column) + 1
    first = np.full(width + 1, count, dtype=np.intp)
    first[: len(parameter_of_column)] = parameter_of_column
    rest = [np.full((inputs + 1) * outputs, count + layer) for layer, (inputs, outputs) in enumerate(sizes[1:], 1)]
    return np.concatenate([np.repeat(first, sizes[0][1]), *rest])


def rows_of(spec: MLP, width: int, values: _Vector) -> tuple[_Vector, ...]:
    """For every layer the value of each row (inputs + 1,) of a (P,) vector that is constant along rows.

    A row holds the weights that leave one input, or a layer's biases.
    """
    return tuple(block[:, 0] for block in blocks(spec, values, width))


def check_rows(spec: MLP, width: int, values: Array | np.ndarray[Any, Any]) -> None:
    """Raise where the factored kernel would be wrong: for a prior precision (P,) that is not constant along rows.

    Inside a compiled function the values are not known, and nothing is checked.
    """
    if isinstance(values, jax.core.Tracer):
        return
    for layer, block in enumerate(blocks(spec, np.asarray(values), width)):
        if np.any(block != block[:, :1]):
            raise ConfigurationError.invalid(
                "prior_precision",
                f"a vector that varies between the outputs of layer {layer}",
                "one value for all the weights that leave the same input, and one for a layer's biases",
            )


def kernel(left: Factors, right: Factors, row_variance: Sequence[Array]) -> Array:
    r"""K = J_left S_0 J_right', (B, N)."""
    parts = zip(left.inputs, left.slopes, right.inputs, right.slopes, row_variance, strict=True)
    return sum(
        (((read * variance) @ other.T) * (slope @ bend.T) for read, slope, other, bend, variance in parts),
        start=jnp.zeros((), left.latent.dtype),
    )


def kernel_diagonal(rows: Factors, row_variance: Sequence[Array]) -> Array:
    r"""The diagonal of J S_0 J', (B,)."""
    parts = zip(rows.inputs, rows.slopes, row_variance, strict=True)
    return sum(
        ((read**2 @ variance) * jnp.sum(slope**2, axis=1) for read, slope, variance in parts),
        start=jnp.zeros((), rows.latent.dtype),
    )


def group_kernels(rows: Factors, row_groups: tuple[tuple[int, ...], ...]) -> Array:
    r"""J_g J_g' for every prior group g, (G, N, N); their sum weighted by the groups' variances is K."""
    count = max(max(groups) for groups in row_groups) + 1
    total = [jnp.zeros((rows.latent.shape[0],) * 2, rows.latent.dtype)] * count
    for read, slope, groups in zip(rows.inputs, rows.slopes, row_groups, strict=True):
        outer = slope @ slope.T
        for group in sorted(set(groups)):
            part = read[:, np.flatnonzero(np.asarray(groups) == group)]
            total[group] = total[group] + (part @ part.T) * outer
    return jnp.stack(total)


def push(rows: Factors, direction: Array) -> Array:
    r"""J v of a flat vector v, (B,)."""
    total, start = jnp.zeros_like(rows.latent), 0
    for read, slope in zip(rows.inputs, rows.slopes, strict=True):
        shape = (read.shape[1], slope.shape[1])
        block = direction[start : start + shape[0] * shape[1]].reshape(shape)
        total = total + jnp.sum((read @ block) * slope, axis=1)
        start += shape[0] * shape[1]
    return total


def pull(rows: Factors, dual: Array) -> Array:
    r"""J' a of a vector with one entry per row, (P,)."""
    parts = [
        (read.T @ (dual[:, None] * slope)).reshape(-1) for read, slope in zip(rows.inputs, rows.slopes, strict=True)
    ]
    return jnp.concatenate(parts)
