r"""Posterior structures: each is its own dense formula, exact where theory says so, and truly what the sampler uses."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pytest
from scipy.linalg import hadamard
from scipy.stats import multivariate_normal

import reference
from boggn import BOGGNSampler, explain
from boggn.errors import ConfigurationError
from boggn.fit import MapFit, map_gauss_newton
from boggn.likelihood import AllThresholds
from boggn.network import mlp
from boggn.network.spec import MLP
from boggn.posterior import mean_field
from boggn.posterior.choose import STRUCTURES, condition
from boggn.posterior.diagonal import DiagonalPosterior
from boggn.posterior.full import FullPosterior
from boggn.posterior.kron import KroneckerPosterior
from boggn.posterior.last_layer import LastLayerPosterior
from boggn.posterior.linearised import LinearisedPosterior
from boggn.posterior.mean_field import MeanFieldPosterior
from boggn.posterior.subset import SubsetPosterior
from networks import PADDED, SPEC, WIDTH, N, dense, laplax_problem, queries, trained

CASES = [(kind, link) for kind in ("one", "all") for link in ("logit", "probit")]
LAPLACE = ["function", "full", "subset", "kron", "diagonal", "last_layer"]
OUTPUT = SPEC.hidden[-1] + 1
LINEAR = MLP(())


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def expected_covariance(name, J, Lambda, prior):
    """Sigma of a structure, in NumPy."""
    if name == "kron":
        return reference.kronecker_covariance(J, Lambda, prior, list(mlp.shapes(SPEC, WIDTH)))
    if name == "diagonal":
        return reference.diagonal_covariance(J, Lambda, prior)
    if name == "last_layer":
        return reference.last_layer_covariance(J, Lambda, prior, OUTPUT)
    return np.linalg.inv(reference.ggn_precision(J, Lambda, prior))


def covariance_of(posterior):
    return np.asarray(
        jax.jit(jax.vmap(type(posterior).times, in_axes=(None, 0)))(posterior, jnp.eye(posterior.fit.params.size))
    )


@jax.jit
def at_first_row(posterior, x):
    anchor = posterior.anchor(jnp.eye(PADDED)[0])
    return posterior.anchored_moments(x, anchor)


def running_rows():
    """Two of the padding rows are waiting for their outcome."""
    return np.where(np.arange(PADDED) >= PADDED - 2, 0.7, 0.0)


@pytest.mark.parametrize(
    ("kind", "link", "name"),
    [("one", "logit", name) for name in LAPLACE[3:]] + [("all", "probit", name) for name in LAPLACE],
)
def test_is_its_dense_formula(name, kind, link):
    fit, x = trained(kind, link), queries()
    J, J_star, Lambda, _, grad, logs = dense(fit, x)
    prior, theta = np.asarray(fit.prior_precision), np.asarray(fit.params)
    known = STRUCTURES[name].of(fit)
    for posterior, curvature in ((known, Lambda), (known.expecting(running_rows()), Lambda + running_rows())):
        Sigma = expected_covariance(name, J, curvature, prior)
        np.testing.assert_allclose(covariance_of(posterior), Sigma, rtol=1e-8, atol=1e-11)
        mean, variance, covariance = at_first_row(posterior, x)
        np.testing.assert_allclose(mean, reference.mlp_logit(theta, np.asarray(x), SPEC.hidden, np.tanh), rtol=1e-10)
        np.testing.assert_allclose(variance, np.diag(J_star @ Sigma @ J_star.T), rtol=1e-8)
        np.testing.assert_allclose(covariance, J_star @ Sigma @ J[0], rtol=1e-8, atol=1e-10)
    free = slice(-OUTPUT, None) if name == "last_layer" else slice(None)
    Sigma = expected_covariance(name, J, Lambda, prior)[free, free]
    for gradient in (None, grad[free]):
        evidence = reference.log_evidence(logs, theta[free], prior[free], np.linalg.inv(Sigma), gradient)
        assert float(known.log_evidence(off_mode=gradient is not None)) == pytest.approx(evidence, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["subset", "kron", "diagonal", "last_layer", "mean_field"])
def test_draws_have_the_moments(name):
    fit, x, count = trained(), queries(), 40_000
    posterior = condition(name, fit, jax.random.key(0))
    draws = np.asarray(posterior.sample(jax.random.key(1), count, x))
    mean, variance = posterior.moments(x)
    covariance = dense(fit, x)[1] @ covariance_of(posterior) @ dense(posterior.fit, x)[1].T
    if name != "mean_field":
        size = np.sqrt(variance)
        np.testing.assert_allclose(np.cov(draws.T) / np.outer(size, size), covariance / np.outer(size, size), atol=0.04)
    np.testing.assert_allclose((draws.mean(0) - mean) / np.sqrt(variance), 0.0, atol=5 / np.sqrt(count))
    np.testing.assert_allclose(draws.var(0) / variance, 1.0, atol=0.04)
    draw = posterior.draw(jax.random.key(2))
    value, *rest = draw.anchored_moments(x, posterior.anchor(jnp.eye(PADDED)[0]))
    np.testing.assert_allclose(value, posterior.sample(jax.random.key(2), 1, x)[0], rtol=1e-9)
    assert not np.any(rest)


# ------------------------------------------------------------------------------------------------------- exact where
@pytest.mark.parametrize(("kind", "link"), CASES)
def test_without_a_hidden_layer_factors_and_last_layer_are_exact(kind, link):
    fit, x = trained(kind, link, spec=LINEAR), queries()
    exact = FullPosterior.of(fit)
    for structure in (KroneckerPosterior, LastLayerPosterior):
        found = structure.of(fit)
        np.testing.assert_allclose(covariance_of(found), covariance_of(exact), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.moments(x)[1], exact.moments(x)[1], rtol=1e-9)
        assert float(found.log_evidence(off_mode=True)) == pytest.approx(float(exact.log_evidence(off_mode=True)))


@pytest.mark.parametrize("kind", ["one", "all"])
def test_the_output_layer_of_the_factors_is_the_last_layer(kind):
    fit = trained(kind)
    factored, last = covariance_of(KroneckerPosterior.of(fit)), covariance_of(LastLayerPosterior.of(fit))
    np.testing.assert_allclose(factored[-OUTPUT:, -OUTPUT:], last[-OUTPUT:, -OUTPUT:], rtol=1e-8)


def orthogonal() -> MapFit:
    """Columns of a Hadamard matrix, of which one is the bias's: J' Lambda J is diagonal."""
    square = hadamard(4).astype(float)
    target = jnp.asarray([0.3, -1.0, 0.8, 0.1])
    likelihood = AllThresholds(target, jnp.asarray(0.5), jnp.ones(4), "probit")
    precision = jnp.asarray([0.5, 1.0, 2.0, 3.0])
    return map_gauss_newton(jnp.zeros(4), LINEAR, jnp.asarray(square[:, 1:]), likelihood, precision, steps=50)


def test_diagonal_is_exact_where_the_columns_are_orthogonal():
    fit = orthogonal()
    exact, found = FullPosterior.of(fit), DiagonalPosterior.of(fit)
    np.testing.assert_allclose(covariance_of(found), covariance_of(exact), rtol=1e-12, atol=1e-15)
    assert float(found.log_evidence()) == pytest.approx(float(exact.log_evidence()), rel=1e-12)


class TestSubset:
    def test_of_everything_is_exact(self):
        fit = trained("all", "logit")
        exact, found = LinearisedPosterior.of(fit), SubsetPosterior.of(fit)
        np.testing.assert_allclose(covariance_of(found), covariance_of(exact), rtol=1e-9, atol=1e-12)
        assert float(found.log_evidence()) == pytest.approx(float(exact.log_evidence()), rel=1e-12)
        # Padding is not chosen before a row that tells something.
        assert np.array_equal(np.asarray(found.curvature) > 0, np.arange(PADDED) < N)

    def test_takes_the_rows_that_tell_most(self):
        fit, size = trained("one", "logit"), 4
        J, _, Lambda, _, _, logs = dense(fit, queries())
        prior, theta = np.asarray(fit.prior_precision), np.asarray(fit.params)
        chosen = reference.most_telling(J, Lambda, prior, size)
        found = SubsetPosterior.of(fit, size=size)
        np.testing.assert_allclose(found.curvature, Lambda[chosen], rtol=1e-12)
        H = reference.ggn_precision(J[chosen], Lambda[chosen], prior)
        np.testing.assert_allclose(covariance_of(found), np.linalg.inv(H), rtol=1e-9, atol=1e-12)
        assert float(found.log_evidence()) == pytest.approx(reference.log_evidence(logs, theta, prior, H), rel=1e-9)
        assert np.all(found.moments(queries())[1] > LinearisedPosterior.of(fit).moments(queries())[1])


def test_a_precision_that_varies_along_rows_suits_only_some():
    fit = trained()
    varied = jnp.asarray(np.random.default_rng(1).uniform(0.5, 2.0, fit.params.size))
    general = replace(fit, prior_precision=varied)
    J, _, Lambda, _, _, _ = dense(general, queries())
    for name in ("diagonal", "last_layer", "full"):
        expected = expected_covariance(name, J, Lambda, np.asarray(varied))
        np.testing.assert_allclose(covariance_of(STRUCTURES[name].of(general)), expected, rtol=1e-8, atol=1e-11)
    for structure in (KroneckerPosterior, SubsetPosterior):
        with pytest.raises(ConfigurationError, match="prior_precision"):
            structure.of(general)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kron", "last_layer", "subset", "mean_field"])
def test_float32_agrees_with_float64(name):
    exact = condition(name, trained(), jax.random.key(0))
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), trained())
    found = condition(name, single, jax.random.key(0))
    # Mean field draws other numbers in float32: it agrees to the noise of its gradient.
    mean, variance = (2e-2, 0.1) if name == "mean_field" else (1e-4, 2e-3)
    for value, expected, atol in zip(
        found.moments(queries(jnp.float32)), exact.moments(queries()), (mean, 1e-4), strict=True
    ):
        assert value.dtype == jnp.float32
        np.testing.assert_allclose(value, expected, rtol=variance, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["one", "all"])
def test_diagonal_is_that_of_another_implementation(kind):
    """laplax in JAX: the diagonal of the GGN by matrix-vector products, its covariance and its evidence."""
    cov = pytest.importorskip("laplax.curv.cov")
    evidence = pytest.importorskip("laplax.eval.likelihood")
    ggn = pytest.importorskip("laplax.curv.ggn")
    fit, model_fn, data, loss_fn, prior = laplax_problem(kind)
    product = ggn.create_ggn_mv(model_fn, fit.params, data, loss_fn)
    curvature = cov.estimate_curvature("diagonal", product, layout=fit.params)
    found = DiagonalPosterior.of(fit)
    np.testing.assert_allclose(found.variances, 1 / (curvature + prior["prior_prec"]), rtol=1e-9)
    expected = evidence.marginal_log_likelihood(
        curvature,
        # It divides the summed loss by 2 sigma; ours is the negative log-likelihood itself.
        prior | {"sigma": 0.5},
        data,
        model_fn,
        fit.params,
        lambda latents, targets: jnp.sum(jax.vmap(loss_fn)(latents, targets)),
        "diagonal",
        vmap_over_data=True,
    )
    assert float(found.log_evidence()) == pytest.approx(float(expected), rel=1e-9)


# --------------------------------------------------------------------------------------------------------- mean field
@pytest.mark.slow
class TestMeanField:
    @staticmethod
    def linear() -> MapFit:
        return trained("all", "probit", spec=LINEAR, steps=50)

    def test_finds_the_optimum_of_a_gaussian_model(self):
        """There q is N(theta_map, diag(1 / H_pp)); it is found from elsewhere."""
        fit = self.linear()
        H = dense(fit, queries())[3]
        deviation = 1 / np.sqrt(np.diag(H))
        start = fit.params + 2.0 * deviation, jnp.asarray(0.5 * deviation)
        mean, found = jax.jit(mean_field.ascend)(fit, jax.random.key(0), start)
        np.testing.assert_allclose((mean - fit.params) / deviation, 0.0, atol=0.02)
        np.testing.assert_allclose(found / deviation, 1.0, atol=0.05)

    def test_elbo_is_the_evidence_less_the_divergence(self):
        fit = self.linear()
        H = dense(fit, queries())[3]
        q = MeanFieldPosterior.of(fit, key=jax.random.key(0))
        mean, variances = np.asarray(q.fit.params), np.asarray(q.variances)
        gap = mean - np.asarray(fit.params)
        trace, away = np.sum(np.diag(H) * variances), gap @ H @ gap
        divergence = 0.5 * (trace + away - len(mean) - np.linalg.slogdet(H)[1] - np.sum(np.log(variances)))
        exact = float(FullPosterior.of(fit).log_evidence()) - divergence
        assert float(q.log_evidence()) == pytest.approx(exact, abs=0.3)
        assert divergence > 0.01

    def test_is_exact_where_the_columns_are_orthogonal(self):
        fit = orthogonal()
        square = hadamard(4)[:, [1, 2, 3, 0]].astype(float)
        spread = square @ np.diag(1 / np.asarray(fit.prior_precision)) @ square.T + 0.25 * np.eye(4)
        exact = multivariate_normal.logpdf(fit.likelihood.target, np.zeros(4), spread)
        assert float(MeanFieldPosterior.of(fit).log_evidence()) == pytest.approx(exact, abs=0.2)

    @pytest.mark.parametrize(("kind", "link"), [("one", "probit"), ("all", "logit")])
    def test_is_better_than_where_it_starts(self, kind, link):
        fit = trained(kind, link)
        H = dense(fit, queries())[3]
        noise = jax.random.normal(jax.random.key(9), (2000, fit.params.size))
        elbo = jax.jit(mean_field.elbo_of)
        before = float(elbo(fit, fit.params, jnp.asarray(1 / np.sqrt(np.diag(H))), noise))
        q = MeanFieldPosterior.of(fit, key=jax.random.key(0))
        after = float(elbo(fit, q.fit.params, jnp.sqrt(q.variances), noise))
        assert after > before
        assert float(q.log_evidence()) == pytest.approx(after, abs=1.0)

    def test_running_points_narrow_it_and_leave_its_mean(self):
        fit, x = trained(), queries()
        known = MeanFieldPosterior.of(fit, key=jax.random.key(0))
        waiting = MeanFieldPosterior.of(fit, jnp.asarray(running_rows()), key=jax.random.key(0))
        J = dense(known.fit, x)[0]
        expected = 1 / (1 / np.asarray(known.variances) + running_rows() @ J**2)
        np.testing.assert_allclose(waiting.variances, expected, rtol=1e-10)
        np.testing.assert_array_equal(known.fit.params, waiting.fit.params)
        assert float(known.log_evidence()) == float(waiting.log_evidence())

    def test_depends_on_its_key_alone(self):
        fit = trained()
        first, again, other = (MeanFieldPosterior.of(fit, key=jax.random.key(seed)) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first.variances, again.variances)
        assert np.any(np.asarray(first.variances) != np.asarray(other.variances))


# ------------------------------------------------------------------------------------------------ through the sampler
SPACE = {
    "x": optuna.distributions.FloatDistribution(-5.0, 10.0),
    "y": optuna.distributions.FloatDistribution(0.0, 15.0),
}
PAPER = {"thresholds": "one", "link": "logit", "epsilon": 0.0, "acquisition": "thompson"}


STUDIES = [*((name, {}) for name in (*LAPLACE[1:], "mean_field")), ("kron", PAPER)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), STUDIES)
def test_a_study_runs_and_names_its_structure(name, options):
    sampler = BOGGNSampler(seed=0, n_startup_trials=5, network="mlp:4:tanh", posterior=name, **options)
    study = optuna.create_study(sampler=sampler)
    for _ in range(7):
        trial = study.ask(SPACE)
        study.tell(trial, (trial.params["x"] - 2.0) ** 2 + (trial.params["y"] - 3.0) ** 2)
    first, second = study.ask(SPACE), study.ask(SPACE)
    # A draw may be greatest in the same corner twice; of expected improvement a running trial leaves nothing there.
    assert options or first.params != second.params
    for number in range(5, 9):
        explanation = explain(study, number)
        assert explanation.random is None
        assert f"{name.replace('_', ' ')} posterior" in explanation.model.name
        assert np.isfinite(explanation.model.log_evidence)
    assert explain(study, second.number).model.running == 1


COMPILES = """
import jax, optuna
from boggn import BOGGNSampler
from optuna.distributions import FloatDistribution

compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, duration, **_: compiled.append(event) if event == "/jax/core/compile/backend_compile_duration" else 0
)
optuna.logging.set_verbosity(optuna.logging.ERROR)
space = {"x": FloatDistribution(-1.0, 1.0), "y": FloatDistribution(-1.0, 1.0)}
study = optuna.create_study(sampler=BOGGNSampler(seed=0, network="mlp:4:tanh", posterior="kron"))
for number in range(31):
    trial = study.ask(space)
    study.tell(trial, trial.params["x"] ** 2 + abs(trial.params["y"] - 0.3))
    if number == 10:
        before = len(compiled)
print(before, len(compiled) - before)
"""


@pytest.mark.slow
def test_new_trials_compile_nothing_anew():
    done = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert before > 0
    assert after == 0
