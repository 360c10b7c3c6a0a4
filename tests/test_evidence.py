r"""Prior scales by the evidence: its value against dense formulas, its gradient, and what the fit may depend on."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import reference
from boggn import evidence, laplace
from boggn.evidence import Data, length_prior, likelihood_of, log_prior, prior_of, start
from boggn.labels import cuts, intervals
from boggn.laplace import log_evidence_at
from boggn.likelihood import OPEN, AllThresholds, OneThreshold, SeveralThresholds
from boggn.warp import scale_of

CASES = [(thresholds, link) for thresholds in ("one", 5, "all") for link in ("logit", "probit")]
N, SIZE, WIDTH = 12, 40, 3
COLUMN = np.array([0, 1, 1], dtype=np.int32)
find_mode = jax.jit(laplace.find_mode)
HYPER = np.array([-0.4, 0.3, -0.7, 0.5, -4.0, -0.5])


def log_joint(hyper, data):
    """Value and gradient, by the compiled function that the fit maximises."""
    value, slope = evidence._loss(hyper, data)
    return -value, -slope


@pytest.fixture(autouse=True)
def _float64():
    with jax.enable_x64(True):
        yield


def outcomes(rows):
    values = np.sum((rows - 0.2) ** 2, axis=1) + 0.05 * np.cos(40 * rows[:, 0])
    return np.round(values * 2**20) / 2**20  # so that shifts and powers of two do not round


def data_of(thresholds, link, values=None, size=SIZE, seed=0):
    rows = np.random.default_rng(seed).uniform(-1, 1, (N, WIDTH))
    values = outcomes(rows) if values is None else values
    pad = (0, size - N)
    utility, interval = scale_of(values).utility(values), None
    if isinstance(thresholds, int):
        ends = intervals(utility, cuts(utility, thresholds, 1 / 3))
        interval = np.concatenate([ends, np.broadcast_to([-np.inf, np.inf], (size - N, 2))])
    return Data(
        rows=np.pad(rows, (pad, (0, 0))),
        utility=np.pad(utility, pad),
        z=np.pad((values <= np.median(values)) * 1.0, pad),
        weight=np.pad(np.ones(N), pad),
        column=COLUMN,
        length_prior=np.float64(length_prior(2)),
        thresholds=thresholds if interval is None else "several",
        link=link,
        interval=interval,
    )


def kernel(data, hyper):
    lengths = np.exp(hyper[:WIDTH])[COLUMN]
    return reference.matern52_ard(data.rows[:N], data.rows[:N], lengths, np.exp(hyper[-3]))


def dense_log_prior(hyper):
    """The table of the module, with SciPy's densities."""
    total = np.sum(norm.logpdf(hyper[:WIDTH], length_prior(2), 1.0))
    return total + norm.logpdf(hyper[-3], 0, 1) + norm.logpdf(hyper[-2], -9, 3) + norm.logpdf(hyper[-1], 0, 2)


# --------------------------------------------------------------------------------------------------------- log joint


def test_the_hyper_priors_are_those_of_the_table():
    data, other = data_of("all", "probit"), HYPER + np.array([0.1, -0.2, 0.3, 0.4, 1.0, -2.0])
    found = float(log_prior(jnp.asarray(other), data) - log_prior(jnp.asarray(HYPER), data))
    assert found == pytest.approx(dense_log_prior(other) - dense_log_prior(HYPER), rel=1e-12)
    assert length_prior(1) == -1.0
    assert length_prior(9) == pytest.approx(-1.0 + np.log(3.0))


def test_the_start_is_the_mode_of_the_prior():
    data = data_of("all", "probit")
    np.testing.assert_array_equal(jax.grad(log_prior)(jnp.asarray(start(data)), data), 0.0)
    moved = start(data, log_noise=-4.0, log_offset=2.0)
    np.testing.assert_array_equal(moved[-2:], [-4.0, 2.0])
    np.testing.assert_array_equal(moved[:-2], start(data)[:-2])


def test_all_thresholds_with_the_normal_link_in_closed_form():
    data = data_of("all", "probit")
    logs = np.log(data.utility[:N] + np.exp(HYPER[-1]))
    target, noise = (logs - logs.mean()) / logs.std(), np.exp(0.5 * HYPER[-2])
    expected = reference.gaussian_evidence(kernel(data, HYPER), np.zeros(N), target, noise)
    jacobian = -logs.sum() - N * np.log(logs.std())
    value = float(log_joint(HYPER, data)[0]) - float(log_prior(jnp.asarray(HYPER), data))
    assert value == pytest.approx(expected + jacobian, rel=1e-10)


@pytest.mark.parametrize(("thresholds", "link"), CASES)
def test_the_value_is_laplaces_at_the_mode(thresholds, link):
    data = data_of(thresholds, link)
    likelihood, _, log_jacobian = likelihood_of(jnp.asarray(HYPER), data)
    K, latent = kernel(data, HYPER), np.zeros(N)
    if thresholds == "one":
        known = (data.z[:N], np.ones(N))
        forms = (reference.one_threshold, reference.one_threshold_gradient, reference.one_threshold_curvature)
    elif thresholds == 5:
        latent = np.asarray(likelihood.start())[:N]
        known = (
            *(np.asarray(end)[:N] for end in (likelihood.lower, likelihood.upper)),
            float(likelihood.scale),
            np.ones(N),
        )
        forms = tuple(getattr(reference, "several_thresholds" + name) for name in ("", "_gradient", "_curvature"))
    else:
        latent = np.asarray(likelihood.target)[:N]
        known = (latent, float(likelihood.scale), np.ones(N))
        forms = (reference.all_thresholds, reference.all_thresholds_gradient, reference.all_thresholds_curvature)
    for _ in range(60):  # g = K (Lambda K + I)^-1 (Lambda g + grad)
        bend = forms[2](link, latent, *known)
        pull = bend * latent + forms[1](link, latent, *known)
        latent = K @ np.linalg.solve(np.eye(N) + bend[:, None] * K, pull)
    dual = forms[1](link, latent, *known)
    np.testing.assert_allclose(latent, K @ dual, atol=1e-9)
    bend = forms[2](link, latent, *known)
    expected = np.sum(forms[0](link, latent, *known)) - 0.5 * dual @ K @ dual
    expected += -0.5 * np.linalg.slogdet(np.eye(N) + K * bend)[1] + float(log_jacobian)
    value = float(log_joint(HYPER, data)[0]) - float(log_prior(jnp.asarray(HYPER), data))
    assert value == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize(("thresholds", "link"), CASES)
def test_gradient_against_finite_differences(thresholds, link):
    data, step = data_of(thresholds, link), 1e-3  # the mode, and so the value, is good to about 1e-9
    for hyper in (HYPER, start(data)):
        for move, slope in zip(step * np.eye(len(hyper)), log_joint(hyper, data)[1], strict=True):
            at = {k: float(log_joint(hyper + k * move, data)[0]) for k in (-2, -1, 1, 2)}
            difference = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)
            assert float(slope) == pytest.approx(difference, rel=1e-4, abs=5e-5)


@pytest.mark.parametrize(("thresholds", "link"), [("one", "probit"), (5, "probit"), ("all", "logit")])
def test_padding_changes_nothing(thresholds, link):
    plain, padded = data_of(thresholds, link, size=N), data_of(thresholds, link)
    rows, utility = padded.rows.copy(), padded.utility.copy()
    rows[N:], utility[N:] = 0.3, 7.0  # what padding holds does not matter either
    for other in (padded, replace(padded, rows=rows, utility=utility)):
        for found, expected in zip(log_joint(HYPER, other), log_joint(HYPER, plain), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_with_one_threshold_noise_and_offset_have_no_say():
    data = data_of("one", "logit")
    likelihood, head, log_jacobian = likelihood_of(jnp.asarray(HYPER), data)
    assert isinstance(likelihood, OneThreshold)
    assert head.warp is None
    assert float(log_jacobian) == 0.0
    slope = np.asarray(log_joint(start(data), data)[1])
    np.testing.assert_array_equal(slope[-2:], 0.0)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_several_thresholds_are_warped_with_their_outcomes(link):
    """Against formulas in NumPy; a threshold below the pole of the logarithm is all but an open end."""
    data = data_of(40, link)
    assert np.isfinite(data.interval).any(axis=0).all()
    assert np.nanmin(np.where(np.isfinite(data.interval), data.interval, np.nan)) < 0  # below the best outcome
    for offset in (-7.0, -0.5, 6.0):
        hyper = np.r_[HYPER[:-1], offset]
        likelihood, head, log_jacobian = likelihood_of(jnp.asarray(hyper), data)
        assert isinstance(likelihood, SeveralThresholds)
        assert float(log_jacobian) == 0.0
        logs = np.log(data.utility[:N] + np.exp(offset))
        shifted = np.maximum(data.interval[:N] + np.exp(offset), 1e-6 * np.exp(offset))
        target = np.where(np.isinf(shifted), OPEN, (np.log(shifted) - logs.mean()) / logs.std())
        target = np.where(np.isneginf(data.interval[:N]), -OPEN, target)
        np.testing.assert_allclose(np.stack([likelihood.lower, likelihood.upper], axis=1)[:N], target, rtol=1e-9)
        closed = np.abs(target).max(axis=1) < OPEN
        rounding = np.exp(2 * np.log(np.diff(target[closed])).mean()) / 12
        deviation = reference.LINKS[link].std(scale=float(likelihood.scale))
        assert deviation == pytest.approx(np.sqrt(np.exp(HYPER[-2]) + rounding), rel=1e-9)
        assert float(head.scale) == float(likelihood.scale)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_ever_more_thresholds_tend_to_all(link):
    """Likelihood, mode and evidence; the evidence of intervals is less by the logarithm of their widths."""
    every = data_of("all", link)
    K = jnp.asarray(kernel(every, HYPER))
    likelihood, _, _ = likelihood_of(jnp.asarray(HYPER), every)
    shifts = np.random.default_rng(1).normal(scale=0.1, size=(3, N))
    centre = np.asarray(likelihood.target)[:N]

    def facts(likelihood, log_widths):
        known = jax.tree.map(lambda leaf: leaf[:N] if leaf.ndim else leaf, likelihood)
        mode = find_mode(K, jnp.zeros(N), known)
        logs = np.array([float(jnp.sum(known.log_prob(jnp.asarray(centre + shift)))) for shift in shifts])
        value = float(log_evidence_at(K, known, mode))
        return np.r_[np.array([*logs, value]) - log_widths, mode.latent, jnp.diag(mode.whitener.T @ mode.whitener)]

    expected, errors = facts(likelihood, 0.0), []
    for count in (100, 1_000, 10_000, 100_000):
        several, _, _ = likelihood_of(jnp.asarray(HYPER), data_of(count, link))
        widths = np.asarray(several.upper - several.lower)[:N]
        error = facts(several, np.log(widths).sum()) - expected
        errors.append((np.abs(error) / (1 + np.abs(expected))).max())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3 < errors[0]


def test_how_many_thresholds_there_are_compiles_nothing():
    sizes = []
    for count in (1, 3, 30):
        data = data_of(count, "probit")
        evidence.fit(data, [start(data)], max_iterations=3)
        sizes.append(evidence._loss._cache_size())
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_the_noise_is_the_standard_deviation_of_either_link(link):
    likelihood, head, _ = likelihood_of(jnp.asarray(HYPER), data_of("all", link))
    assert isinstance(likelihood, AllThresholds)
    assert float(likelihood.scale) == float(head.scale)
    deviation = reference.LINKS[link].std(scale=float(likelihood.scale))
    assert deviation == pytest.approx(np.exp(0.5 * HYPER[-2]), rel=1e-12)


def test_a_column_beyond_the_parameters_keeps_its_prior():
    assert float(log_joint(start(data_of("all", "probit")), data_of("all", "probit"))[1][2]) == 0.0
    prior = prior_of(jnp.asarray(HYPER), data_of("all", "probit"))
    np.testing.assert_array_equal(prior.log_lengths, HYPER[:WIDTH])
    assert float(prior.log_amplitude) == HYPER[-3]


# ------------------------------------------------------------------------------------------------------------- the fit


@pytest.mark.parametrize(("thresholds", "link"), CASES)
def test_the_fit_is_never_below_its_starts_and_the_same_every_time(thresholds, link):
    for seed in range(3):
        data = data_of(thresholds, link, seed=seed)
        starts = [start(data), start(data, log_noise=-4.0, log_offset=4.0), HYPER]
        fit, again = (evidence.fit(data, starts) for _ in range(2))
        np.testing.assert_array_equal(fit.hyper, again.hyper)
        assert fit.log_joint == again.log_joint == pytest.approx(float(log_joint(fit.hyper, data)[0]), rel=1e-9)
        for begin in starts:
            assert fit.log_joint >= float(log_joint(begin, data)[0]) - 1e-9
            assert fit.log_joint >= evidence.fit(data, [begin], max_iterations=2).log_joint - 1e-9


def test_the_fit_climbs_to_a_stationary_point_of_the_box():
    data = data_of("all", "probit")
    fit = evidence.fit(data, [start(data)], max_iterations=200)
    slope = np.asarray(log_joint(fit.hyper, data)[1])
    low, high = length_prior(2) - 2.0, length_prior(2) + 6.0
    inside = (fit.hyper > np.r_[[low] * WIDTH, -4.0, np.log(1e-9), -7.0] + 1e-6) & (
        fit.hyper < np.r_[[high] * WIDTH, 5.0, 0.0, 6.0] - 1e-6
    )
    assert inside.sum() >= 3
    assert np.abs(slope[inside]).max() < 0.1


def test_the_fit_stays_in_the_box_also_from_outside():
    data = data_of("all", "logit")
    fit = evidence.fit(data, [start(data) + 50.0, start(data) - 50.0])
    lengths = length_prior(2) + np.array([-2.0, 6.0])
    low, high = np.r_[[lengths[0]] * WIDTH, -4.0, np.log(1e-9), -7.0], np.r_[[lengths[1]] * WIDTH, 5.0, 0.0, 6.0]
    assert np.all((fit.hyper >= low - 1e-12) & (fit.hyper <= high + 1e-12))


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize(("factor", "shift"), [(2.0**10, 0.0), (1.0, 64.0), (2.0**-7, -3.0)])
def test_the_units_of_the_outcomes_change_nothing(link, factor, shift):
    values = outcomes(data_of("all", link).rows[:N])
    plain, other = data_of("all", link, values), data_of("all", link, factor * values + shift)
    fit, moved = (evidence.fit(data, [start(data)]) for data in (plain, other))
    np.testing.assert_array_equal(fit.hyper, moved.hyper)
    assert fit.log_joint == moved.log_joint


def test_units_that_round_change_next_to_nothing():
    values = outcomes(data_of("all", "probit").rows[:N])
    plain, other = data_of("all", "probit", values), data_of("all", "probit", 0.7 * values - 12.3)
    fit, moved = (evidence.fit(data, [start(data)]) for data in (plain, other))
    assert moved.log_joint == pytest.approx(fit.log_joint, abs=1e-3)
    np.testing.assert_allclose(moved.hyper, fit.hyper, atol=0.05)


def test_known_scales_are_found_again():
    # Data drawn from the model itself: the irrelevant parameter gets the longer length-scale.
    found = []
    for seed in range(7):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(-1, 1, (SIZE, WIDTH))
        K = reference.matern52_ard(rows, rows, np.array([0.5, 20.0, 20.0]), 1.0)
        latent = np.linalg.cholesky(K + 1e-10 * np.eye(SIZE)) @ rng.normal(size=SIZE)
        values = np.exp(latent + 0.1 * rng.normal(size=SIZE))
        data = replace(
            data_of("all", "probit"),
            rows=rows,
            z=np.zeros(SIZE),
            weight=np.ones(SIZE),
            utility=scale_of(values).utility(values),
        )
        found.append(evidence.fit(data, [start(data)]).hyper)
    relevant, irrelevant, _, _, noise, _ = np.median(found, axis=0)
    assert relevant == pytest.approx(np.log(0.5), abs=0.5)
    assert irrelevant > np.log(3.0)
    assert noise == pytest.approx(np.log(0.1**2), abs=1.5)


def test_without_a_finite_start_there_is_no_fit():
    data = data_of("all", "probit")
    broken = replace(data, utility=np.full(SIZE, np.nan))
    assert evidence.fit(broken, [start(data)]) is None
    assert evidence.fit(data, []) is None


def test_float32_is_near_with_one_threshold():
    data = data_of("one", "logit")
    expected = log_joint(start(data), data)
    with jax.enable_x64(False):
        found = log_joint(start(data).astype(np.float32), jax.tree.map(jnp.asarray, data))
        assert found[0].dtype == jnp.float32
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-2, atol=1e-3)
