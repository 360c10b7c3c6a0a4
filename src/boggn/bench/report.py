r"""Tables of finished runs.

Two regrets are told apart. That of the *best point evaluated* so far is the paper's immediate regret (PAPER.md 10).
Where observations are noisy nobody knows which point that is, so there the regret of the *recommended* point counts
too: the one with the best observed value, and, for methods with a model, the one with the best posterior mean.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from boggn.bench import document, results, tasks, verdict
from boggn.bench.document import Section, Table
from boggn.bench.rows import Row

Cell = tuple[str, str]  # task, method
Regret = Callable[[Row, int], float | None]  # of a run after so many evaluations; None where it was not recorded


def best_evaluated(row: Row, count: int) -> float | None:
    """The paper's immediate regret: of the truly best point met so far."""
    return float(min(row["regrets"][:count]))


def best_observed(row: Row, count: int) -> float | None:
    """Of the point whose noisy value is the smallest so far."""
    return float(row["regrets"][int(np.argmin(row["values"][:count]))])


def best_posterior_mean(row: Row, count: int) -> float | None:
    """Of the point that the method's own model recommended."""
    number = row["recommended"].get(str(count))
    return None if number is None else float(row["regrets"][number])


def best_recommended(row: Row, count: int) -> float | None:
    """By the posterior mean if the method has one, else by the observed value."""
    return best_posterior_mean(row, count) if row["recommended"] else best_observed(row, count)


RECOMMENDATIONS: dict[str, Regret] = {"observed value": best_observed, "posterior mean": best_posterior_mean}


def markdown(rows: Iterable[Row], checkpoints: Sequence[int], reference: str | None = None) -> str:
    """The whole report as Markdown."""
    return document.markdown(sections(list(rows), checkpoints, reference))


def sections(rows: Sequence[Row], checkpoints: Sequence[int], reference: str | None = None) -> list[Section]:
    """Verdict first, then all tables, those of runs of different lengths apart; then what a reader must know."""
    finished = [row for row in rows if row["error"] is None]
    parts = verdict.sections(results.collect(rows), checkpoints, reference)
    for evals in sorted({row["evals"] for row in finished}, reverse=True):
        group = _by_cell(row for row in finished if row["evals"] == evals)
        counts = sorted({count for count in checkpoints if count < evals} | {evals})
        below: list[str | Table] = [*_overview(group, counts), _spread(group, counts, _EVALUATED)]
        noisy = {cell: runs for cell, runs in group.items() if tasks.is_noisy(cell[0])}
        if noisy:
            below += ["Regret of the recommended point.", _spread(noisy, counts, RECOMMENDATIONS)]
        if reference is not None:
            below += _against(group, noisy, counts, reference)
        parts.append(Section(f"Regret, runs of {evals} evaluations", below))
    return [*parts, Section("Cost", _cost(finished)), Section("Notes", list(_notes(rows)))]


_EVALUATED: dict[str, Regret] = {"evaluated": best_evaluated}


def _by_cell(rows: Iterable[Row]) -> dict[Cell, list[Row]]:
    cells: dict[Cell, list[Row]] = defaultdict(list)
    for row in rows:
        cells[row["task"], row["method"]].append(row)
    return dict(cells)


def _regrets(runs: list[Row], count: int, regret: Regret) -> list[float]:
    return [value for row in runs if (value := regret(row, count)) is not None]


def _number(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def _overview(group: dict[Cell, list[Row]], counts: list[int]) -> list[str | Table]:
    names = list(dict.fromkeys(method for _, method in group))
    lines = []
    for task in dict.fromkeys(task for task, _ in group):
        line = [task]
        for method in names:
            runs = group.get((task, method), [])
            medians = [_number(float(np.median(_regrets(runs, count, best_evaluated)))) for count in counts if runs]
            line.append(" / ".join(medians) or "-")
        lines.append(line)
    title = f"Median regret of the best point evaluated, after {' / '.join(map(str, counts))} evaluations."
    return [title, Table.of(["task", *names], lines)]


def _spread(group: dict[Cell, list[Row]], counts: list[int], regrets: dict[str, Regret]) -> Table:
    """Median and quartiles, one line per task, method and kind of regret."""
    lines = []
    for (task, method), runs in sorted(group.items(), key=lambda item: _position(group, item[0])):
        for kind, regret in regrets.items():
            samples = [_regrets(runs, count, regret) for count in counts]
            if not any(samples):
                continue
            cells = [_quartiles(sample) for sample in samples]
            lines.append([task, method, kind, str(max(map(len, samples))), *cells])
    return Table.of(["task", "method", "best by", "runs", *(f"@{count}" for count in counts)], lines)


def _position(group: dict[Cell, list[Row]], cell: Cell) -> tuple[int, int]:
    """Tasks together, in order of appearance."""
    return list(dict.fromkeys(task for task, _ in group)).index(cell[0]), list(group).index(cell)


def _quartiles(sample: list[float]) -> str:
    if not sample:
        return "-"
    low, median, high = np.quantile(sample, [0.25, 0.5, 0.75])
    return f"{_number(median)} [{_number(low)}, {_number(high)}]"


def _against(
    group: dict[Cell, list[Row]], noisy: dict[Cell, list[Row]], counts: list[int], reference: str
) -> list[str | Table]:
    """On how many tasks each method's median is lower than, equal to, higher than that of the reference."""
    lines = []
    names = [method for method in dict.fromkeys(method for _, method in group) if method != reference]
    for method in names:
        for kind, cells, regret in [("evaluated", group, best_evaluated), ("recommended", noisy, best_recommended)]:
            counted = [_lower_equal_higher(cells, method, reference, count, regret) for count in counts]
            if any(map(any, counted)):
                lines.append([method, kind, *(" / ".join(map(str, triple)) for triple in counted)])
    title = f"Tasks on which the median is lower / equal / higher than that of {reference}."
    return [title, Table.of(["method", "best", *(f"@{count}" for count in counts)], lines)]


def _lower_equal_higher(
    cells: dict[Cell, list[Row]], method: str, reference: str, count: int, regret: Regret
) -> tuple[int, int, int]:
    lower = equal = higher = 0
    for task in {task for task, _ in cells}:
        ours = _regrets(cells.get((task, method), []), count, regret)
        theirs = _regrets(cells.get((task, reference), []), count, regret)
        if not ours or not theirs:
            continue
        difference = float(np.median(ours) - np.median(theirs))
        lower, equal, higher = lower + (difference < 0), equal + (difference == 0), higher + (difference > 0)
    return lower, equal, higher


def _cost(rows: list[Row]) -> list[str | Table]:
    lines = []
    for method in dict.fromkeys(row["method"] for row in rows):
        runs = [row for row in rows if row["method"] == method]
        ask = np.concatenate([row["ask_seconds"] for row in runs])
        late = np.concatenate([row["ask_seconds"][len(row["ask_seconds"]) // 2 :] for row in runs])
        tell = np.concatenate([row["tell_seconds"] for row in runs])
        wall = [f"{1e3 * figure:.3g}" for figure in (ask.mean(), float(np.median(late)), tell.mean())]
        cpu = _median(1e3 * row["cpu_seconds"] / row["evals"] for row in runs if "cpu_seconds" in row)
        start = _median(row["start_seconds"] for row in runs if "start_seconds" in row)
        memory = _median(row["peak_bytes"] / 1e6 for row in runs if "peak_bytes" in row)
        again = _median(100 * row["duplicates"] / row["evals"] for row in runs if "duplicates" in row)
        lines.append([method, str(len(runs)), *wall, cpu, start, memory, again])
    head = ["method", "runs", "mean ask ms", "late median ask ms", "mean tell ms", "CPU ms per evaluation"]
    text = (
        "The mean includes imports and compilation; the late median, over second halves of runs, does not. Wall times "
    )
    text += "are those of the machine as busy as it was; CPU times tell less of that. Of the rest, medians over runs."
    return [text, Table.of([*head, "start s", "peak MB", "duplicates %"], lines)]


def _median(figures: Iterable[float]) -> str:
    found = list(figures)
    return f"{float(np.median(found)):.3g}" if found else "-"


def _notes(rows: Sequence[Row]) -> Iterator[str]:
    """What a reader must know before believing the tables."""
    finished = [row for row in rows if row["error"] is None]
    yield from _unequal_seeds(finished)
    for method in dict.fromkeys(row["method"] for row in finished):
        found = {_relevant(row) for row in finished if row["method"] == method}
        if len(found) > 1:
            yield f"Runs of several versions are mixed: {method} ({'; '.join(sorted(found))})."
    for what in ("machine", "commit"):
        where = dict.fromkeys(str(row[what]) for row in finished if row.get(what))
        if where:
            yield f"{what.capitalize()}: {'; '.join(where)}."
    for row in finished:
        if row["recommend_error"]:
            yield f"No recommendation: {_name(row)}: {row['recommend_error'].strip().splitlines()[-1]}"
    for method in dict.fromkeys(row["method"] for row in rows if row.get("absent")):
        yield f"Absent, so not compared: {method}."
    for row in rows:
        if row["error"] is not None and not row.get("absent"):
            yield f"Failed: {_name(row)}: {row['error'].strip().splitlines()[-1]}"


def _unequal_seeds(finished: list[Row]) -> Iterable[str]:
    seeds: dict[tuple[str, int], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in finished:
        seeds[row["task"], row["evals"]][row["method"]].add(row["seed"])
    for (task, evals), by_method in seeds.items():
        if len({frozenset(chosen) for chosen in by_method.values()}) > 1:
            yield f"Not the same seeds for all methods: {task}, {evals} evaluations."


def _relevant(row: Row) -> str:
    """Versions that can change the method's results: boggn's own does not change a peer's."""
    ours = row["method"].startswith("boggn")
    return ", ".join(f"{name} {text}" for name, text in row["versions"].items() if ours or name != "boggn")


def _name(row: Row) -> str:
    return f"{row['task']} {row['method']} seed {row['seed']}"
