r"""Adam on mini-batches, the paper's way to the mode of the finite network (PAPER.md 3).

| here       | meaning                                                                          |
|------------|----------------------------------------------------------------------------------|
| a step     | on a batch drawn with replacement among the observations that count               |
| an epoch   | as many steps as draw the number of the observations; only patience looks at it   |
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]
from jax import Array, lax

from boggn.fit import MapFit, log_posterior, random_weights
from boggn.likelihood import Likelihood
from boggn.network import mlp
from boggn.network.spec import MLP

BATCH_SIZE = 32
LEARNING_RATE = 1e-2


def _rows(likelihood: Likelihood, index: Array) -> Likelihood:
    """The likelihood of some of the observations."""
    chosen: Likelihood = jax.tree.map(lambda leaf: leaf[index] if jnp.ndim(leaf) else leaf, likelihood)
    return chosen


def _draw_batch(key: Array, weight: Array, batch_size: int) -> tuple[Array, Array]:
    """Rows drawn with replacement among those that count, and how many count."""
    counts = weight > 0
    total = jnp.maximum(jnp.sum(counts), 1)
    order = jnp.argsort(~counts, stable=True)
    return order[jax.random.randint(key, (batch_size,), 0, total)], total


def _batch_score(
    theta: Array, key: Array, spec: MLP, x: Array, likelihood: Likelihood, prior_precision: Array, batch_size: int
) -> Array:
    """Unbiased estimate of -log_posterior / N: Adam ignores the scale, but its epsilon does not."""
    index, total = _draw_batch(key, likelihood.weight, batch_size)
    latent = mlp.logit(spec, mlp.unravel(spec, theta, x.shape[1]), x[index])
    return -jnp.mean(_rows(likelihood, index).log_prob(latent)) + 0.5 * prior_precision @ theta**2 / total


class _Plan(NamedTuple):
    """Key of the batches, most steps, epochs without improvement that are borne (0: any number), learning rate."""

    key: Array
    steps: Array
    patience: Array
    rate: Array


class _Run(NamedTuple):
    """Where Adam is, the best end of an epoch, and how many epochs ago that was."""

    number: Array
    theta: Array
    state: Any
    best: Array
    value: Array
    waited: Array


@partial(jax.jit, static_argnames=("spec", "batch_size"))
def _adam(
    theta: Array,
    spec: MLP,
    x: Array,
    likelihood: Likelihood,
    prior_precision: Array,
    plan: _Plan,
    batch_size: int,
) -> MapFit:
    direction = optax.scale_by_adam()
    slope_of = jax.grad(_batch_score)
    epoch = -(-jnp.sum(likelihood.weight > 0) // batch_size)
    # Without patience nobody looks at the score before the end.
    epoch = jnp.where(plan.patience > 0, jnp.maximum(epoch, 1), plan.steps)

    def step(number: Array, carry: tuple[Array, Any]) -> tuple[Array, Any]:
        theta, state = carry
        batch = jax.random.fold_in(plan.key, number)
        slope = slope_of(theta, batch, spec, x, likelihood, prior_precision, batch_size)
        update, state = direction.update(slope, state)
        return theta - plan.rate * update, state

    def unfinished(run: _Run) -> Array:
        return (run.number < plan.steps) & ((plan.patience == 0) | (run.waited < plan.patience))

    def advance(run: _Run) -> _Run:
        end = jnp.minimum(run.number + epoch, plan.steps)
        theta, state = lax.fori_loop(run.number, end, step, (run.theta, run.state))
        value = log_posterior(spec, theta, x, likelihood, prior_precision)
        better = value > run.value
        best, value = jnp.where(better, theta, run.best), jnp.where(better, value, run.value)
        return _Run(end, theta, state, best, value, jnp.where(better, 0, run.waited + 1))

    none, endless = jnp.zeros_like(plan.steps), jnp.full((), -jnp.inf, x.dtype)
    run = lax.while_loop(unfinished, advance, _Run(none, theta, direction.init(theta), theta, endless, none))
    untrained = log_posterior(spec, theta, x, likelihood, prior_precision)
    value = jnp.where(run.number > 0, run.value, untrained)
    return MapFit(spec, run.best, prior_precision, likelihood, x, value, run.number)


def map_adam(  # noqa: PLR0913
    key: Array,
    spec: MLP,
    x: Array,
    likelihood: Likelihood,
    prior_precision: Array,
    *,
    steps: int,
    start: Array | None = None,
    patience: int | None = None,
    batch_size: int = BATCH_SIZE,
    learning_rate: float = LEARNING_RATE,
) -> MapFit:
    """Train by Adam on mini-batches, as the paper does, from random weights or from `start`.

    Rows of weight zero are never drawn. With patience it stops when so many epochs, each of as many draws as there are
    observations, have not raised the log posterior; what was best at the end of an epoch is returned.
    """
    start_key, batch_key = jax.random.split(key)
    theta = random_weights(start_key, spec, x.shape[1], x.dtype) if start is None else start
    plan = _Plan(batch_key, jnp.asarray(steps), jnp.asarray(patience or 0), jnp.asarray(learning_rate, x.dtype))
    fit: MapFit = _adam(theta, spec, x, likelihood, prior_precision, plan, batch_size)
    return fit
