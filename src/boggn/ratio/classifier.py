r"""A classifier that tells the samples apart knows the ratio: l / g = odds * M / N, its odds those of the numerator.

Calibration is scikit-learn's, cross-validated; so are the classifiers, but for the presets of `boggn.classifiers`.
"""

from __future__ import annotations

import math
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from boggn.errors import ConfigurationError
from boggn.ratio.base import DensityRatio
from boggn.ratio.kernels import FOLDS

Floats = NDArray[np.float64]
Calibration = Literal["sigmoid", "isotonic"]


@final
class ClassifierRatio(DensityRatio):
    """The ratio by the class probability of "mlp", "forest", "xgboost", "svm", or any scikit-learn classifier.

    `calibrate` is None, "sigmoid" or "isotonic". Where a classifier is certain, as the leaves of a forest are, the
    plain ratio is zero or infinite; the relative one is never above 1 / gamma.
    """

    def __init__(
        self,
        classifier: Any = "forest",
        *,
        calibrate: Calibration | None = None,
        gamma: float = 0.0,
        random_state: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.calibrate = calibrate
        self.gamma = gamma
        self.random_state = random_state

    def _fit(self, numerator: Floats, denominator: Floats) -> None:
        rows = np.concatenate([numerator, denominator])
        z = np.repeat([1, 0], [len(numerator), len(denominator)])
        self.log_prior_odds_ = math.log(len(numerator) / len(denominator))
        self.classifier_ = self._made(min(len(numerator), len(denominator))).fit(rows, z)

    def _made(self, least: int) -> Any:
        # Not before it is needed: the presets bring JAX.
        from boggn.classifiers import make

        seed = int(np.random.default_rng(self.random_state).integers(2**31))
        if isinstance(self.classifier, type) or not (
            isinstance(self.classifier, str) or hasattr(self.classifier, "fit")
        ):
            allowed = "'mlp', 'forest', 'xgboost', 'svm' or a scikit-learn classifier"
            raise ConfigurationError.invalid("classifier", self.classifier, allowed)
        made = make(self.classifier, seed)
        if self.calibrate is None:
            if not hasattr(made, "predict_proba"):
                allowed = "one with predict_proba unless calibrate is given"
                raise ConfigurationError.invalid("classifier", self.classifier, allowed)
            return made
        if self.calibrate not in {"sigmoid", "isotonic"}:
            raise ConfigurationError.invalid("calibrate", self.calibrate, "None, 'sigmoid' or 'isotonic'")
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.model_selection import StratifiedKFold

        folds = StratifiedKFold(min(FOLDS, least), shuffle=True, random_state=seed)
        return CalibratedClassifierCV(made, method=self.calibrate, cv=folds, ensemble=False)

    def _log_plain_ratio(self, rows: Floats) -> Floats:
        probability = np.asarray(self.classifier_.predict_proba(rows), np.float64)
        with np.errstate(divide="ignore"):
            log_odds: Floats = np.log(probability[:, 1]) - np.log(probability[:, 0])
        return log_odds - self.log_prior_odds_
