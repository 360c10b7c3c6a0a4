"""Small trained networks, and what NumPy makes of them: shared by the tests of the posteriors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import reference
from boggn.fit import MapFit, map_gauss_newton
from boggn.likelihood import AllThresholds, OneThreshold
from boggn.network import mlp
from boggn.network.spec import MLP

SPEC = MLP((5, 4), "tanh")
N, PADDED, WIDTH, QUERIES = 12, 16, 3, 6


def queries(dtype=jnp.float64):
    return jnp.asarray(np.random.default_rng(5).uniform(-1.5, 1.5, (QUERIES, WIDTH)), dtype)


def trained(kind="one", link="logit", spec=SPEC, steps=3, rows=PADDED, dtype=jnp.float64) -> MapFit:
    """A network on its way to the mode (its gradient there is not zero), with a different precision per group."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (PADDED, WIDTH))
    target = np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + 0.1 * rng.normal(size=PADDED)
    weight = rng.uniform(0.5, 2.0, PADDED) * (np.arange(PADDED) < N)
    x, target, weight = (jnp.asarray(part[:rows], dtype) for part in (x, target, weight))
    if kind == "one":
        likelihood = OneThreshold((target < 0.3).astype(dtype), weight, link)
    else:
        likelihood = AllThresholds(target, jnp.asarray(0.3, dtype), weight, link)
    groups = mlp.prior_groups(spec, WIDTH, "input", (0, 1, 2))
    precision = jnp.asarray(np.linspace(0.4, 1.5, groups.max() + 1)[groups], dtype)
    theta = mlp.ravel(mlp.init(spec, jax.random.key(1), WIDTH, dtype))
    return map_gauss_newton(theta, spec, x, likelihood, precision, steps=steps)


def dense(fit: MapFit, x):
    """J at the observations and at x, Lambda, H and the gradient of the log posterior, in NumPy."""
    params = mlp.unravel(fit.spec, fit.params, WIDTH)
    latent = mlp.logit(fit.spec, params, fit.design)
    J, J_star = (np.asarray(mlp.jacobian(fit.spec, params, rows)) for rows in (fit.design, x))
    Lambda, prior = np.asarray(fit.likelihood.curvature(latent)), np.asarray(fit.prior_precision)
    grad = J.T @ np.asarray(fit.likelihood.gradient(latent)) - prior * np.asarray(fit.params)
    log_likelihood = float(jnp.sum(fit.likelihood.log_prob(latent)))
    return J, J_star, Lambda, reference.ggn_precision(J, Lambda, prior), grad, log_likelihood


def laplax_problem(kind):
    """A trained network with one prior precision, as laplax takes it: model, data, loss, prior."""
    spec, delta = SPEC, 0.7
    fit = trained(kind, "logit" if kind == "one" else "probit", spec=spec)
    fit = MapFit(spec, fit.params, jnp.full(fit.params.shape, delta), fit.likelihood, fit.design, fit.log_posterior)
    likelihood = fit.likelihood

    def model_fn(input, params):  # noqa: A002 - laplax calls it by this name
        return mlp.logit(spec, mlp.unravel(spec, params, WIDTH), input[None])

    # laplax has no weights per observation: they travel with the target, into a loss of ours.
    value = likelihood.z if kind == "one" else likelihood.target
    data = {"input": fit.design, "target": jnp.stack([value, likelihood.weight], axis=1)}

    def loss_fn(latent, target):
        if kind == "one":
            return target[1] * (jax.nn.softplus(latent[0]) - target[0] * latent[0])
        constant = jnp.log(0.3) + 0.5 * jnp.log(2 * jnp.pi)
        return target[1] * (0.5 * ((target[0] - latent[0]) / 0.3) ** 2 + constant)

    return fit, model_fn, data, loss_fn, {"prior_prec": delta}
