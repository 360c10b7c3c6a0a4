"""boggn: Bayesian optimisation by a Bayesian neural network that classifies at every threshold, as an Optuna sampler."""

from boggn.errors import BoggnError, ConfigurationError, EncodingError, StudyError
from boggn.network.spec import MLP
from boggn.sampler import BOGGNSampler

__all__ = ["MLP", "BOGGNSampler", "BoggnError", "ConfigurationError", "EncodingError", "StudyError"]
__version__ = "0.1.0"
