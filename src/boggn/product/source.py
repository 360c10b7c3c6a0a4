"""Which study a command is about: that of a study file, or one in a storage by its name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, final

import optuna

from boggn.errors import StudyError
from boggn.product.plan import Plan
from boggn.product.space import Space, from_json
from boggn.product.storage import file_of, locked, open_existing, open_storage, shown
from boggn.product.study import OURS, SPACE, make_sampler, seed_of
from boggn.product.studyfile import load
from boggn.product.worker import lock_of, prepare, study_of

if TYPE_CHECKING:
    from optuna.study import Study


@final
@dataclass(frozen=True)
class Source:
    """A study with its sampler; with its plan, if it has a file."""

    study: Study
    plan: Plan | None

    @property
    def space(self) -> Space:
        """Of the study."""
        if self.plan is not None:
            return self.plan.space
        stored = self.study.user_attrs.get(SPACE)
        if stored is None:
            raise StudyError(f"The space of study {self.study.study_name!r} is not known: name its study file instead.")
        return from_json(stored)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While trials are claimed: no worker of the same file claims one in the meantime."""
        if self.plan is None or sys.platform == "win32":
            yield
            return
        with locked(lock_of(self.plan)):
            yield


def find(where: str, name: str | None, *, make: bool = False) -> Source:
    """The study of a study file, or the one of that name in a storage (the only one, if there is no name).

    With `make` that of a study file is begun if it is not there.
    """
    if where.endswith(".toml"):
        plan = load(Path(where), [] if name is None else [f"study.name={name!r}"])
        if not make and not _is_begun(plan):
            raise StudyError(f"There is no study {plan.name!r} of {where} yet: `boggn run {where}` begins it.")
        study = study_of(plan)
        prepare(study, plan)
        return Source(study, plan)
    storage = open_existing(where)
    where, names = shown(where), optuna.get_all_study_names(storage)
    chosen = names[0] if name is None and len(names) == 1 else name
    if chosen not in names or chosen is None:
        wanted = "several studies: say which with --study" if name is None and names else f"no study {name or ''}"
        raise StudyError(f"{where} has {wanted.strip()}. There are: {', '.join(map(repr, names)) or 'none'}.")
    study = optuna.load_study(storage=storage, study_name=chosen)
    source = Source(study, None)
    if SPACE in study.user_attrs:
        study.sampler = make_sampler(OURS, {}, source.space, seed_of(study, None))
    return source


def _is_begun(plan: Plan) -> bool:
    """Whether its study is in its storage; looking makes neither."""
    file = file_of(plan.storage)
    if file is not None and not file.exists():
        return False
    return plan.name in optuna.get_all_study_names(open_storage(plan.storage))
