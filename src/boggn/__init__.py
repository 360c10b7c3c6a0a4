"""boggn: Bayesian optimisation by a Bayesian neural network that classifies at every threshold, for Optuna."""

from boggn.belief import Band, Belief, belief
from boggn.errors import BoggnError, ConfigurationError, EncodingError, StudyError, UnfittedError
from boggn.explain import Explanation, explain
from boggn.network.spec import MLP, Wide
from boggn.prequential import Prequential, prequential
from boggn.product.minimize import minimize
from boggn.recommend import recommend
from boggn.report import report
from boggn.sampler import BOGGNSampler
from boggn.select import Candidate, Selection, select

__all__ = [
    "MLP",
    "BOGGNSampler",
    "Band",
    "Belief",
    "BoggnError",
    "Candidate",
    "ConfigurationError",
    "EncodingError",
    "Explanation",
    "Prequential",
    "Selection",
    "StudyError",
    "UnfittedError",
    "Wide",
    "belief",
    "explain",
    "minimize",
    "prequential",
    "recommend",
    "report",
    "select",
]
__version__ = "0.1.0"
