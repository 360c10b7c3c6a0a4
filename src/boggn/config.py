"""The sampler's one configuration: frozen, validated once, at construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from boggn.errors import ConfigurationError
from boggn.network.spec import MLP, Network, Wide, parse_network

Thresholds = Literal["all", "one"]
Link = Literal["probit", "logit"]
AcquisitionName = Literal["ei", "pi", "ucb", "thompson"]
Training = Literal["gauss-newton", "adam"]
SearchName = Literal["neighbourhood", "random"]
EVIDENCE = "evidence"
WIDE = Wide()


@dataclass(frozen=True)
class Config:
    r"""How the sampler thinks.

    | field | meaning |
    |---|---|
    | `thresholds` | classify at all thresholds at once, or at the gamma-quantile only (the paper) |
    | `link` | F of P(y <= t | x) = F(logit): normal or logistic |
    | `network` | the wide cosine network, infinite or of so many units, or a multilayer perceptron |
    | `gamma` | proportion of trials called good; with all thresholds it only sets what `pi` and the records mean |
    | `acquisition` | expected improvement, probability of improvement, upper confidence bound, Thompson sampling |
    | `epsilon` | probability of a random suggestion; if None, the paper's 0.1 with one threshold and 0 with all |
    | `prior_precision` | delta of an MLP's prior, or "evidence" to have it chosen |
    | `training` | how an MLP reaches its mode |
    | `search` | candidates everywhere and near the best points, with one-coordinate swaps; or random (the paper) |
    | `n_startup_trials` | space-filling trials before the first fit |
    | `deterministic_objective` | never evaluate the same point twice |
    """

    thresholds: Thresholds = "all"
    link: Link = "probit"
    network: Network = WIDE
    gamma: float = 1.0 / 3.0
    acquisition: AcquisitionName = "ei"
    epsilon: float | None = None
    prior_precision: float | Literal["evidence"] = "evidence"
    training: Training = "gauss-newton"
    search: SearchName = "neighbourhood"
    n_startup_trials: int = 10
    deterministic_objective: bool = False

    def __post_init__(self) -> None:
        _one_of("thresholds", self.thresholds, get_args(Thresholds))
        _one_of("link", self.link, get_args(Link))
        _one_of("acquisition", self.acquisition, get_args(AcquisitionName))
        _one_of("training", self.training, get_args(Training))
        _one_of("search", self.search, get_args(SearchName))
        object.__setattr__(self, "network", parse_network(self.network))
        _real("gamma", self.gamma, 0.0, 1.0, ends=False)
        if self.epsilon is not None:
            _real("epsilon", self.epsilon, 0.0, 1.0, ends=True, otherwise="None or ")
        if self.prior_precision != EVIDENCE:
            _real("prior_precision", self.prior_precision, 0.0, float("inf"), ends=False, otherwise=f"{EVIDENCE!r} or ")
            if isinstance(self.network, Wide) or self.thresholds == "all":
                allowed = f"{EVIDENCE!r} unless network is an MLP and thresholds is 'one'"
                raise ConfigurationError.invalid("prior_precision", self.prior_precision, allowed)
        elif self.training == "adam":
            allowed = "'gauss-newton' unless prior_precision is a number, as in the paper"
            raise ConfigurationError.invalid("training", self.training, allowed)
        if type(self.n_startup_trials) is not int or self.n_startup_trials < 0:
            raise ConfigurationError.invalid("n_startup_trials", self.n_startup_trials, "a whole number, 0 or more")
        if not isinstance(self.deterministic_objective, bool):
            raise ConfigurationError.invalid("deterministic_objective", self.deterministic_objective, "True or False")

    @property
    def chance_of_random(self) -> float:
        """Epsilon, its default resolved."""
        if self.epsilon is None:
            return 0.1 if self.thresholds == "one" else 0.0
        return self.epsilon


def _one_of(field: str, value: object, allowed: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in allowed:
        raise ConfigurationError.invalid(field, value, "one of " + ", ".join(map(repr, allowed)))


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
