r"""A peer in a process of its own, as the runner sees it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from boggn.bench.peers import PEERS, folder, python_of
from boggn.bench.resources import Usage
from boggn.bench.task import Params, Task
from boggn.errors import MissingPackageError, StudyError

_ROUNDING = 1e-9
"""Of a range: a value that far out of bounds is exp(log(bound)), and is put on the bound."""


class PeerError(RuntimeError):
    """A peer failed; the message ends as its own error does."""


class PeerOptimiser:
    """An optimiser whose `ask` and `tell` are answered by `serve.py` in the peer's environment."""

    def __init__(self, name: str, task: Task, seed: int, evals: int, options: Mapping[str, Any]) -> None:
        peer = PEERS[name]
        python = python_of(name)
        if python is None:
            remedy = f"pip install {peer.install}, or make peers, in {folder()}"
            raise MissingPackageError(f"Peer {name!r} is absent: its package is in no environment ({remedy}).")
        self._task = task
        self._asked: Params | None = None
        self._answer: Params = {}
        self._directory = tempfile.TemporaryDirectory(prefix="boggn-peer-")
        self._errors = Path(self._directory.name) / "errors.txt"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own script, by an interpreter we found
                [str(python), str(Path(__file__).with_name("serve.py")), peer.adapter],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=self._directory.name,  # where peers may leave files
                env=_environment(),
                text=True,
            )
        hello = {"seed": seed, "evals": evals, "noisy": task.noisy, "options": {**peer.options, **options}}
        try:
            self._versions = self._ask({"space": encode_space(task), **hello})["versions"]
        except BaseException:
            self.close()
            raise

    def ask(self) -> Params:
        """The point to evaluate next; parameters the peer gives although they are not active are left out."""
        answer = self._ask({"ask": True})["params"]
        params: dict[str, Any] = {}
        for name, distribution in self._task.space.items():
            if self._task.is_active(name, params) and name in answer:
                params[name] = _decode(distribution, answer[name])
        self._asked, self._answer = params, answer
        return params

    def tell(self, params: Params, value: float) -> None:
        """The peer hears its own point back, with the parameters that were left out."""
        point = (
            self._answer if params == self._asked else {k: _encode(self._task.space[k], v) for k, v in params.items()}
        )
        self._ask({"tell": [point, value]})

    def usage(self) -> Usage:
        """Of the peer's process."""
        return Usage(**self._ask({"usage": True}))

    def versions(self) -> Mapping[str, str]:
        """Of the peer's packages."""
        found: dict[str, str] = self._versions
        return found

    def close(self) -> None:
        """End the process; it leaves when its input ends, and is killed if it does not."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):  # it ended before us
                    stream.close()
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._directory.cleanup()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._process.stdin is None or self._process.stdout is None:
            raise PeerError("The peer's process has no pipes.")
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            said = self._errors.read_text(errors="replace").strip()[-2000:]
            raise PeerError(f"The peer's process ended with exit code {self._process.wait()}.\n{said}".strip())
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"].strip())
        return answer


def _environment() -> dict[str, str]:
    """Nothing of our Python's; the same order of sets in every process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONHASHSEED": "0", "MPLBACKEND": "agg"}


def encode_space(task: Task) -> dict[str, dict[str, Any]]:
    """The space as JSON: categories by their number, so that a peer can neither order nor misread them."""
    encoded: dict[str, dict[str, Any]] = {}
    for name, distribution in task.space.items():
        match distribution:
            case CategoricalDistribution():
                encoded[name] = {"kind": "categorical", "count": len(distribution.choices)}
            case FloatDistribution(step=None):
                encoded[name] = {"kind": "float", **_range(distribution)}
            case IntDistribution(step=1):
                encoded[name] = {"kind": "int", **_range(distribution)}
            case _:
                raise StudyError(f"Peers take no stepped parameters, such as {name!r}: {distribution}.")
        if name in task.conditions:
            parent, values = task.conditions[name]
            encoded[name]["parent"] = [parent, [_encode(task.space[parent], value) for value in values]]
    return encoded


def _range(distribution: FloatDistribution | IntDistribution) -> dict[str, Any]:
    return {"low": distribution.low, "high": distribution.high, "log": distribution.log}


def _encode(distribution: BaseDistribution, value: Any) -> Any:
    return distribution.choices.index(value) if isinstance(distribution, CategoricalDistribution) else value


def _decode(distribution: BaseDistribution, value: Any) -> Any:
    match distribution:
        case CategoricalDistribution():
            return distribution.choices[value]
        case FloatDistribution(low=low, high=high):
            nearest = min(max(value, low), high)
            return nearest if abs(nearest - value) <= _ROUNDING * (high - low) else value
    return value
