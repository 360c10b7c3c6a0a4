r"""hyperopt's `tpe.suggest`. A parameter with a condition is drawn below a choice of its parent, as hyperopt has it."""

from __future__ import annotations

import math
from typing import Any

import hyperopt
import numpy as np
from hyperopt import hp, tpe
from hyperopt.base import JOB_STATE_DONE, STATUS_OK, Domain, Trials

PACKAGES = ("hyperopt", "numpy")


class Adapter:
    """The loop of `fmin`, turned inside out: one suggestion, its value, the next."""

    def __init__(self, space: dict[str, Any], seed: int, evals: int, noisy: bool, options: dict[str, Any]) -> None:
        del evals, noisy
        self._space = space
        self._tree = _tree(space)
        self._domain = Domain(lambda _: 0.0, self._tree)
        self._trials = Trials()
        self._rng = np.random.default_rng(seed)
        self._options = {"verbose": False, **options}
        self._asked: tuple[dict[str, Any], Any] | None = None

    def ask(self) -> dict[str, Any]:
        number = self._trials.new_trial_ids(1)
        self._trials.refresh()
        seed = int(self._rng.integers(2**31 - 1))
        (document,) = tpe.suggest(number, self._domain, self._trials, seed, **self._options)
        drawn = {name: values[0] for name, values in document["misc"]["vals"].items() if values}
        params = _flat(hyperopt.space_eval(self._tree, drawn))
        self._asked = params, document
        return params

    def tell(self, params: dict[str, Any], value: float) -> None:
        asked, self._asked = self._asked, None
        document = asked[1] if asked is not None and asked[0] == params else self._document(params)
        document["state"] = JOB_STATE_DONE
        document["result"] = {"loss": value, "status": STATUS_OK}
        self._trials.insert_trial_docs([document])
        self._trials.refresh()

    def _document(self, params: dict[str, Any]) -> Any:
        """A trial somebody else drew."""
        (number,) = self._trials.new_trial_ids(1)
        values = {name: [params[name]] if name in params else [] for name in self._space}
        indices = {name: [number] if name in params else [] for name in self._space}
        misc = {"tid": number, "cmd": self._domain.cmd, "workdir": None, "idxs": indices, "vals": values}
        (document,) = self._trials.new_trial_docs([number], [None], [{}], [misc])
        return document


def _tree(space: dict[str, Any]) -> dict[str, Any]:
    """A parameter with children becomes a choice of dictionaries: its value and the children it brings with it."""

    def node(name: str) -> Any:
        entry = space[name]
        if entry["kind"] != "categorical":
            return _domain(name, entry)
        children = {child: node(child) for child, below in space.items() if below.get("parent", [None])[0] == name}
        options = []
        for value in range(entry["count"]):
            active = {child: built for child, built in children.items() if value in space[child]["parent"][1]}
            options.append({"value": value, **active})
        return hp.choice(name, options)

    return {name: node(name) for name, entry in space.items() if "parent" not in entry}


def _flat(drawn: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in drawn.items():
        if isinstance(value, dict):
            flat[name] = value["value"]
            flat |= _flat({child: below for child, below in value.items() if child != "value"})
        else:
            flat[name] = value
    return flat


def _domain(name: str, entry: dict[str, Any]) -> Any:
    low, high = entry["low"], entry["high"]
    if entry["kind"] == "float":
        return hp.loguniform(name, math.log(low), math.log(high)) if entry["log"] else hp.uniform(name, low, high)
    if not entry["log"]:
        return hp.uniformint(name, low, high)
    # Half a step beyond either end, so that the ends are as likely as they should be, and none is out of bounds.
    return hyperopt.pyll.scope.int(hp.qloguniform(name, math.log(low - 0.4999), math.log(high + 0.4999), 1))
