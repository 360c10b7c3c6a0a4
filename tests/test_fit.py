r"""Training: Adam, Gauss-Newton and the evidence of the linearised network."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import reference
from boggn import adam
from boggn import fit as fitting
from boggn.adam import map_adam
from boggn.errors import ConfigurationError
from boggn.fit import FixedLikelihood, LearnedScale, fit_evidence, log_posterior, map_gauss_newton
from boggn.likelihood import OPEN, AllThresholds, OneThreshold, SeveralThresholds
from boggn.network import mlp
from boggn.network.spec import MLP

CASES = [(kind, link) for kind in ("one", "all") for link in ("logit", "probit")]
SEVERAL = [("several", "logit"), ("several", "probit")]
SPEC, N, PADDED, WIDTH = MLP((8, 8), "tanh"), 20, 24, 2


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def problem(kind="one", link="logit", dtype=jnp.float64, rows=PADDED):
    """A bowl with 20 observations, padded with rows whose content would do harm if it were read."""
    rng = np.random.default_rng(0)
    x = np.full((PADDED, WIDTH), 0.7)
    x[:N] = rng.uniform(-1, 1, (N, WIDTH))
    value = np.sum((x - 0.2) ** 2, axis=1)
    target = (np.log(value + 0.1) - 0.3) / 0.7
    target[N:], weight = 5.0, (np.arange(PADDED) < N) * 1.0
    x, target, weight = (jnp.asarray(part[:rows], dtype) for part in (x, target, weight))
    if kind == "one":
        return x, OneThreshold((target < -0.2).astype(dtype), weight, link)
    scale = jnp.asarray(0.2, dtype)
    if kind == "several":
        ends = jnp.asarray([-OPEN, -1.0, -0.3, 0.2, 0.6, OPEN], dtype)
        above = jnp.searchsorted(ends, target)
        return x, SeveralThresholds(ends[above - 1], ends[above], scale, weight, link)
    return x, AllThresholds(target, scale, weight, link)


def start(seed=0, dtype=jnp.float64, spec=SPEC):
    return mlp.ravel(mlp.init(spec, jax.random.key(seed), WIDTH, dtype))


def precision(value=0.5, dtype=jnp.float64, spec=SPEC):
    return jnp.full(mlp.n_parameters(spec, WIDTH), value, dtype)


class TestLogPosterior:
    @pytest.mark.parametrize(("kind", "link"), CASES)
    def test_is_the_regularised_score_of_the_paper(self, kind, link):
        (x, likelihood), theta = problem(kind, link), start()
        latent = reference.mlp_logit(np.asarray(theta), np.asarray(x), SPEC.hidden, np.tanh)
        weight = np.asarray(likelihood.weight)
        if kind == "one":
            logs = reference.one_threshold(link, latent, np.asarray(likelihood.z), weight)
        else:
            logs = reference.all_thresholds(link, latent, np.asarray(likelihood.target), 0.2, weight)
        expected = logs.sum() - 0.5 * 0.5 * float(theta @ theta)
        assert float(log_posterior(SPEC, theta, x, likelihood, precision())) == pytest.approx(expected, rel=1e-10)


class TestAdam:
    def test_batches_estimate_the_score_without_bias(self):
        (x, likelihood), theta = problem("all"), start()
        keys = jax.random.split(jax.random.key(1), 20_000)
        scores = jax.jit(jax.vmap(lambda key: adam._batch_score(theta, key, SPEC, x, likelihood, precision(), 8)))(keys)
        expected = -float(log_posterior(SPEC, theta, x, likelihood, precision())) / N
        error = float(jnp.std(scores)) / np.sqrt(len(keys))
        assert abs(float(jnp.mean(scores)) - expected) < 5 * error

    def test_padding_is_never_drawn(self):
        _, likelihood = problem()
        index, total = adam._draw_batch(jax.random.key(2), likelihood.weight, 5_000)
        assert int(total) == N
        assert sorted(set(index.tolist())) == list(range(N))

    def test_padding_changes_nothing(self):
        key = jax.random.key(3)
        padded, plain = (map_adam(key, SPEC, *problem(rows=rows), precision(), steps=50) for rows in (PADDED, N))
        np.testing.assert_allclose(padded.params, plain.params, atol=1e-10)
        assert float(padded.log_posterior) == pytest.approx(float(plain.log_posterior))

    def test_a_fit_without_observations_is_the_prior_mean(self):
        x, likelihood = problem()
        empty = OneThreshold(likelihood.z, jnp.zeros(PADDED), "logit")
        found = map_adam(jax.random.key(4), SPEC, x, empty, precision(), steps=1_000)
        np.testing.assert_allclose(found.params, 0.0, atol=1e-3)

    def test_raises_the_log_posterior(self):
        x, likelihood = problem("all", "probit")
        found = map_adam(jax.random.key(5), SPEC, x, likelihood, precision(), steps=500)
        assert float(found.log_posterior) > float(log_posterior(SPEC, start(5), x, likelihood, precision())) + 100

    def test_patience_ends_as_told_by_the_epochs(self):
        """Replayed one epoch further each time: the same batches, so that the ends of all epochs are known."""
        (x, likelihood), key, batch, most, patience = problem(), jax.random.key(6), 8, 200, 3
        epoch = -(-N // batch)
        best, waited, steps, expected = -np.inf, 0, 0, start()
        while steps < most and waited < patience:
            steps = min(steps + epoch, most)
            end = map_adam(key, SPEC, x, likelihood, precision(), steps=steps, batch_size=batch)
            assert int(end.steps) == steps
            better = float(end.log_posterior) > best
            best, waited = max(best, float(end.log_posterior)), 0 if better else waited + 1
            expected = end.params if better else expected
        assert epoch * patience < steps < most
        found = map_adam(key, SPEC, x, likelihood, precision(), steps=most, patience=patience, batch_size=batch)
        assert int(found.steps) == steps
        np.testing.assert_array_equal(found.params, expected)
        assert float(found.log_posterior) == best

    def test_no_steps_from_a_start_are_the_start(self):
        x, likelihood = problem()
        found = map_adam(jax.random.key(7), SPEC, x, likelihood, precision(), steps=0, start=start(8), patience=2)
        np.testing.assert_array_equal(found.params, start(8))
        assert float(found.log_posterior) == float(log_posterior(SPEC, start(8), x, likelihood, precision()))

    def test_from_a_mode_few_steps_suffice(self):
        x, likelihood = problem()
        mode = map_gauss_newton(start(), SPEC, x, likelihood, precision(), steps=100)
        cold, warm = (
            map_adam(jax.random.key(9), SPEC, x, likelihood, precision(), steps=10, start=begin)
            for begin in (None, mode.params)
        )
        assert float(warm.log_posterior) > float(cold.log_posterior) + 1

    def test_what_is_not_finite_is_told(self):
        x, likelihood = problem()
        found = map_adam(jax.random.key(1), SPEC, x * jnp.nan, likelihood, precision(), steps=5)
        assert not np.isfinite(found.log_posterior)

    def test_steps_patience_starts_and_new_data_compile_nothing(self):
        x, likelihood = problem()
        map_adam(jax.random.key(0), SPEC, x, likelihood, precision(), steps=3)
        before = adam._adam._cache_size()
        map_adam(jax.random.key(1), SPEC, 0.9 * x, likelihood, precision(), steps=7, start=start(), patience=2)
        assert adam._adam._cache_size() == before


class TestGaussNewton:
    @pytest.mark.parametrize("activation", ["tanh", "relu"])
    @pytest.mark.parametrize(("kind", "link"), CASES)
    def test_never_decreases_the_log_posterior(self, kind, link, activation):
        x, likelihood = problem(kind, link)
        spec = MLP((8, 8), activation)
        for seed in range(5):
            theta = 2.0 * start(seed, spec=spec)
            value = float(log_posterior(spec, theta, x, likelihood, precision(spec=spec)))
            for _ in range(6):
                found = map_gauss_newton(theta, spec, x, likelihood, precision(spec=spec), steps=1)
                assert float(found.log_posterior) >= value
                theta, value = found.params, float(found.log_posterior)

    @pytest.mark.parametrize("activation", ["tanh", "relu", "silu"])
    @pytest.mark.parametrize(("kind", "link"), CASES)
    def test_reaches_at_least_adam(self, kind, link, activation):
        """From the same weights, the median over starts; with relu, which has no gradient at a mode, nearly."""
        x, likelihood = problem(kind, link)
        spec = MLP((8, 8), activation)
        gains = []
        for seed in range(5):
            key = jax.random.key(seed)
            theta = mlp.ravel(mlp.init(spec, jax.random.split(key)[0], WIDTH, jnp.float64))
            slow = map_adam(key, spec, x, likelihood, precision(spec=spec), steps=2_000)
            newton = map_gauss_newton(theta, spec, x, likelihood, precision(spec=spec), steps=60)
            gains.append(float(newton.log_posterior - slow.log_posterior))
        assert np.median(gains) > (-1.5 if activation == "relu" else -0.1)

    @pytest.mark.parametrize(("kind", "link"), CASES + SEVERAL)
    def test_ends_where_the_gradient_vanishes(self, kind, link):
        x, likelihood = problem(kind, link)
        found = map_gauss_newton(start(), SPEC, x, likelihood, precision(), steps=500)
        slope = jax.grad(log_posterior, argnums=1)(SPEC, found.params, x, likelihood, precision())
        assert float(jnp.max(jnp.abs(slope))) < 0.02
        value = log_posterior(SPEC, found.params, x, likelihood, precision())
        assert float(found.log_posterior) == pytest.approx(float(value), rel=1e-12)

    @pytest.mark.parametrize(("kind", "link"), CASES)
    def test_a_linear_model_is_solved(self, kind, link):
        """One mode only: the damping dies out, and its gradient is that of a convex problem."""
        x, likelihood = problem(kind, link)
        spec = MLP(())
        found = map_gauss_newton(jnp.zeros(3), spec, x, likelihood, precision(spec=spec), steps=50)
        slope = jax.grad(log_posterior, argnums=1)(spec, found.params, x, likelihood, precision(spec=spec))
        np.testing.assert_allclose(slope, 0.0, atol=1e-2)

    def test_padding_changes_nothing(self):
        padded, plain = (
            map_gauss_newton(start(), SPEC, *problem("all", rows=rows), precision(), steps=5) for rows in (PADDED, N)
        )
        np.testing.assert_allclose(padded.params, plain.params, atol=1e-6)

    def test_float32(self):
        with jax.enable_x64(False):
            single = jnp.float32
            x, likelihood = problem(dtype=single)
            found = map_gauss_newton(start(dtype=single), SPEC, x, likelihood, precision(dtype=single), steps=30)
            assert found.params.dtype == jnp.float32
        exact = map_gauss_newton(start(), SPEC, *problem(), precision(), steps=30)
        assert float(found.log_posterior) == pytest.approx(float(exact.log_posterior), abs=0.3)

    def test_a_start_that_is_not_finite_ends_at_once(self):
        x, likelihood = problem()
        found = map_gauss_newton(start() * jnp.nan, SPEC, x, likelihood, precision(), steps=20)
        assert not np.isfinite(found.log_posterior)

    def test_refuses_a_precision_the_factored_kernel_cannot_have(self):
        x, likelihood = problem()
        with pytest.raises(ConfigurationError, match="prior_precision"):
            map_gauss_newton(start(), SPEC, x, likelihood, jnp.exp(start()), steps=1)

    def test_more_steps_and_new_data_compile_nothing(self):
        x, likelihood = problem()
        map_gauss_newton(start(), SPEC, x, likelihood, precision(), steps=1)
        before = fitting._gauss_newton._cache_size()
        map_gauss_newton(start(1), SPEC, 0.9 * x, likelihood, precision(2.0), steps=7)
        assert fitting._gauss_newton._cache_size() == before


def model(kind, link):
    x, likelihood = problem(kind, link)
    if kind != "all":
        return x, FixedLikelihood(likelihood), np.empty(0)
    return x, LearnedScale(likelihood.target, likelihood.weight, link), np.array([-3.0])


class TestEvidence:
    @pytest.mark.parametrize("structure", ["global", "layer", "input"])
    @pytest.mark.parametrize(("kind", "link"), [*CASES, SEVERAL[1]])
    def test_gradient_against_finite_differences(self, kind, link, structure):
        x, given, tail = model(kind, link)
        groups = mlp.prior_groups(SPEC, WIDTH, structure, (0, 1))
        rows = tuple(tuple(part.tolist()) for part in mlp.rows_of(SPEC, WIDTH, groups))
        factors = mlp.factors(SPEC, mlp.unravel(SPEC, start(), WIDTH), x)
        linear = fitting._Linear(mlp.group_kernels(factors, rows), factors.latent - mlp.push(factors, start()))
        hyper = np.r_[np.linspace(-0.5, 0.8, groups.max() + 1), tail]
        _, slope = fitting._log_joint_and_slope(jnp.asarray(hyper), linear, given)
        for index in range(hyper.size):
            h = 1e-3 * np.eye(hyper.size)[index]

            def value(step, h=h):
                return float(fitting._log_joint_and_slope(jnp.asarray(hyper + step * h), linear, given)[0])

            difference = (8 * (value(1) - value(-1)) - (value(2) - value(-2))) / 12e-3
            assert float(slope[index]) == pytest.approx(difference, rel=1e-4, abs=1e-5)

    def test_evidence_is_that_of_the_posterior_at_the_mode(self):
        """Closed form: with the normal link the linearised network is Gaussian regression."""
        x, given, tail = model("all", "probit")
        groups = mlp.prior_groups(SPEC, WIDTH, "layer", (0, 1))
        found = fit_evidence(start(), SPEC, x, given, groups, (np.zeros(3), tail), rounds=0)
        J = np.asarray(mlp.jacobian(SPEC, mlp.unravel(SPEC, found.fit.params, WIDTH), x))[:N]
        latent = mlp.logit(SPEC, mlp.unravel(SPEC, found.fit.params, WIDTH), x)[:N]
        mean = np.asarray(latent) - J @ np.asarray(found.fit.params)
        noise = np.exp(0.5 * found.tail[0])
        evidence = reference.gaussian_evidence(J @ J.T, mean, np.asarray(given.target)[:N], noise)
        prior = float(given.log_prior(jnp.asarray(found.log_precision), jnp.asarray(found.tail)))
        assert found.log_joint == pytest.approx(evidence + prior, rel=1e-8)

    @pytest.mark.parametrize("structure", ["global", "layer", "input"])
    @pytest.mark.parametrize(("kind", "link"), CASES)
    def test_more_rounds_never_end_with_less(self, kind, link, structure):
        x, given, tail = model(kind, link)
        groups = mlp.prior_groups(SPEC, WIDTH, structure, (0, 1))
        begin = (np.zeros(groups.max() + 1), tail)
        found = [fit_evidence(start(), SPEC, x, given, groups, begin, rounds=rounds) for rounds in (0, 1, 4)]
        values = [one.log_joint for one in found]
        assert np.isfinite(values[0])
        assert values == sorted(values)
        last = found[-1]
        expected = np.exp(last.log_precision)[groups]
        np.testing.assert_allclose(last.fit.prior_precision, expected, rtol=1e-12)

    def test_gains_where_the_start_is_poor(self):
        x, given, _ = model("all", "probit")
        groups = mlp.prior_groups(SPEC, WIDTH, "layer", (0, 1))
        poor = (np.full(3, 5.0), np.array([0.0]))
        before, after = (fit_evidence(start(), SPEC, x, given, groups, poor, rounds=rounds) for rounds in (0, 4))
        assert after.log_joint > before.log_joint + 3

    def test_a_start_outside_the_bounds_is_brought_inside(self):
        x, given, _ = model("all", "logit")
        groups = mlp.prior_groups(SPEC, WIDTH, "global", ())
        found = fit_evidence(start(), SPEC, x, given, groups, (np.array([99.0]), np.array([-99.0])), rounds=0)
        assert found.log_precision.tolist() == [fitting.PRECISION_BOUNDS[1]]
        assert found.tail[0] == given.bounds[0][0]

    def test_padding_changes_nothing(self):
        groups = mlp.prior_groups(SPEC, WIDTH, "layer", (0, 1))
        found = []
        for rows in (PADDED, N):
            x, likelihood = problem("all", rows=rows)
            given = LearnedScale(likelihood.target, likelihood.weight, "probit")
            begin = (np.zeros(3), np.array([-3.0]))
            found.append(fit_evidence(start(), SPEC, x, given, groups, begin, rounds=0).log_joint)
        assert found[0] == pytest.approx(found[1], abs=1e-5)

    def test_float32(self):
        with jax.enable_x64(False):
            x, likelihood = problem(dtype=jnp.float32)
            groups = mlp.prior_groups(SPEC, WIDTH, "layer", (0, 1))
            begin = (np.zeros(3), np.empty(0))
            found = fit_evidence(start(dtype=jnp.float32), SPEC, x, FixedLikelihood(likelihood), groups, begin)
            assert found.fit.params.dtype == jnp.float32
            assert np.isfinite(found.log_joint)

    def test_new_data_compile_nothing(self):
        groups = mlp.prior_groups(SPEC, WIDTH, "layer", (0, 1))
        sizes = []
        for shift in (0.0, 0.1, 0.2):
            x, likelihood = problem("all")
            given = LearnedScale(likelihood.target + shift, likelihood.weight, "probit")
            fit_evidence(start(), SPEC, x + shift, given, groups, (np.zeros(3), np.array([-3.0])), rounds=2)
            compiled = (fitting._gauss_newton, fitting._log_joint_and_slope, fitting._linear, fitting._at)
            sizes.append([one._cache_size() for one in compiled])
        assert sizes[0] == sizes[1] == sizes[2]
