"""Boosted trees on scikit-learn's breast cancer data: the log loss after every round, and at the end."""

from __future__ import annotations

import argparse

import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

ROUNDS = 60


class Printed(xgboost.callback.TrainingCallback):
    """Prints the score of every round."""

    def after_iteration(self, model: object, epoch: int, evals_log: dict) -> bool:
        """Go on, always: whether it is worth it is not for this program to say."""
        del model
        print(f"round {epoch}: {evals_log['valid']['logloss'][-1]:.6f}", flush=True)
        return False


def main() -> None:
    """Train once."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("learning-rate", "subsample", "columns", "l2", "gamma"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--depth", type=int, required=True)
    arguments = parser.parse_args()
    rows, labels = load_breast_cancer(return_X_y=True)
    parts = train_test_split(rows, labels, test_size=0.3, random_state=0, stratify=labels)
    train, valid = xgboost.DMatrix(parts[0], parts[2]), xgboost.DMatrix(parts[1], parts[3])
    options = {
        "objective": "binary:logistic",
        "eval_metric": "logloss",
        "eta": arguments.learning_rate,
        "max_depth": arguments.depth,
        "subsample": arguments.subsample,
        "colsample_bytree": arguments.columns,
        "lambda": arguments.l2,
        "gamma": arguments.gamma,
        "nthread": 1,
        "seed": 0,
    }
    history: dict = {}
    watched = [(valid, "valid")]
    model = xgboost.train(
        options, train, ROUNDS, watched, evals_result=history, verbose_eval=False, callbacks=[Printed()]
    )
    print(f"accuracy: {np.mean((model.predict(valid) > 0.5) == parts[3]):.4f}")
    print(history["valid"]["logloss"][-1])


if __name__ == "__main__":
    main()
