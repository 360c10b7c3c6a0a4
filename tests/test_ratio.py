r"""Density ratios agree with closed forms, with another implementation, and with what theory says of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from boggn.errors import BoggnError, ConfigurationError, DataError
from boggn.ratio import (
    KDE,
    KLIEP,
    RULSIF,
    ULSIF,
    BayesianRatio,
    ClassifierRatio,
    NotFittedError,
    log_relative,
    pearson,
)

GAMMA = 0.5
KERNELS = {
    "kde": KDE(),
    "kliep": KLIEP(random_state=0),
    "ulsif": ULSIF(random_state=0),
    "rulsif": RULSIF(random_state=0),
}
LIGHT = {
    **KERNELS,
    "logistic": ClassifierRatio(LogisticRegression()),
    "forest": ClassifierRatio("forest", random_state=0),
    "svm": ClassifierRatio("svm", random_state=0),
    "calibrated": ClassifierRatio(LinearSVC(), calibrate="sigmoid", random_state=0),
}
COMPILED = {
    "mlp": ClassifierRatio("mlp", random_state=0),
    "xgboost": ClassifierRatio("xgboost", random_state=0),
    "wide": BayesianRatio(random_state=0),
    "perceptron": BayesianRatio("mlp:8:tanh", random_state=0),
}


def named(models, mark=()):
    return [pytest.param(model, id=name, marks=mark) for name, model in models.items()]


EVERY = named(LIGHT) + named(COMPILED, pytest.mark.slow)


def gaussians(columns):
    """Densities of l and g."""
    above = multivariate_normal(np.full(columns, 0.8), 0.5 * np.eye(columns))
    below = multivariate_normal(np.zeros(columns), 1.2 * np.eye(columns))
    return above, below


def samples(columns=1, count=200, other=None, seed=0):
    rng = np.random.default_rng(seed)
    above, below = gaussians(columns)
    sizes = ((above, count), (below, other or count))
    return [density.rvs(size, random_state=rng).reshape(size, columns) for density, size in sizes]


def needed(model):
    if getattr(model, "classifier", None) == "xgboost":
        pytest.importorskip("xgboost", reason="boosted trees need the package xgboost")


# --------------------------------------------------------------------------------------------------- closed forms


def closed_forms():
    for name, model in (LIGHT | COMPILED).items():
        # Trees grown to the end say nearly the labels: they are held to less, and to nothing where one column is all.
        trees = name in {"forest", "xgboost"}
        for columns in (2,) if trees else (1, 2):
            mark = pytest.mark.slow if name in COMPILED else ()
            yield pytest.param(model, columns, 0.9 if trees else 0.5, id=f"{name}-{columns}", marks=mark)


@pytest.mark.parametrize(("model", "columns", "share"), list(closed_forms()))
def test_the_ratio_of_two_gaussians(model, columns, share):
    needed(model)
    above, below = gaussians(columns)
    asked = np.concatenate(samples(columns, 500, seed=1))
    exact = above.pdf(asked) / (GAMMA * above.pdf(asked) + (1 - GAMMA) * below.pdf(asked))
    count = 120 if model in COMPILED.values() else 300
    found = clone(model).set_params(gamma=GAMMA).fit(*samples(columns, count)).ratio(asked)
    # A share of the error of who says that the ratio is one.
    assert np.sqrt(np.mean((found - exact) ** 2)) < share * np.sqrt(np.mean((1.0 - exact) ** 2))


def test_sizes_of_the_samples_cancel():
    above, below = gaussians(1)
    asked = np.linspace(-2.0, 3.0, 50)[:, None]
    quadratic = np.concatenate([asked, asked**2], axis=1)
    exact = above.logpdf(asked) - below.logpdf(asked)
    x, y = samples(1, 2000, 16000)
    model = ClassifierRatio(LogisticRegression(C=1e6)).fit(np.hstack([x, x**2]), np.hstack([y, y**2]))
    np.testing.assert_allclose(model.log_ratio(quadratic), exact, atol=0.6)


def test_kde_is_two_densities_divided():
    x, y = samples(2, 30, 40)
    model = KDE(width=0.4).fit(x, y)
    asked = samples(2, 20, seed=3)[0]

    def density(rows):
        kernels = [multivariate_normal(row, np.diag((0.4 * model.spread_) ** 2)).pdf(asked) for row in rows]
        return np.mean(kernels, axis=0)

    np.testing.assert_allclose(model.ratio(asked), density(x) / density(y), rtol=1e-9)


def test_the_width_of_kde_is_the_best_left_out_one():
    x, y = samples(1, 40)
    model = KDE().fit(x, y)
    scaled = (x[:, 0] - model.center_) / model.spread_
    from boggn.ratio.kernels import WIDTHS

    def left_out(width):
        others = [np.delete(scaled, n) for n in range(len(scaled))]
        each = [np.mean(np.exp(-0.5 * ((scaled[n] - rows) / width) ** 2)) / width for n, rows in enumerate(others)]
        return np.sum(np.log(np.array(each)))

    assert model.widths_[0] == max(WIDTHS, key=left_out)


# ------------------------------------------------------------------------------------------ another implementation


def standardised(model, x, y):
    model.fit(x, y)
    return [(rows - model.center_) / model.spread_ for rows in (x, y)]


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.5])
def test_least_squares_agree_with_densratio(columns, gamma):
    densratio = pytest.importorskip("densratio", reason="the oracle densratio is not installed")
    x, y = samples(columns, 60, 80)
    model = RULSIF(width=0.7, ridge=0.1, gamma=gamma)
    x, y = standardised(model, x, y)
    theirs = densratio.densratio(x, y, "RuLSIF", sigma=0.7, lambda_=0.1, alpha=gamma, kernel_num=60, verbose=False)
    asked = samples(columns, 50, seed=2)[1]
    expected = theirs.compute_density_ratio((asked - model.center_) / model.spread_)
    bound = 1.0 / gamma if gamma else np.inf
    np.testing.assert_allclose(model.ratio(asked), np.minimum(expected, bound), rtol=1e-8)


def test_ulsif_agrees_with_densratio():
    densratio = pytest.importorskip("densratio", reason="the oracle densratio is not installed")
    x, y = samples(2, 60, 80)
    model = ULSIF(width=0.7, ridge=0.1)
    x, y = standardised(model, x, y)
    theirs = densratio.densratio(x, y, "uLSIF", sigma=0.7, lambda_=0.1, kernel_num=60, verbose=False)
    asked = model.center_ + model.spread_ * y
    np.testing.assert_allclose(model.ratio(asked), theirs.compute_density_ratio(y), rtol=1e-8)


def test_kliep_agrees_with_densratio():
    densratio = pytest.importorskip("densratio", reason="the oracle densratio is not installed")
    x, y = samples(1, 60, 80)
    model = KLIEP(width=0.7)
    x, y = standardised(model, x, y)
    theirs = densratio.densratio(x, y, "KLIEP", sigma=0.7, kernel_num=60, verbose=False)
    ours = {name: model.ratio(model.center_ + model.spread_ * rows) for name, rows in {"x": x, "y": y}.items()}
    # The same convex problem: ours is solved at least as far, and both means under g are one.
    assert np.mean(np.log(ours["x"])) >= np.mean(np.log(theirs.compute_density_ratio(x))) - 1e-9
    np.testing.assert_allclose(ours["y"].mean(), 1.0, rtol=1e-9)
    assert np.mean(np.abs(ours["y"] - theirs.compute_density_ratio(y))) < 0.05


def test_kliep_is_at_its_optimum():
    x, y = samples(2, 80, 90)
    model = KLIEP(width=0.5, n_centers=40, random_state=0).fit(x, y)
    ratio = model.ratio(x)

    def kernels(rows):
        scaled = (rows - model.center_) / model.spread_
        return np.exp(-0.5 * np.sum((scaled[:, None] - model.centers_) ** 2, axis=2) / 0.5**2)

    # Karush, Kuhn and Tucker: adding any kernel gains nothing, adding one that is used loses nothing either.
    gain = np.mean(kernels(x) / ratio[:, None], axis=0) / kernels(y).mean(axis=0)
    used = np.exp(model.log_weights_) > 1e-6
    assert np.all(gain < 1.0 + 1e-3)
    np.testing.assert_allclose(gain[used], 1.0, atol=1e-3)


# ---------------------------------------------------------------------------------------------- the relative ratio


@pytest.mark.parametrize("gamma", [0.0, 0.2, 0.9])
def test_log_relative_is_the_definition(gamma):
    above, below = gaussians(1)
    asked = np.linspace(-3, 3, 20)
    left, right = above.pdf(asked), below.pdf(asked)
    expected = left / (gamma * left + (1 - gamma) * right)
    np.testing.assert_allclose(np.exp(log_relative(np.log(left / right), gamma)), expected, rtol=1e-12)


def test_log_relative_knows_infinities():
    ends = np.array([-np.inf, np.inf])
    np.testing.assert_array_equal(log_relative(ends, 0.0), ends)
    np.testing.assert_allclose(log_relative(ends, 0.25), [-np.inf, np.log(4.0)], rtol=1e-15)


@pytest.mark.parametrize("model", EVERY)
def test_it_is_bounded_and_finite_everywhere(model):
    needed(model)
    x, y = samples(2, 40)
    model = clone(model).set_params(gamma=0.25).fit(x + 3.0, y)
    asked = np.concatenate([x + 3.0, y, [[50.0, -50.0], [1e6, 1e6]]])
    found = model.ratio(asked)
    assert np.all((found >= 0.0) & (found <= 4.0))
    assert found.max() > 2.0
    positive = found > 0
    np.testing.assert_allclose(model.log_ratio(asked)[positive], np.log(found[positive]), atol=1e-9)


@pytest.mark.parametrize("model", named(LIGHT))
def test_it_moves_towards_one_as_gamma_grows(model):
    x, y = samples(1, 60)
    model = clone(model).fit(x, y)
    asked = np.linspace(-4, 4, 81)
    found = np.array([model.set_params(gamma=gamma).ratio(asked) for gamma in (0.0, 0.1, 0.3, 0.6, 0.9)])
    plain = found[0]
    steps = np.diff(found[:, np.isfinite(plain)], axis=0)
    known = plain[np.isfinite(plain)]
    assert np.all(steps[:, known > 1] <= 1e-12)
    assert np.all(steps[:, known < 1] >= -1e-12)
    assert known.max() > 1
    assert known.min() < 1


def test_rulsif_at_zero_is_ulsif():
    x, y = samples(2, 50)
    one, other = RULSIF(gamma=0.0, random_state=1).fit(x, y), ULSIF(random_state=1).fit(x, y)
    np.testing.assert_array_equal(one.ratio(x), other.ratio(x))
    assert (one.width_, one.ridge_) == (other.width_, other.ridge_)


# -------------------------------------------------------------------------------------------------------- the score


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_a_score_falls_short_by_half_the_mean_squared_error(gamma):
    # Two distributions on four points, as samples that have exactly their frequencies.
    above, below = np.array([1, 2, 3, 4]), np.array([4, 3, 2, 1])
    mixture = gamma * above / 10 + (1 - gamma) * below / 10
    true, other = above / 10 / mixture, np.array([0.3, 1.0, 2.0, 1.1])

    def score(ratio):
        return pearson(np.repeat(ratio, above), np.repeat(ratio, below), gamma)

    assert score(true) == pytest.approx(0.5 * mixture @ (true - 1) ** 2, abs=1e-12)
    assert score(true) - score(other) == pytest.approx(0.5 * mixture @ (true - other) ** 2, abs=1e-12)


def test_the_score_tells_good_widths_from_bad_ones():
    train, test = samples(1, 150), samples(1, 1000, seed=5)
    scores = [KDE(width, gamma=GAMMA).fit(*train).score(*test) for width in (0.01, 0.25, 30.0)]
    assert scores[1] > max(scores[0], scores[2]) + 0.02
    assert KDE(gamma=GAMMA).fit(*train).score(*test) > scores[1] - 0.02


def test_an_infinite_ratio_has_no_score():
    train = samples(1, 60)
    assert ClassifierRatio("forest", random_state=0).fit(*train).score(*train) == -np.inf
    assert np.isfinite(ClassifierRatio("forest", gamma=0.1, random_state=0).fit(*train).score(*train))


# ------------------------------------------------------------------------------------------------------ invariances


@pytest.mark.parametrize("model", named(LIGHT) + named({"wide": COMPILED["wide"]}, pytest.mark.slow))
def test_units_do_not_matter(model):
    x, y = samples(2, 50)
    scale, shift = np.array([60.0, 0.3]), np.array([7.0, -2.0])
    model = clone(model).set_params(gamma=0.2)
    plain = model.fit(x, y).ratio(y)
    np.testing.assert_allclose(
        model.fit(x * scale + shift, y * scale + shift).ratio(y * scale + shift), plain, rtol=1e-6
    )


@pytest.mark.parametrize("model", [KDE(0.3), RULSIF(0.5, 0.1, gamma=0.2), KLIEP(0.5)], ids=["kde", "rulsif", "kliep"])
def test_the_order_of_rows_and_their_repetition_do_not_matter(model):
    x, y = samples(2, 50)
    plain = model.fit(x, y).ratio(y)
    np.testing.assert_allclose(model.fit(x[::-1], np.concatenate([y, y[::-1]])).ratio(y), plain, rtol=2e-3)


@pytest.mark.parametrize("model", [KDE(), ClassifierRatio(LogisticRegression())], ids=["kde", "logistic"])
def test_samples_that_change_places_invert_the_ratio(model):
    x, y = samples(2, 40, 60)
    forth = model.fit(x, y).log_ratio(y)
    np.testing.assert_allclose(model.fit(y, x).log_ratio(y), -forth, rtol=1e-4, atol=1e-4)


def test_a_constant_column_says_nothing():
    x, y = samples(1, 60)
    wider = [np.hstack([rows, np.full_like(rows, 7.0)]) for rows in (x, y)]
    np.testing.assert_allclose(KDE(0.3).fit(*wider).ratio(wider[1]), KDE(0.3).fit(x, y).ratio(y), rtol=1e-9)


# ---------------------------------------------------------------------------------------- manners, and bad input


@pytest.mark.parametrize("model", named(LIGHT | COMPILED))
def test_scikit_learn_manners(model):
    params = model.get_params(deep=False)
    assert clone(model).get_params(deep=False).keys() == params.keys()
    changed = clone(model).set_params(gamma=0.4)
    assert changed.get_params()["gamma"] == 0.4
    assert type(model).__name__ in repr(model)
    with pytest.raises(ValueError, match="Invalid parameter 'colour'"):
        changed.set_params(colour="red")


@pytest.mark.parametrize("model", EVERY)
def test_a_fit_is_repeatable_and_survives_pickling(model):
    needed(model)
    x, y = samples(1, 40)
    first = clone(model)
    assert first.fit(x, y) is first
    with pytest.raises(NotFittedError):
        clone(first).ratio(x)
    expected = first.ratio(y)
    np.testing.assert_array_equal(clone(first).fit(x, y).ratio(y), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).ratio(y), expected)  # noqa: S301


def test_flat_samples_are_one_column():
    x, y = samples(1, 30)
    model = KDE().fit(x, y)
    np.testing.assert_array_equal(KDE().fit(x[:, 0].tolist(), y[:, 0]).ratio(y[:, 0]), model.ratio(y))


X, Y = samples(2, 10)
BAD_SAMPLES = {
    "other columns": (X, Y[:, :1], "x_numerator has 2 and x_denominator has 1"),
    "empty": (X[:0], Y, "`x_numerator` is empty"),
    "no columns": (X, Y[:, :0], "`x_denominator` is empty"),
    "one row": (X, Y[:1], "`x_denominator` must have 2 rows or more, but has 1"),
    "nan": (X, np.where(np.arange(20).reshape(10, 2) == 5, np.nan, Y), "row 2, column 1 is nan"),
    "infinite": (X * np.inf, Y, "must be finite"),
    "words": ([["a"], ["b"]], Y, "`x_numerator` must be a table of real numbers"),
    "a cube": (X[None], Y, "its shape is"),
}


@pytest.mark.parametrize(("x", "y", "message"), list(BAD_SAMPLES.values()), ids=list(BAD_SAMPLES))
def test_samples_that_cannot_be_used(x, y, message):
    with pytest.raises(DataError, match=message):
        KDE().fit(x, y)


@pytest.mark.parametrize("gamma", [1.0, -0.1, 2, np.nan, None, "half", True])
def test_a_gamma_outside_its_range(gamma):
    with pytest.raises(ConfigurationError, match=r"`gamma` must be a number in \[0, 1\)"):
        KDE(gamma=gamma).fit(X, Y)
    fitted = KDE().fit(X, Y).set_params(gamma=gamma)
    with pytest.raises(ConfigurationError, match="gamma"):
        fitted.ratio(X)


BAD_MODELS = {
    "width": KDE(width=0.0),
    "ridge": ULSIF(ridge=-1),
    "n_centers": KLIEP(n_centers=0),
    "narrow": KLIEP(width=1e-9),
    "classifier": ClassifierRatio("tree"),
    "a class": ClassifierRatio(LogisticRegression),
    "no probability": ClassifierRatio(LinearSVC()),
    "calibrate": ClassifierRatio(calibrate="twice"),
    "network": BayesianRatio("deep"),
    "finite width": BayesianRatio("wide:64"),
    "max_rows": BayesianRatio(max_rows=10**6),
}


@pytest.mark.parametrize("model", list(BAD_MODELS.values()), ids=list(BAD_MODELS))
def test_settings_that_cannot_be(model):
    with pytest.raises(ConfigurationError, match="must be"):
        model.fit(X, Y)


def test_what_is_asked_must_fit():
    model = KDE().fit(X, Y)
    with pytest.raises(DataError, match="`x` has 3 columns, but this KDE was fitted to rows of 2"):
        model.ratio(np.zeros((4, 3)))
    with pytest.raises(NotFittedError, match="This KDE is not fitted yet") as caught:
        KDE().score(X, Y)
    assert isinstance(caught.value, BoggnError)
