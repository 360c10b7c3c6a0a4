r"""Optimisers of other packages, unmodified, each behind one adapter and in a process of its own.

An adapter is a module of this folder: a class `Adapter(space, seed, evals, noisy, options)` with `ask()` and
`tell(params, value)`, and the packages it stands on in `PACKAGES`. It imports nothing of boggn, so that it runs in the
peer's own environment, whose versions boggn could not stand. `serve.py` is the script that runs it there.

A peer's Python is this one, if it has the package; else that of `<folder>/<environment>`, where the folder is the
environment variable BOGGN_PEERS or `.venv-peers`, which `make peers` fills; else the peer is absent.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Peer:
    """An adapter with the options that make it one method; `module` is what must be importable, `install` its name."""

    adapter: str
    module: str
    install: str
    description: str
    options: Mapping[str, Any] = field(default_factory=dict)


PEERS: dict[str, Peer] = {
    "smac": Peer("smac", "smac", "smac", "SMAC3: random forest, log EI (HyperparameterOptimizationFacade)"),
    "smac-gp": Peer("smac", "smac", "smac", "SMAC3: Gaussian process (BlackBoxFacade)", {"facade": "blackbox"}),
    "bore": Peer("syne_tune", "syne_tune", "syne-tune", "Syne Tune's BORE with a random forest", {"classifier": "rf"}),
    "bore-xgboost": Peer("syne_tune", "syne_tune", "syne-tune", "Syne Tune's BORE with XGBoost, its default"),
    "hyperopt": Peer("hyperopt", "hyperopt", "hyperopt", "hyperopt's tree of Parzen estimators"),
    "nevergrad": Peer("nevergrad", "nevergrad", "nevergrad", "Nevergrad's NGOpt, which picks an algorithm"),
    "ax": Peer("ax", "ax", "ax-platform", "Ax: Sobol, then BoTorch's Gaussian process and log noisy EI"),
    "hebo": Peer("hebo", "hebo", "HEBO", "HEBO: warped Gaussian process, three acquisitions at once"),
}


def folder() -> Path:
    """Where the peers' environments are."""
    return Path(os.environ.get("BOGGN_PEERS", ".venv-peers"))


@functools.cache
def python_of(name: str) -> Path | None:
    """The interpreter that can run a peer, or None if it is installed nowhere."""
    peer = PEERS[name]
    if importlib.util.find_spec(peer.module) is not None:
        return Path(sys.executable)
    own = folder().absolute() / peer.install.lower() / "bin" / "python"
    return own if own.exists() and next(own.parents[1].glob(f"lib/python*/site-packages/{peer.module}"), None) else None
