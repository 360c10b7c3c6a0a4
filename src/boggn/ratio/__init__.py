"""Density ratios l(x) / g(x) from two samples, with scikit-learn's manners (PAPER.md 2, 9).

| estimator         | how                                                                                     |
|-------------------|-----------------------------------------------------------------------------------------|
| `KDE`             | two Parzen estimates, divided: the ratio of the tree-structured Parzen estimator          |
| `KLIEP`           | kernels, by the Kullback-Leibler divergence                                               |
| `ULSIF`, `RULSIF` | kernels, by least squares: of the ratio, of the relative ratio                            |
| `ClassifierRatio` | any scikit-learn classifier that tells one sample from the other                          |
| `BayesianRatio`   | a Bayesian neural network that does, with a band                                          |

Import it by name: it needs scikit-learn, which `import boggn` does not.
"""

from boggn.ratio.base import DensityRatio, NotFittedError, log_relative, pearson
from boggn.ratio.bayesian import BayesianRatio
from boggn.ratio.classifier import ClassifierRatio
from boggn.ratio.kliep import KLIEP
from boggn.ratio.least_squares import RULSIF, ULSIF
from boggn.ratio.parzen import KDE

__all__ = [
    "KDE",
    "KLIEP",
    "RULSIF",
    "ULSIF",
    "BayesianRatio",
    "ClassifierRatio",
    "DensityRatio",
    "NotFittedError",
    "log_relative",
    "pearson",
]
