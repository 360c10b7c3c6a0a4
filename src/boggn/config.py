"""The sampler's one configuration: frozen, validated once, at construction."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from boggn.errors import ConfigurationError
from boggn.network.spec import MLP, Network, Wide, parse_network

Thresholds = Literal["all", "one"] | int
Link = Literal["probit", "logit"]
AcquisitionName = Literal["ei", "pi", "ucb", "thompson"]
Training = Literal["gauss-newton", "adam"]
SearchName = Literal["neighbourhood", "random"]
PosteriorName = Literal["function", "full", "kron", "diagonal", "last_layer", "subset", "mean_field"]
ClassifierName = Literal["mlp", "forest", "xgboost", "svm"]
SQRT = "sqrt"
EVIDENCE = "evidence"
WIDE = Wide()
NETWORK_OPTIONS = ("link", "network", "posterior", "prior_precision", "training", "patience", "warm_start")
"""What describes the network, and nothing where another classifier takes its place."""


@dataclass(frozen=True)
class Config:
    r"""How the sampler thinks.

    | field | meaning |
    |---|---|
    | `thresholds` | classify at all thresholds at once, at so many quantiles, or at the gamma-quantile (the paper) |
    | `link` | F of P(y <= t | x) = F(logit): normal or logistic |
    | `network` | the wide cosine network, infinite or of so many units, or a multilayer perceptron |
    | `posterior` | structure of an MLP's posterior; "function" and "full" are the same one, exact: N x N or P x P |
    | `classifier` | in the network's place, at one threshold: a preset or any scikit-learn classifier (BORE, LFBO) |
    | `gamma` | proportion called good, or "sqrt" for sqrt(N) / N; with all thresholds only what `pi` means |
    | `acquisition` | expected improvement, probability of improvement, upper confidence bound, Thompson sampling |
    | `epsilon` | probability of a random suggestion; if None, 0.1 with thresholds="one" or a classifier, else 0 |
    | `prior_precision` | delta of an MLP's prior, or "evidence" to have it chosen |
    | `training` | how an MLP reaches its mode |
    | `patience` | Adam stops when the score has not improved for so many epochs; None: never before its last step |
    | `warm_start` | Adam goes on, for a fifth of its steps, from the network of the last whole ten of observations |
    | `search` | candidates everywhere and near the best points, with swaps; or random: the paper's, or a classifier's |
    | `n_startup_trials` | space-filling trials before the first fit |
    | `deterministic_objective` | never evaluate the same point twice |
    """

    thresholds: Thresholds = "all"
    link: Link = "probit"
    network: Network = WIDE
    posterior: PosteriorName = "function"
    classifier: Any = None
    gamma: float | Literal["sqrt"] = 1.0 / 3.0
    acquisition: AcquisitionName = "ei"
    epsilon: float | None = None
    prior_precision: float | Literal["evidence"] = "evidence"
    training: Training = "gauss-newton"
    patience: int | None = None
    warm_start: bool = False
    search: SearchName | None = None
    n_startup_trials: int = 10
    deterministic_objective: bool = False

    def __post_init__(self) -> None:
        if type(self.thresholds) is not int or self.thresholds < 1:
            _one_of("thresholds", self.thresholds, ("all", "one"), otherwise="a whole number, 1 or more, or ")
        _one_of("link", self.link, get_args(Link))
        _one_of("acquisition", self.acquisition, get_args(AcquisitionName))
        _one_of("training", self.training, get_args(Training))
        if self.search is not None:
            _one_of("search", self.search, get_args(SearchName), otherwise="None or ")
        _one_of("posterior", self.posterior, get_args(PosteriorName))
        object.__setattr__(self, "network", parse_network(self.network))
        if self.gamma != SQRT:
            _real("gamma", self.gamma, 0.0, 1.0, ends=False, otherwise=f"{SQRT!r} or ")
        if self.epsilon is not None:
            _real("epsilon", self.epsilon, 0.0, 1.0, ends=True, otherwise="None or ")
        _whole("n_startup_trials", self.n_startup_trials, 0)
        _flag("deterministic_objective", self.deterministic_objective)
        if self.classifier is not None:
            self._check_classifier()
            object.__setattr__(self, "thresholds", "one")
        self._check_training()
        if self.posterior != "function" and isinstance(self.network, Wide):
            raise ConfigurationError.invalid("posterior", self.posterior, "'function' unless network is an MLP")

    def _check_training(self) -> None:
        if self.prior_precision != EVIDENCE:
            _real("prior_precision", self.prior_precision, 0.0, float("inf"), ends=False, otherwise=f"{EVIDENCE!r} or ")
            if isinstance(self.network, Wide) or self.thresholds != "one":
                allowed = f"{EVIDENCE!r} unless network is an MLP and thresholds is 'one'"
                raise ConfigurationError.invalid("prior_precision", self.prior_precision, allowed)
        elif self.training == "adam":
            allowed = "'gauss-newton' unless prior_precision is a number, as in the paper"
            raise ConfigurationError.invalid("training", self.training, allowed)
        _flag("warm_start", self.warm_start)
        if self.patience is not None:
            _whole("patience", self.patience, 1, otherwise="None or ")
        if self.training != "adam" and (self.patience is not None or self.warm_start):
            name = "patience" if self.patience is not None else "warm_start"
            allowed = "left out unless training is 'adam'"
            raise ConfigurationError.invalid(name, getattr(self, name), allowed)

    def _check_classifier(self) -> None:
        _classifier(self.classifier)
        place = "where a classifier takes the network's place"
        if self.acquisition not in {"ei", "pi"}:
            allowed = f"'ei' (weighted labels) or 'pi' {place}"
            raise ConfigurationError.invalid("acquisition", self.acquisition, allowed)
        if self.thresholds not in {"all", "one"}:
            raise ConfigurationError.invalid("thresholds", self.thresholds, f"'one' or left out {place}")
        for name in NETWORK_OPTIONS:
            if getattr(self, name) != getattr(Config, name):
                raise ConfigurationError.invalid(name, getattr(self, name), f"left out {place}")

    def proportion(self, count: int) -> float:
        """Gamma with so many outcomes."""
        if self.gamma == SQRT:
            return min(1.0 / math.sqrt(max(count, 1)), 0.5)
        return float(self.gamma)

    @property
    def chance_of_random(self) -> float:
        """Epsilon, its default resolved."""
        if self.epsilon is None:
            return 0.1 if self.thresholds == "one" else 0.0
        return self.epsilon

    @property
    def candidates(self) -> SearchName:
        """Where the maximiser looks, `search`, its default resolved."""
        if self.search is None:
            # A classifier without a posterior is the surest right beside its good points, and stays there if it may.
            return "neighbourhood" if self.classifier is None else "random"
        return self.search


def _one_of(field: str, value: object, allowed: tuple[str, ...], *, otherwise: str = "") -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ConfigurationError.invalid(field, value, otherwise + "one of " + ", ".join(map(repr, allowed)))


def _whole(field: str, value: object, least: int, *, otherwise: str = "") -> None:
    if type(value) is not int or value < least:
        raise ConfigurationError.invalid(field, value, f"{otherwise}a whole number, {least} or more")


def _flag(field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigurationError.invalid(field, value, "True or False")


def _classifier(value: object) -> None:
    names = get_args(ClassifierName)
    known = isinstance(value, str) and value in names
    if not known and (
        isinstance(value, (str, type)) or not all(hasattr(value, name) for name in ("fit", "predict_proba"))
    ):
        allowed = "None, one of " + ", ".join(map(repr, names)) + ", or a scikit-learn classifier with predict_proba"
        raise ConfigurationError.invalid("classifier", value, allowed)


def _real(field: str, value: object, low: float, high: float, *, ends: bool, otherwise: str = "") -> None:
    brackets = "[]" if ends else "()"
    allowed = f"{otherwise}a number in {brackets[0]}{low:g}, {high:g}{brackets[1]}"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ConfigurationError.invalid(field, value, allowed)
    inside = low <= value <= high if ends else low < value < high
    if not inside:
        raise ConfigurationError.invalid(field, value, allowed)


PAPER = Config(
    thresholds="one",
    link="logit",
    network=MLP(hidden=(32, 32), activation="relu"),
    gamma=1.0 / 3.0,
    acquisition="pi",
    epsilon=0.1,
    prior_precision=1.0,
    training="adam",
    search="random",
    n_startup_trials=10,
    deterministic_objective=True,
)
"""Algorithm 1 to the letter. It adds {(x, y)} to a set of observations, so no point is evaluated twice."""
