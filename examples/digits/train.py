"""A small neural network on scikit-learn's digits: its accuracy on three held-out thirds, and their mean at the end."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

FOLDS, EPOCHS = 3, 12
KINDS = {
    "solver": str,
    "learning_rate": float,
    "alpha": float,
    "width": int,
    "depth": int,
    "activation": str,
    "batch_size": int,
}


def accuracies(parameters: Mapping[str, Any]) -> Iterator[float]:
    """On each third, after training on the other two; the same parameters always give the same."""
    options = dict(parameters)
    layers = (options.pop("width"),) * options.pop("depth")
    images, digits = load_digits(return_X_y=True)
    network = MLPClassifier(
        layers, max_iter=EPOCHS, random_state=0, learning_rate_init=options.pop("learning_rate"), **options
    )
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(images, digits):
        with warnings.catch_warnings():
            # Fits are kept short on purpose; and where weights overflow, the network says so by an exception.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            network.fit(images[train] / 16, digits[train])
        yield network.score(images[test] / 16, digits[test])


def main() -> None:
    """Train once."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, kind in KINDS.items():
        parser.add_argument(f"--{name}", type=kind, required=True)
    found = []
    for accuracy in accuracies(vars(parser.parse_args())):
        found.append(accuracy)
        print(f"fold {len(found)}: {accuracy:.4f}", flush=True)
    print(f"worst fold: {min(found)}")
    print(sum(found) / FOLDS)


if __name__ == "__main__":
    main()
