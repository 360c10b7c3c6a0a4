"""Scikit-learn classifiers that may stand where the network stands: by a preset's name, or any of the user's own.

| preset      | classifier                                                                     |
|-------------|--------------------------------------------------------------------------------|
| `"mlp"`     | three hidden layers of 32 units, elu, trained by Adam (PAPER.md 9)               |
| `"forest"`  | scikit-learn's random forest as it is: 100 trees, grown to the end              |
| `"xgboost"` | XGBoost's classifier as it is: 100 boosted trees                                |
| `"svm"`     | support vectors with a radial kernel, their margins made probabilities by Platt |
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Self

import jax
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from boggn.adam import map_adam
from boggn.encoding import padded_width
from boggn.errors import ConfigurationError, MissingPackageError
from boggn.likelihood import OneThreshold
from boggn.network import mlp
from boggn.network.spec import MLP, Activation

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, clone
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import StratifiedKFold
    from sklearn.svm import SVC
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted, has_fit_parameter, validate_data
except ImportError as error:
    raise MissingPackageError.of("scikit-learn", "Other classifiers", "boggn[classifiers]") from error

Floats = NDArray[np.float64]
FOLDS = 5
"""Of the cross-validation that calibrates; fewer where a class has fewer members."""


def make(classifier: Any, seed: int) -> Any:
    """A new unfitted classifier: a preset, or a copy of the one given; `seed` is the random state of all its parts."""
    made = _preset(classifier) if isinstance(classifier, str) else clone(classifier)
    made.set_params(**{name: seed for name in made.get_params() if name.split("__")[-1] == "random_state"})
    return made


def check(classifier: Any, *, weighted: bool) -> None:
    """Refuse what cannot be made here, or cannot be told the weights that its labels have."""
    try:
        made = make(classifier, 0)
    except (TypeError, RuntimeError) as error:
        allowed = f"a classifier that scikit-learn can copy ({error})"
        raise ConfigurationError.invalid("classifier", classifier, allowed) from error
    if weighted and not has_fit_parameter(made, "sample_weight"):
        allowed = f"'pi' with {type(made).__name__}, as expected improvement needs a `fit` that takes sample_weight"
        raise ConfigurationError.invalid("acquisition", "ei", allowed)


def _preset(name: str) -> Any:
    if name == "mlp":
        return NetworkClassifier()
    if name == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier()
    if name == "xgboost":
        try:
            from xgboost import XGBClassifier
        except ImportError as error:
            raise MissingPackageError.of("xgboost", "Boosted trees", "xgboost") from error
        return XGBClassifier(n_jobs=1)
    if name == "svm":
        return PlattClassifier()
    raise ConfigurationError.invalid("classifier", name, "'mlp', 'forest', 'xgboost' or 'svm'")


class NetworkClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The paper's multilayer perceptron as a point estimate, with scikit-learn's manners.

    Columns are standardised. `prior_precision` is delta: the penalty delta / 2 |theta|^2 stands beside the sum, not
    the mean, of the log-losses.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (32, 32, 32),
        activation: Activation = "elu",
        *,
        prior_precision: float = 1e-2,
        steps: int = 1000,
        batch_size: int = 32,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.prior_precision = prior_precision
        self.steps = steps
        self.batch_size = batch_size
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on rows X (N, D) of two classes y."""
        given, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, z = _two_classes(y)
        weight = _check_sample_weight(sample_weight, given, dtype=np.float64, allow_all_zero_weights=False)
        self.center_, self.spread_ = given.mean(axis=0), given.std(axis=0)
        self.spread_[self.spread_ == 0] = 1.0
        spec, rows = MLP(tuple(self.hidden), self.activation), _padded_count(len(z))
        seed = np.random.default_rng(self.random_state).integers(2**31)
        with jax.enable_x64(True):
            likelihood = OneThreshold(jax.device_put(_padded(z, rows)), jax.device_put(_padded(weight, rows)))
            precision = np.full(mlp.n_parameters(spec, padded_width(given.shape[1])), float(self.prior_precision))
            fit = map_adam(
                jax.random.key(seed),
                spec,
                jax.device_put(self._standard(given, rows)),
                likelihood,
                jax.device_put(precision),
                steps=self.steps,
                batch_size=self.batch_size,
            )
            self.parameters_ = np.asarray(fit.params)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Class probabilities (B, 2) in the order of `classes_`."""
        positive = 1.0 / (1.0 + np.exp(-np.clip(self.decision_function(X), -500.0, 500.0)))
        return np.stack([1.0 - positive, positive], axis=1)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Logits (B,) of the second of `classes_`."""
        check_is_fitted(self)
        given: Floats = validate_data(self, X, dtype=np.float64, reset=False)
        spec = MLP(tuple(self.hidden), self.activation)
        with jax.enable_x64(True):
            rows = self._standard(given, _padded_count(len(given)))
            return np.asarray(_logit(spec, self.parameters_, rows))[: len(given)]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class of each row."""
        found = self.decision_function(X)
        chosen: NDArray[Any] = self.classes_[(found > 0).astype(np.intp)]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _standard(self, X: Floats, rows: int) -> Floats:
        padding = ((0, rows - len(X)), (0, padded_width(X.shape[1]) - X.shape[1]))
        return np.pad((X - self.center_) / self.spread_, padding)


@partial(jax.jit, static_argnames=("spec",))
def _logit(spec: MLP, parameters: Array, rows: Array) -> Array:
    return mlp.logit(spec, mlp.unravel(spec, parameters, rows.shape[1]), rows)


class PlattClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Support vectors with a radial kernel whose margins become probabilities by a cross-validated logistic curve.

    With fewer than two members of a class, which cannot be cross-validated, the curve is that of the training margins.
    """

    def __init__(self, C: float = 1.0, *, random_state: int | None = None) -> None:
        self.C = C
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train on rows X (N, D) of two classes y."""
        given, y = validate_data(self, X, y, dtype=np.float64)
        self.classes_, z = _two_classes(y)
        machine = SVC(C=self.C, random_state=self.random_state)
        least, every = int(min(np.sum(z == 0), np.sum(z == 1))), np.arange(len(z))
        folds = StratifiedKFold(min(FOLDS, least)) if least >= 2 else [(every, every)]
        self.calibrated_ = CalibratedClassifierCV(machine, cv=folds, ensemble=False)
        self.calibrated_.fit(given, y, sample_weight=sample_weight)
        return self

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Class probabilities (B, 2) in the order of `classes_`."""
        check_is_fitted(self)
        found: Floats = self.calibrated_.predict_proba(validate_data(self, X, dtype=np.float64, reset=False))
        return found

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more probable class of each row."""
        found = self.predict_proba(X)
        chosen: NDArray[Any] = self.classes_[np.argmax(found, axis=1)]
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _two_classes(y: Any) -> tuple[NDArray[Any], Floats]:
    check_classification_targets(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) > 2:
        # The words are those that scikit-learn's own checks look for.
        raise ValueError(f"Only binary classification is supported. The type of the target is multiclass: {classes}.")
    if len(classes) < 2:
        raise ValueError(f"Two classes are needed, but y has one class: {classes[0]!r}.")
    return classes, index.astype(np.float64)


def _padded_count(count: int) -> int:
    """The least of 64, 256, 1024, ... that holds so many rows: few shapes are compiled."""
    return int(64 * 4 ** max(0, math.ceil(math.log(count / 64, 4))))


def _padded(values: Floats, size: int) -> Floats:
    return np.pad(values, (0, size - len(values)))
