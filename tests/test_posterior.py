r"""The finite network's posterior: dense reference, weight space, function space and another implementation agree."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import reference
from boggn.errors import ConfigurationError
from boggn.fit import MapFit, log_posterior, map_gauss_newton
from boggn.laplace import find_mode, log_evidence_at
from boggn.likelihood import AllThresholds, OneThreshold
from boggn.network import mlp
from boggn.network.spec import MLP, Activation
from boggn.posterior.full import FullPosterior
from boggn.posterior.linearised import LinearisedPosterior
from networks import PADDED, QUERIES, WIDTH, N, dense, laplax_problem, queries, trained

CASES = [(kind, link) for kind in ("one", "all") for link in ("logit", "probit")]
BOTH = (FullPosterior, LinearisedPosterior)
SPECS = [MLP((5, 4), activation) for activation in get_args(Activation)] + [MLP(()), MLP((6,)), MLP((3, 4, 5), "silu")]


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("posterior", BOTH)
@pytest.mark.parametrize(("kind", "link"), CASES)
class TestAgainstTheReference:
    def test_moments(self, posterior, kind, link):
        fit, x = trained(kind, link), queries()
        J, J_star, Lambda, H, _, _ = dense(fit, x)
        mean, variance = posterior.of(fit).moments(x)
        params = mlp.unravel(fit.spec, fit.params, WIDTH)
        np.testing.assert_allclose(mean, mlp.logit(fit.spec, params, x), rtol=1e-12)
        np.testing.assert_allclose(variance, np.diag(reference.weight_space_covariance(J_star, H)), rtol=1e-9)
        prior = np.asarray(fit.prior_precision)
        expected = np.diag(reference.function_space_covariance(J_star, J, Lambda, prior))
        np.testing.assert_allclose(variance, expected, rtol=1e-9)

    @pytest.mark.parametrize("off_mode", [False, True])
    def test_evidence(self, posterior, kind, link, off_mode):
        fit = trained(kind, link)
        _, _, _, H, grad, logs = dense(fit, fit.design)
        prior = np.asarray(fit.prior_precision)
        expected = reference.log_evidence(logs, np.asarray(fit.params), prior, H, grad if off_mode else None)
        assert float(posterior.of(fit).log_evidence(off_mode=off_mode)) == pytest.approx(expected, rel=1e-9)

    def test_samples(self, posterior, kind, link):
        fit, x = trained(kind, link), queries()
        _, J_star, _, H, _, _ = dense(fit, x)
        found, count = posterior.of(fit), 40_000
        draws = np.asarray(found.sample(jax.random.key(0), count, x))
        assert draws.shape == (count, QUERIES)
        covariance = reference.weight_space_covariance(J_star, H)
        size = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose((draws.mean(0) - found.moments(x)[0]) / size, 0.0, atol=5 / np.sqrt(count))
        np.testing.assert_allclose(np.cov(draws.T) / np.outer(size, size), covariance / np.outer(size, size), atol=0.04)

    def test_samples_of_parameters_are_the_samples_of_functions(self, posterior, kind, link):
        fit, x = trained(kind, link), queries()
        found, key = posterior.of(fit), jax.random.key(2)
        theta = found.sample_parameters(key, 7)
        J_star = mlp.jacobian(fit.spec, mlp.unravel(fit.spec, fit.params, WIDTH), x)
        expected = found.moments(x)[0] + (theta - fit.params) @ J_star.T
        np.testing.assert_allclose(found.sample(key, 7, x), expected, atol=1e-10)

    def test_padding_changes_nothing(self, posterior, kind, link):
        padded = trained(kind, link)
        cut = jax.tree.map(lambda leaf: leaf[:N] if jnp.ndim(leaf) else leaf, padded.likelihood)
        plain = MapFit(padded.spec, padded.params, padded.prior_precision, cut, padded.design[:N], padded.log_posterior)
        first, second = posterior.of(padded), posterior.of(plain)
        for found, expected in zip(first.moments(queries()), second.moments(queries()), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9)
        for off_mode in (False, True):
            values = [float(one.log_evidence(off_mode=off_mode)) for one in (first, second)]
            assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("kind", ["one", "all"])
def test_full_equals_function_space(kind, spec):
    fit, x = trained(kind, spec=spec), queries()
    full, linearised = FullPosterior.of(fit), LinearisedPosterior.of(fit)
    for found, expected in zip(linearised.moments(x), full.moments(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    for off_mode in (False, True):
        values = [float(one.log_evidence(off_mode=off_mode)) for one in (full, linearised)]
        assert values[0] == pytest.approx(values[1], rel=1e-10)


@pytest.mark.parametrize("posterior", BOTH)
def test_float32_agrees_with_float64(posterior):
    exact = posterior.of(trained())
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), exact.fit)
    found = posterior.of(single)
    for value, expected in zip(found.moments(queries(jnp.float32)), exact.moments(queries()), strict=True):
        assert value.dtype == jnp.float32
        np.testing.assert_allclose(value, expected, rtol=2e-3, atol=1e-4)
    assert found.sample(jax.random.key(0), 2, queries(jnp.float32)).dtype == jnp.float32
    assert float(found.log_evidence()) == pytest.approx(float(exact.log_evidence()), rel=1e-3)


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_ggn_is_the_hessian_without_a_hidden_layer(kind, link):
    fit = trained(kind, link, spec=MLP(()))
    hessian = jax.hessian(log_posterior, argnums=1)(
        fit.spec, fit.params, fit.design, fit.likelihood, fit.prior_precision
    )
    np.testing.assert_allclose(dense(fit, fit.design)[3], -hessian, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("kind", "link"), CASES)
def test_evidence_at_the_mode_is_that_of_the_latent_gaussian_model(kind, link):
    """K = J S_0 J' and m_0 = f - J theta: what training maximises is what the posterior reports."""
    fit = trained(kind, link, steps=400)
    J = jnp.asarray(dense(fit, fit.design)[0])
    kernel = (J / fit.prior_precision) @ J.T
    prior_mean = mlp.logit(fit.spec, mlp.unravel(fit.spec, fit.params, WIDTH), fit.design) - J @ fit.params
    mode = jax.jit(find_mode)(kernel, prior_mean, fit.likelihood)
    expected = float(log_evidence_at(kernel, fit.likelihood, mode))
    assert float(LinearisedPosterior.of(fit).log_evidence(off_mode=True)) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("posterior", BOTH)
@pytest.mark.parametrize(("kind", "link"), CASES)
def test_evidence_against_numerical_integration(kind, link, posterior):
    """One input and a bias: two parameters, integrated on a grid."""
    spec, rng = MLP(()), np.random.default_rng(0)
    x = rng.uniform(-1, 1, (6, 1))
    target = x[:, 0] + 0.3 * rng.normal(size=6)
    weight = jnp.ones(6)
    if kind == "one":
        likelihood = OneThreshold(jnp.asarray((target < 0.1) * 1.0), weight, link)
    else:
        likelihood = AllThresholds(jnp.asarray(target), jnp.asarray(0.5), weight, link)
    precision = jnp.full(2, 4.0)
    fit = map_gauss_newton(jnp.zeros(2), spec, jnp.asarray(x), likelihood, precision, steps=100)
    axis = np.linspace(-5, 5, 401)
    theta = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    latent = theta @ np.c_[x, np.ones(6)].T
    logs = np.asarray(likelihood.log_prob(jnp.asarray(latent))).sum(axis=1)
    prior = multivariate_normal.logpdf(theta, np.zeros(2), np.eye(2) / 4)
    exact = np.log(np.sum(np.exp(logs + prior)) * (axis[1] - axis[0]) ** 2)
    exactly = (kind, link) == ("all", "probit")
    found = float(posterior.of(fit).log_evidence(off_mode=True))
    assert found == pytest.approx(exact, abs=1e-6 if exactly else 0.05)


def test_the_gradient_term_makes_a_gaussian_model_exact_anywhere():
    """With the normal link and no hidden layer the log posterior is quadratic: no mode is needed."""
    fit = trained("all", "probit", spec=MLP(()), steps=400)
    away = MapFit(fit.spec, fit.params + 0.3, fit.prior_precision, fit.likelihood, fit.design, fit.log_posterior)
    for posterior in BOTH:
        exact = float(posterior.of(fit).log_evidence(off_mode=True))
        assert float(posterior.of(away).log_evidence(off_mode=True)) == pytest.approx(exact, rel=1e-9)
        assert float(posterior.of(away).log_evidence()) < exact - 0.1


@pytest.mark.parametrize("posterior", BOTH)
def test_variance_falls_to_the_observations_and_never_exceeds_the_prior(posterior):
    fit, x = trained("all", "probit"), queries()
    blind = AllThresholds(fit.likelihood.target, fit.likelihood.scale, jnp.zeros(PADDED), "probit")
    prior = MapFit(fit.spec, fit.params, fit.prior_precision, blind, fit.design, fit.log_posterior)
    before, after = posterior.of(prior).moments(x)[1], posterior.of(fit).moments(x)[1]
    J_star = mlp.jacobian(fit.spec, mlp.unravel(fit.spec, fit.params, WIDTH), x)
    np.testing.assert_allclose(before, jnp.sum(J_star**2 / fit.prior_precision, axis=1), rtol=1e-9)
    assert np.all(after < before)


def test_a_precision_only_weight_space_can_have():
    fit = trained()
    varied = jnp.asarray(np.random.default_rng(1).uniform(0.5, 2.0, fit.params.size))
    general = MapFit(fit.spec, fit.params, varied, fit.likelihood, fit.design, fit.log_posterior)
    _, J_star, _, H, _, _ = dense(general, queries())
    expected = np.diag(reference.weight_space_covariance(J_star, H))
    np.testing.assert_allclose(FullPosterior.of(general).moments(queries())[1], expected, rtol=1e-9)
    with pytest.raises(ConfigurationError, match="prior_precision"):
        LinearisedPosterior.of(general)


class TestLaplax:
    """Another Laplace in JAX, for what it has: isotropic priors; GGN, covariance and evidence of a given loss."""

    @pytest.mark.parametrize("kind", ["one", "all"])
    def test_ggn(self, kind):
        laplax_ggn = pytest.importorskip("laplax.curv.ggn")
        fit, model_fn, data, loss_fn, _ = laplax_problem(kind)
        product = jax.jit(laplax_ggn.create_ggn_mv(model_fn, fit.params, data, loss_fn))
        found = np.stack([product(column) for column in jnp.eye(fit.params.size)])
        J, _, Lambda, _, _, _ = dense(fit, fit.design)
        np.testing.assert_allclose(found, J.T @ (Lambda[:, None] * J), rtol=1e-9, atol=1e-10)

    @pytest.mark.parametrize("posterior", BOTH)
    @pytest.mark.parametrize("kind", ["one", "all"])
    def test_predictive_variance(self, kind, posterior):
        cov = pytest.importorskip("laplax.curv.cov")
        pushforward = pytest.importorskip("laplax.eval.pushforward")
        ggn = pytest.importorskip("laplax.curv.ggn")
        fit, model_fn, data, loss_fn, prior = laplax_problem(kind)
        product = ggn.create_ggn_mv(model_fn, fit.params, data, loss_fn)
        predict = pushforward.set_lin_pushforward(
            model_fn=model_fn,
            mean_params=fit.params,
            posterior_fn=cov.create_posterior_fn("full", product, layout=fit.params),
            prior_arguments=prior,
            pushforward_fns=[pushforward.lin_setup, pushforward.lin_pred_mean, pushforward.lin_pred_var],
        )
        mean, variance = posterior.of(fit).moments(queries())
        found = jax.jit(jax.vmap(predict))(queries())
        np.testing.assert_allclose(found["pred_mean"][:, 0], mean, rtol=1e-9)
        np.testing.assert_allclose(np.reshape(found["pred_var"], QUERIES), variance, rtol=1e-8)

    @pytest.mark.parametrize("posterior", BOTH)
    @pytest.mark.parametrize("kind", ["one", "all"])
    def test_evidence(self, kind, posterior):
        evidence = pytest.importorskip("laplax.eval.likelihood")
        cov = pytest.importorskip("laplax.curv.cov")
        ggn = pytest.importorskip("laplax.curv.ggn")
        fit, model_fn, data, loss_fn, prior = laplax_problem(kind)
        product = ggn.create_ggn_mv(model_fn, fit.params, data, loss_fn)
        found = evidence.marginal_log_likelihood(
            cov.estimate_curvature("full", product, layout=fit.params),
            # It divides the summed loss by 2 sigma; ours is the negative log-likelihood itself.
            prior | {"sigma": 0.5},
            data,
            model_fn,
            fit.params,
            lambda latents, targets: jnp.sum(jax.vmap(loss_fn)(latents, targets)),
            "full",
            vmap_over_data=True,
        )
        assert float(posterior.of(fit).log_evidence()) == pytest.approx(float(found), rel=1e-9)
