"""Tables of a hyperparameter search: best settings, parameter importance, and all trials."""

import math
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from openended.harness.report.analysis.paired import compute_student_quantile
from openended.harness.report.tables.table import BLANK, Cell, Column, Table, choose_column_decimals
from openended.harness.results import SearchResult, SearchTrial
from openended.harness.storage import read_record

SHOWN = 5  # rows of the table of best settings with one objective
_BIASED = (
    "The value of the best of many settings is biased upward by the selection. Use confirm_seeds=[…] to run fresh "
    "seeds."
)
_NUMBER = re.compile(r"[+-]?\d*\.?\d+(e[+-]?\d+)?")
_NEIGHBORS = "Settings that agree to two digits are one, shown by its best trial."
_IMPORTANCE = (
    "Share of each parameter in reaching the best tenth of the objective, by PED-ANOVA (Watanabe et al. 2023); "
    "conditional for parameters of one choice. Rough with few trials."
)


def build_search_tables(searched: SearchResult) -> list[Table]:
    """Build the tables of a search: best settings (Pareto front for several objectives), importance, all trials."""
    several = len(searched.objectives) > 1
    ranked = searched.front() if several else searched.rank_trials()
    distinct: dict[tuple[str, ...], SearchTrial] = {}
    for trial in ranked:  # trials whose settings agree when numbers are rounded to two digits are one setting
        values = trial.setting.values()
        distinct.setdefault(tuple(f"{float(v):.2g}" if _NUMBER.fullmatch(v) else v for v in values), trial)
    best = list(distinct.values())[: None if several else SHOWN]
    states = [t.state for t in searched.trials]
    counts = {state: states.count(state) for state in ("complete", "pruned", "failed") if state in states}
    listed = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
    remarks = [f"Trials: {listed}; sampler {searched.sampler}."]
    if len(distinct) < len(ranked):
        remarks.append(_NEIGHBORS)
    if searched.rungs:
        sizes = ", ".join(map(str, searched.rungs))
        remarks.append(f"Successive halving: settings ran with num_examples {sizes} first; pruned ones stopped there.")
    if any(t.fresh for t in searched.trials):
        remarks.append("Fresh seeds were not used for selection, so their mean has no selection bias.")
    elif searched.complete:
        remarks.append(_BIASED)
    failed = next((t for t in searched.trials if t.state == "failed"), None)
    remarks += [f"First failure: {failed.label}: {failed.error}."] if failed is not None else []
    title = f"{'Pareto front' if several else 'Best settings'} of {searched.name}"
    every = [f"{state}: {count}" for state, count in counts.items()]
    return [
        _build_settings_table("search-best", title, searched, best, remarks),
        *([_build_importance_table(searched)] if any(searched.importance) else []),
        _build_settings_table("search-trials", f"Trials of {searched.name}", searched, searched.trials, every),
    ]


def _build_settings_table(
    name: str, title: str, searched: SearchResult, trials: Sequence[SearchTrial], remarks: Sequence[str]
) -> Table:
    """Build a table with one row per trial: mean and Student's interval per objective, also for fresh seeds."""
    columns = [(Column("", "trial", "trial", "none", 0), [Cell(t.number, decimals=0) for t in trials])]
    if any(t.state != "complete" for t in trials):
        words = [t.state if t.size is None else f"{t.state} at {t.size}" for t in trials]
        columns.append((Column("", "state", "state"), [Cell(words=text) for text in words]))
    for at, objective in enumerate(searched.objectives):
        direction = "higher" if objective.direction == "maximize" else "lower"
        seeds = [[v[at] for v in t.seeds.values()] for t in trials]
        missing = [Cell(note=t.error) if t.error else BLANK for t in trials]
        means = [t.values[at] if t.values else math.nan for t in trials]
        columns += _build_mean_columns(objective.title, direction, means, seeds, missing, "95 % over seeds")
        intervals = [_read_interval(trial, objective.title) for trial in trials]
        if any(cell.words for cell in intervals):
            columns.append((Column("", f"{objective.title}: texts", "95 % over texts"), intervals))
        fresh = [[v[at] for v in t.fresh.values()] for t in trials]
        if any(fresh):
            means = [math.fsum(f) / len(f) if f else math.nan for f in fresh]
            heading = f"{objective.title}, fresh seeds"
            columns += _build_mean_columns(heading, direction, means, fresh, [BLANK] * len(trials), "95 %, fresh seeds")
    return Table.from_columns(name, title, [t.label for t in trials], columns, remarks, head="Setting")


def _read_interval(trial: SearchTrial, key: str) -> Cell:
    """Return the interval over examples of a trial with one seed, from the record of its run."""
    if len(trial.runs) != 1 or not (folder := Path(trial.runs[0])).is_dir():
        return BLANK
    rows = (row for row in read_record(folder).results if row.system == "model")
    ends = next((row.intervals[key] for row in rows if key in row.intervals), None)
    if ends is None:
        return BLANK
    digits = choose_column_decimals([Cell(ends["low"]), Cell(ends["high"])])
    return Cell(words=f"{ends['low']:.{digits}f} to {ends['high']:.{digits}f}")


def _build_mean_columns(
    title: str, direction: str, means: Sequence[float], seeds: Sequence[Sequence[float]], missing: Sequence[Cell],
    interval: str,
) -> Iterator[tuple[Column, list[Cell]]]:  # fmt: skip
    """Yield the column of the means and, where some trial has several seeds, that of their intervals."""
    stds = [statistics.stdev(values) if len(values) > 1 else math.nan for values in seeds]
    cells = [
        Cell(mean, std, len(values)) if math.isfinite(mean) else empty
        for mean, std, values, empty in zip(means, stds, seeds, missing, strict=True)
    ]
    digits = choose_column_decimals(cells)
    yield Column("", title, title, direction, digits), cells
    if any(len(values) > 1 for values in seeds):
        yield Column("", f"{title}: interval", interval), [format_interval(cell, digits) for cell in cells]


def format_interval(cell: Cell, digits: int) -> Cell:
    """Return the cell with Student's interval of a mean over seeds."""
    if not math.isfinite(cell.sd):
        return BLANK
    half = compute_student_quantile(cell.n - 1) * cell.sd / math.sqrt(cell.n)
    return Cell(words=f"{cell.value - half:.{digits}f} to {cell.value + half:.{digits}f}")


def _build_importance_table(searched: SearchResult) -> Table:
    totals: Counter[str] = Counter()
    for shares in searched.importance:
        totals.update(shares)
    names = sorted(totals, key=lambda name: (-totals[name], name))
    columns = [
        (Column("", o.title, o.title, "none", 2), [Cell(shares[n]) if n in shares else BLANK for n in names])
        for o, shares in zip(searched.objectives, searched.importance, strict=True)
    ]
    return Table.from_columns(
        "search-importance", "Importance of the parameters", names, columns, [_IMPORTANCE], head="Parameter"
    )
