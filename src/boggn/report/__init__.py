"""One HTML page that shows a study: what happened, what the model learned of it, and what it expects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from boggn.errors import ConfigurationError

if TYPE_CHECKING:
    from os import PathLike

    from optuna.study import Study


def report(study: Study, path: str | PathLike[str]) -> Path:
    """Write a report of the study to one file, which needs no network and no other file, and return its path.

    It works for a study of any sampler with one objective, also while the study runs. The model is that of the study's
    sampler if it is one of ours, else the default one, fitted anew; what was recorded at the time is shown as it was.
    """
    from boggn.report.page import html

    target = Path(path)
    if not target.parent.is_dir() or target.is_dir():
        raise ConfigurationError.invalid("path", str(path), "a file in a folder that exists")
    target.write_text(html(study), encoding="utf-8")
    return target
