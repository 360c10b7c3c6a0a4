r"""Mean-field variational inference (PAPER.md 7): the best independent Gaussian, by the reparametrised ELBO.

| here   | meaning                                                                                    |
|--------|--------------------------------------------------------------------------------------------|
| q      | prod_p N(mu_p, s_p^2)                                                                        |
| ELBO   | E_q[sum_n log p(y_n | f(x_n; theta))] - KL(q || N(0, S_0)), a lower bound on the log evidence   |
| start  | mu = theta_map and s_p^2 = 1 / H_pp, the optimum if the network were linear and p Gaussian      |

The network itself is averaged over, not its linearisation. Both mu and log s move in units of the start's deviation,
by Adam with a rate that falls to zero, so that noise in the gradient averages out at the end. Predictions pass the
same seam as those of the other structures: the network linearised at mu, under q.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import final

import jax
import jax.numpy as jnp
import optax  # type: ignore[import-untyped]
from jax import Array, lax

from boggn.fit import MapFit, log_posterior
from boggn.network import mlp
from boggn.posterior.diagonal import Independent, precision_of
from boggn.posterior.structure import factors_of

STEPS = 500
PAIRS = 8
"""Draws of the parameters per step, each with its mirror image."""
RATE = 0.1
FINAL_BATCHES = 64
"""So many times as many draws give the ELBO at the end."""


@final
@partial(jax.tree_util.register_dataclass, data_fields=["fit", "variances", "elbo"], meta_fields=[])
@dataclass(frozen=True)
class MeanFieldPosterior(Independent):
    """Sigma = diag(s^2); `fit.params` is mu."""

    elbo: Array

    @classmethod
    def of(cls, fit: MapFit, running: Array | None = None, *, key: Array | None = None) -> MeanFieldPosterior:
        """As in `Structure.of`, with any prior precision; `key` draws the parameters, the same ones if None."""
        found: MeanFieldPosterior = _train(fit, jax.random.key(0) if key is None else key)
        return found if running is None else found.expecting(running)

    def expecting(self, running: Array) -> MeanFieldPosterior:
        """The same, each parameter's precision increased by what running points will tell of it."""
        found: MeanFieldPosterior = _expect(self, running)
        return found

    def log_evidence(self, *, off_mode: bool = False) -> Array:
        """The ELBO; `off_mode` changes nothing, for q need not stand at a mode."""
        del off_mode
        return self.elbo


def elbo_of(fit: MapFit, mean: Array, deviation: Array, noise: Array) -> Array:
    """The ELBO by the draws mu + s e and mu - s e, with `noise` e of shape (pairs, P)."""
    width = fit.design.shape[1]

    def log_likelihood(theta: Array) -> Array:
        latent = mlp.logit(fit.spec, mlp.unravel(fit.spec, theta, width), fit.design)
        return jnp.sum(fit.likelihood.log_prob(latent))

    steps = deviation * noise
    average = jnp.mean(jax.vmap(log_likelihood)(jnp.concatenate([mean + steps, mean - steps])))
    scaled = fit.prior_precision * deviation**2
    return average - 0.5 * jnp.sum(scaled + fit.prior_precision * mean**2 - 1.0 - jnp.log(scaled))


def ascend(fit: MapFit, key: Array, start: tuple[Array, Array]) -> tuple[Array, Array]:
    """Mean and deviation that maximise the ELBO, from those given."""
    begin, unit = start
    optimiser = optax.adam(optax.cosine_decay_schedule(RATE, STEPS))

    def place(shift: tuple[Array, Array]) -> tuple[Array, Array]:
        return begin + unit * shift[0], unit * jnp.exp(shift[1])

    def loss(shift: tuple[Array, Array], noise: Array) -> Array:
        return -elbo_of(fit, *place(shift), noise)

    def step(
        carry: tuple[tuple[Array, Array], optax.OptState], number: Array
    ) -> tuple[tuple[tuple[Array, Array], optax.OptState], None]:
        shift, state = carry
        noise = jax.random.normal(jax.random.fold_in(key, number), (PAIRS, unit.shape[0]), unit.dtype)
        update, state = optimiser.update(jax.grad(loss)(shift, noise), state)
        return (optax.apply_updates(shift, update), state), None

    still = jnp.zeros_like(unit), jnp.zeros_like(unit)
    (shift, _), _ = lax.scan(step, (still, optimiser.init(still)), jnp.arange(STEPS))
    return place(shift)


@jax.jit
def _train(fit: MapFit, key: Array) -> MeanFieldPosterior:
    climb_key, final_key = jax.random.split(key)
    mean, deviation = ascend(fit, climb_key, (fit.params, jax.lax.rsqrt(precision_of(fit, None))))

    def estimate(key: Array) -> Array:
        return elbo_of(fit, mean, deviation, jax.random.normal(key, (PAIRS, mean.shape[0]), mean.dtype))

    elbo = jnp.mean(lax.map(estimate, jax.random.split(final_key, FINAL_BATCHES)))
    height = log_posterior(fit.spec, mean, fit.design, fit.likelihood, fit.prior_precision)
    moved = replace(fit, params=mean, log_posterior=height)
    return MeanFieldPosterior(moved, deviation**2, elbo)


@jax.jit
def _expect(posterior: MeanFieldPosterior, running: Array) -> MeanFieldPosterior:
    told = mlp.pull(mlp.squared(factors_of(posterior.fit, posterior.fit.design)), running)
    return replace(posterior, variances=1.0 / (1.0 / posterior.variances + told))
