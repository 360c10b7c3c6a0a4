r"""The script that runs one adapter in a peer's own environment: standard library only, JSON lines in and out.

    python serve.py <adapter>

The first line of standard input says `space`, `seed`, `evals`, `noisy` and `options`; each later one `ask`, `tell` or
`usage`. Each is answered by one line. Whatever the peer itself prints goes to standard error.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import random
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    """Answer until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # a peer that prints would break the line protocol
    here = Path(__file__).resolve().parent  # Python puts it first, where adapters would hide the packages they adapt
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    server = _Server(sys.argv[1])
    for line in sys.stdin:
        try:
            answer = server.answer(json.loads(line))
        except Exception:  # noqa: BLE001 - whatever a peer raises is its result
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer, default=_plain), file=answers, flush=True)


class _Server:
    def __init__(self, name: str) -> None:
        self.name = name
        self.adapter: Any = None
        self.began = 0.0

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        if "space" in question:
            return self._begin(question)
        if "tell" in question:
            self.adapter.tell(*question["tell"])
            return {}
        if "ask" in question:
            return {"params": self.adapter.ask()}
        return {"cpu_seconds": time.process_time() - self.began, "peak_bytes": _resources().peak_bytes()}

    def _begin(self, question: dict[str, Any]) -> dict[str, Any]:
        # Peers draw from the global streams as well as from their own.
        random.seed(question["seed"])
        module = _load(Path(__file__).parent / f"{self.name}.py")
        self.adapter = module.Adapter(**question)
        self.began = time.process_time()
        return {"versions": {package: importlib.metadata.version(package) for package in module.PACKAGES}}


def _resources() -> Any:
    """How the runner measures memory, which asks of it no more than this script may use."""
    return _load(Path(__file__).parents[1] / "resources.py")


def _load(path: Path) -> Any:
    """A module under a name of its own: an adapter is called like the package it imports."""
    spec = importlib.util.spec_from_file_location(f"boggn_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"There is no module {str(path)!r}.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _plain(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    return value.item()


def _leave_with_parent(parent: int) -> None:
    """A runner that is killed cannot say goodbye: its peers leave by themselves, even in the middle of a long ask."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    main()
