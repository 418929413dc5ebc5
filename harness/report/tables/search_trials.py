"""Tables of a hyperparameter search: best settings, parameter importance, and all trials."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from openended.harness.report.analysis.lines import parse_number
from openended.harness.report.analysis.paired import compute_student_quantile
from openended.harness.report.tables.frame import Cell, Filled, Frame, build_frame, make_cell, make_quantity
from openended.harness.report.tables.pivot import build_tables
from openended.harness.report.tables.table import Table
from openended.harness.results import SearchResult, SearchTrial
from openended.harness.storage import read_record

SHOWN = 5  # rows of the table of best settings with one objective
_BIASED = (
    "The value of the best of many settings is biased upward by the selection. Use confirm_seeds=[…] to run fresh "
    "seeds."
)
_INTERVALS = "95 % intervals are over seeds (Student), those of settings with one seed over its texts."
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
        pairs = ((text, parse_number(text)) for text in trial.setting.values())
        distinct.setdefault(tuple(text if n is None else f"{n:.2g}" for text, n in pairs), trial)
    best = list(distinct.values())[: None if several else SHOWN]
    states = [t.state for t in searched.trials]
    counts = {state: states.count(state) for state in ("complete", "failed") if state in states}
    listed = ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"
    remarks = [f"Trials: {listed}; sampler {searched.sampler}."]
    if len(distinct) < len(ranked):
        remarks.append(_NEIGHBORS)
    if any(t.fresh for t in searched.trials):
        remarks.append("Fresh seeds were not used for selection, so their mean has no selection bias.")
    elif searched.complete:
        remarks.append(_BIASED)
    failed = next((t for t in searched.trials if t.state == "failed"), None)
    remarks += [f"First failure: {failed.label}: {failed.error}."] if failed is not None else []
    title = f"{'Pareto front' if several else 'Best settings'} of {searched.name}"
    every = [f"{state}: {count}" for state, count in counts.items()]
    frames = [_build_settings_frame("search-best", title, searched, best, remarks)]
    if any(searched.importance):
        totals = sum(map(Counter, searched.importance), Counter[str]())
        names = sorted(totals, key=lambda name: (-totals[name], name))
        columns = [
            (make_quantity("", objective.title, objective.title, "none", 2), map(shares.get, names))
            for objective, shares in zip(searched.objectives, searched.importance, strict=True)
        ]
        title, remark = "Importance of the parameters", [_IMPORTANCE]
        frames.append(build_frame("search-importance", title, names, columns, remark, head="Parameter"))
    frames.append(
        _build_settings_frame("search-trials", f"Trials of {searched.name}", searched, searched.trials, every)
    )
    return build_tables(frames)


def _build_settings_frame(
    name: str, title: str, searched: SearchResult, trials: Sequence[SearchTrial], remarks: Sequence[str]
) -> Frame:
    """Build a table with one row per trial: mean and interval of each objective, also over fresh seeds."""
    columns: list[Filled] = [(make_quantity("", "trial", "trial", decimals=0), [t.number for t in trials])]
    if any(t.state != "complete" for t in trials):
        columns.append(("state", [t.state for t in trials]))
    means = {}
    for at, objective in enumerate(searched.objectives):
        direction = "higher" if objective.direction == "maximize" else "lower"
        empty = (make_cell(note=t.error) if t.error else None for t in trials)
        means[objective.title, direction] = [
            build_mean_cell(t.values[at], [v[at] for v in t.seeds.values()], _read_interval(t, objective.title))
            if t.values
            else cell
            for t, cell in zip(trials, empty, strict=True)
        ]
        if any(t.fresh for t in trials):
            fresh = ([v[at] for v in t.fresh.values()] for t in trials)
            means[f"{objective.title}, fresh seeds", direction] = [
                build_mean_cell(math.fsum(values) / len(values), values) if values else None for values in fresh
            ]
    for (heading, direction), cells in means.items():
        columns.append((make_quantity("", heading, heading, direction), cells))
    has_interval = any(cell is not None and cell.interval for cells in means.values() for cell in cells)
    remarks = [*remarks, *([_INTERVALS] if has_interval else [])]
    return build_frame(name, title, [t.label for t in trials], columns, remarks, head="Setting")


def build_mean_cell(mean: float, seeds: Sequence[float], interval: tuple[float, float] | None = None) -> Cell:
    """Return the cell of a mean over seeds with Student's interval; of one seed with the given interval."""
    if len(seeds) < 2 or not math.isfinite(mean):
        return make_cell(mean, n=len(seeds), interval=interval)
    std = statistics.stdev(seeds)
    if not std > 0:  # equal values say nothing about the error
        return make_cell(mean, std, len(seeds))
    half = compute_student_quantile(len(seeds) - 1) * std / math.sqrt(len(seeds))
    return make_cell(mean, std, len(seeds), interval=(mean - half, mean + half))


def _read_interval(trial: SearchTrial, key: str) -> tuple[float, float] | None:
    """Return the interval over examples of a trial with one run, from the record of the run."""
    if len(trial.runs) != 1 or not (folder := Path(trial.runs[0])).is_dir():
        return None
    rows = (row for row in read_record(folder).results if row.system == "model")
    ends = next((row.intervals[key] for row in rows if key in row.intervals), None)
    return (ends["low"], ends["high"]) if ends is not None else None
