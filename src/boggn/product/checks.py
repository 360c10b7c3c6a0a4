"""What no single key of a study file can know: whether the keys fit together, and the machine."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from importlib.machinery import PathFinder

from boggn.errors import StudyError
from boggn.product.placeholders import BUILT_IN, unknown_in, used_in
from boggn.product.plan import Plan
from boggn.product.study import check_objectives, make_pruner, make_sampler, open_study

Key = tuple[str | int, ...]
Complaints = Iterator[tuple[Key, str]]
_FOR_A_SHELL = re.compile(r"\|\|?|&&?|;|\d?>>?\S*|<\S*|\S*\$\{?[A-Za-z_]\S*")
"""Words of a command that name a pipe, an end, a file to read or write, or a variable."""


def complaints(plan: Plan) -> Complaints:
    """Each key that is wrong, and what to do about it."""
    yield from _about_study(plan)
    yield from _about_objective(plan)
    yield from _about_result(plan)
    yield from _about_options(plan)


def _about_study(plan: Plan) -> Complaints:
    table, budget, several = plan.file.study, plan.file.budget, len(plan.directions) > 1
    if table.direction and table.directions:
        yield ("study", "directions"), "`direction` is for one objective, `directions` for several: leave one out."
    if budget.trials is None and budget.time is None and budget.regret is None:
        yield ("budget",), "`budget` needs `trials`, `time` or `regret`: without one the study never ends."
    if several and budget.regret is not None:
        yield ("budget", "regret"), "`budget.regret` is for one objective, but the study has several: leave it out."
    if several and plan.file.pruner.name != "none":
        yield ("pruner",), "`pruner` is for one objective, but the study has several: leave it out."
    if len(plan.files) > 1:
        there = " and ".join(path.name for path in plan.files)
        yield ("study", "storage"), f"there are {there}: say with `study.storage` which of them has the study."
    if table.storage is not None and ":memory:" in table.storage:
        yield ("study", "storage"), "`study.storage` in memory is lost with each process: give a file or an address."
    for name in plan.space:
        if name in BUILT_IN:
            yield ("space", name), f"{{{name}}} stands for {BUILT_IN[name]}: give the parameter another name."


def _about_objective(plan: Plan) -> Complaints:
    table = plan.file.objective
    if (table.command is None) == (table.function is None):
        both = " and not both" if table.command else ""
        yield ("objective",), f"`objective` needs either `command` or `function`{both}."
        return
    if table.function is not None:
        yield from _about_function(plan, table.function)
        words: list[str] = []
    else:
        yield from _about_command(plan)
        words = [table.command] if isinstance(table.command, str) else list(table.command or ())
    places: list[tuple[Key, str]] = [(("objective", "command"), word) for word in words]
    places += [(("objective", "env", name), value) for name, value in table.env.items()]
    known, names = ", ".join(sorted(plan.space)), [*plan.space, *BUILT_IN]
    for key, text in places:
        for name in unknown_in(text, names):
            remedy = f"the parameters are {known}; a literal one is written {{{{{name}}}}}"
            yield key, f"`{'.'.join(map(str, key))}` has {{{name}}}, which is no parameter: {remedy}."


def _about_command(plan: Plan) -> Complaints:
    table = plan.file.objective
    if table.shell and not isinstance(table.command, str):
        yield ("objective", "shell"), "`objective.shell` needs `objective.command` to be one text, not a list."
        return
    try:
        words = plan.words
    except ValueError as error:
        yield ("objective", "command"), f"`objective.command` cannot be split into words: {str(error).lower()}."
        return
    if not words:
        yield ("objective", "command"), "`objective.command` is empty: write the command that prints the value."
    elif not used_in(words[0], [*plan.space, *BUILT_IN]) and shutil.which(words[0]) is None:
        remedy = "it must be on the PATH, or a file here with ./ before its name and the right to be run"
        yield ("objective", "command"), f"the command {words[0]!r} was not found: {remedy}."
    elif isinstance(table.command, str) and not table.shell:
        for word in filter(_FOR_A_SHELL.fullmatch, words):
            remedy = "set `objective.shell = true`, or give a list of words if it is meant literally"
            yield ("objective", "command"), f"`objective.command` has {word!r}, which needs a shell: {remedy}."


def _about_function(plan: Plan, function: str) -> Complaints:
    module = function.partition(":")[0].partition(".")[0]
    if PathFinder.find_spec(module, [str(plan.base)]) is None and importlib.util.find_spec(module) is None:
        places = f"neither in {plan.base} nor among what is installed"
        yield ("objective", "function"), f"the module {module!r} was found {places}."


def _about_result(plan: Plan) -> Complaints:
    result, count = plan.file.result, len(plan.directions)
    if result.pattern is not None:
        groups = re.compile(result.pattern).groups
        if result.read != "regex":
            yield ("result", "pattern"), "`result.pattern` is used only where `result.read` is 'regex'."
        elif groups != count:
            yield ("result", "pattern"), f"`result.pattern` has {groups} groups, but needs one per objective: {count}."
    elif result.read == "regex":
        yield ("result", "read"), "`result.read` is 'regex', so `result.pattern` is needed."
    keys = 1 if isinstance(result.key, str) else len(result.key)
    if result.read == "json" and keys != count:
        yield ("result", "key"), f"`result.key` names {keys} values, but needs one per objective: {count}."
    if not {"step", "value"} <= re.compile(result.intermediate).groupindex.keys():
        yield ("result", "intermediate"), "`result.intermediate` needs the groups (?P<step>…) and (?P<value>…)."
    for name, pattern in result.metrics.items():
        if re.compile(pattern).groups != 1:
            yield ("result", "metrics", name), f"`result.metrics.{name}` needs exactly one (group)."


def _about_options(plan: Plan) -> Complaints:
    sampler, pruner = plan.file.sampler, plan.file.pruner
    if "seed" in (sampler.model_extra or {}):
        yield ("sampler", "seed"), "`seed` stands in [study]: there it is for all workers."
        return
    try:
        made = make_sampler(sampler.name, sampler.model_extra or {}, plan.space, 0)
        check_objectives(made, open_study(None, None, plan.directions, plan.space))
    except StudyError as error:
        yield ("study", "directions"), f'{error} Here that is [sampler] name = "nsgaii".'
    except (TypeError, ValueError) as error:
        yield ("sampler", *_named(error, sampler.model_extra)), f"`sampler` is not set right: {error}"
    try:
        make_pruner(pruner.name, pruner.model_extra or {})
    except (TypeError, ValueError) as error:
        yield ("pruner", *_named(error, pruner.model_extra)), f"`pruner` is not set right: {error}"


def _named(error: Exception, options: dict[str, object] | None) -> tuple[str, ...]:
    """The option that a message speaks of."""
    return next(((name,) for name in options or {} if f"`{name}`" in str(error) or f"'{name}'" in str(error)), ())
