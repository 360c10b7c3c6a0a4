"""Classifiers in the network's place: the presets, and scikit-learn's own checks of the two that are ours."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from boggn.classifiers import NetworkClassifier, PlattClassifier, make
from boggn.errors import ConfigurationError

PRESETS = ("mlp", "forest", "xgboost", "svm")
pytestmark = pytest.mark.slow
UNWEIGHTED = "batches are drawn at random, and padding them to few sizes draws others"


def expected_failures(estimator):
    if isinstance(estimator, PlattClassifier):
        repeated = "cross-validation splits repeated rows and weighted rows otherwise"
        return {"check_sample_weight_equivalence_on_dense_data": repeated}
    return {"check_sample_weight_equivalence_on_dense_data": UNWEIGHTED}


@parametrize_with_checks([NetworkClassifier(steps=200), PlattClassifier()], expected_failed_checks=expected_failures)
def test_scikit_learn_manners(estimator, check):
    check(estimator)


def two_moons(count=200):
    rng = np.random.default_rng(0)
    z = rng.random(count) < 0.4
    rows = rng.normal(size=(count, 2)) + np.where(z, 1.5, -0.5)[:, None]
    return rows, z.astype(int)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_learn_the_log_odds_of_two_gaussians(name):
    rows, z = two_moons()
    asked = np.array([[2.0, 2.0], [-1.0, -1.0]])
    found = make(name, 0).fit(rows, z).predict_proba(asked)[:, 1]
    assert found[0] > 0.9
    assert found[1] < 0.1


@pytest.mark.parametrize("name", PRESETS)
def test_a_seed_is_one_classifier(name):
    rows, z = two_moons(60)
    first, again = (make(name, 3).fit(rows, z).predict_proba(rows) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("name", PRESETS)
def test_a_class_with_one_member(name):
    rows, _ = two_moons(12)
    z = np.zeros(12, int)
    z[3] = 1
    found = make(name, 0).fit(rows, z).predict_proba(rows)
    assert found.shape == (12, 2)
    assert np.all(np.isfinite(found))


def test_weights_move_the_network():
    rows, z = two_moons()
    asked = np.zeros((1, 2))
    network = NetworkClassifier(prior_precision=10.0, random_state=0)
    plain = network.fit(rows, z).predict_proba(asked)[0, 1]
    heavy = network.fit(rows, z, sample_weight=np.where(z, 20.0, 1.0)).predict_proba(asked)
    assert heavy[0, 1] > plain + 0.1


def test_the_one_given_is_copied():
    given = LogisticRegression()
    rows, z = two_moons(30)
    made = make(given, 7).fit(rows, z)
    assert made is not given
    assert not hasattr(given, "coef_")
    assert made.random_state == 7


def test_an_unknown_preset_is_named():
    with pytest.raises(ConfigurationError, match="'tree'"):
        make("tree", 0)
