"""Tune a network in JAX and Optax: learning rate, schedule, batch size, dropout, depth, width and activation.

    python examples/spirals.py --trials 40

It learns to tell two spirals apart. The study is kept in a file (`--storage`): a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import boggn

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {"relu": jax.nn.relu, "tanh": jnp.tanh, "gelu": jax.nn.gelu}
SPACE = {
    "learning_rate": (1e-4, 1e-1, "log"),
    "schedule": ["constant", "cosine", "one cycle"],
    "batch": (16, 128, 16),
    "dropout": (0.0, 0.5),
    "depth": (1, 4),
    "width": (4, 64, "log"),
    "activation": list(ACTIVATIONS),
}

Layers = list[tuple[jax.Array, jax.Array]]


def spirals(count: int, seed: int) -> tuple[jax.Array, jax.Array]:
    """Points of two spirals with some noise, (count, 2), and which of them each is on."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    angle = 3.0 * np.pi * np.sqrt(rng.uniform(0.02, 1.0, count))
    turn = angle + np.pi * label
    points = np.stack([angle * np.cos(turn), angle * np.sin(turn)], axis=1) / 9.0 + rng.normal(0.0, 0.03, (count, 2))
    return jnp.asarray(points), jnp.asarray(label)


def start(key: jax.Array, widths: list[int]) -> Layers:
    """Random weights."""
    pairs = list(itertools.pairwise(widths))
    keys = jax.random.split(key, len(pairs))
    return [
        (jax.random.normal(k, pair) * jnp.sqrt(2.0 / pair[0]), jnp.zeros(pair[1]))
        for k, pair in zip(keys, pairs, strict=True)
    ]


def logits(layers: Layers, x: jax.Array, activation: str, dropout: float, key: jax.Array | None) -> jax.Array:
    """The network; without a key nothing is dropped."""
    for number, (weights, bias) in enumerate(layers[:-1]):
        x = ACTIVATIONS[activation](x @ weights + bias)
        if key is not None:
            kept = jax.random.bernoulli(jax.random.fold_in(key, number), 1.0 - dropout, x.shape)
            x = jnp.where(kept, x / (1.0 - dropout), 0.0)
    weights, bias = layers[-1]
    return (x @ weights + bias)[:, 0]


def schedule_of(name: str, rate: float, steps: int) -> optax.Schedule:
    """How the learning rate changes."""
    if name == "cosine":
        return optax.cosine_decay_schedule(rate, steps)
    return optax.cosine_onecycle_schedule(steps, rate) if name == "one cycle" else optax.constant_schedule(rate)


def train(parameters: dict[str, Any], epochs: int) -> float:
    """The log loss on points that were not learnt."""
    points, labels = spirals(512, seed=0)
    others, their_labels = spirals(512, seed=1)
    batch, activation, dropout = parameters["batch"], parameters["activation"], parameters["dropout"]
    steps = epochs * (len(points) // batch)
    optimiser = optax.adam(schedule_of(parameters["schedule"], parameters["learning_rate"], steps))
    layers = start(jax.random.key(0), [2, *[parameters["width"]] * parameters["depth"], 1])

    def loss(layers: Layers, key: jax.Array) -> jax.Array:
        chosen = jax.random.randint(key, (batch,), 0, len(points))
        found = logits(layers, points[chosen], activation, dropout, key)
        return optax.sigmoid_binary_cross_entropy(found, labels[chosen]).mean()

    def step(carry: tuple[Layers, optax.OptState], key: jax.Array) -> tuple[tuple[Layers, optax.OptState], None]:
        layers, state = carry
        change, state = optimiser.update(jax.grad(loss)(layers, key), state)
        return (optax.apply_updates(layers, change), state), None

    keys = jax.random.split(jax.random.key(1), steps)
    (layers, _), _ = jax.jit(lambda carry: jax.lax.scan(step, carry, keys))((layers, optimiser.init(layers)))
    found = logits(layers, others, activation, dropout, None)
    return float(optax.sigmoid_binary_cross_entropy(found, their_labels).mean())


def main() -> None:
    """Tune, and print the best."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=40, help="finished trials in all (40)")
    parser.add_argument("--epochs", type=int, default=100, help="epochs of a training (100)")
    parser.add_argument("--storage", type=Path, default=Path("spirals.db"), help="SQLite file (spirals.db)")
    arguments = parser.parse_args()
    study = boggn.minimize(
        lambda parameters: train(parameters, arguments.epochs),
        SPACE,
        arguments.trials,
        storage=str(arguments.storage),
        study_name="spirals",
        seed=0,
    )
    print(f"{len(study.trials)} trials, best log loss {study.best_value:.4f}")
    for name, value in study.best_params.items():
        print(f"  {name:<14} {value:.4g}" if isinstance(value, float) else f"  {name:<14} {value}")


if __name__ == "__main__":
    main()
