"""Summarize a finished search: write its results into the grid's folder and print them."""

from __future__ import annotations

import logging
from pathlib import Path

from omegaconf import DictConfig

from openended.harness.app.hydra.job_output import read_detail
from openended.harness.app.hydra.search.study import CHOSEN, ERROR, MADE, StudyRunner
from openended.harness.results import SearchObjective, SearchResult, SearchTrial, save_search

log = logging.getLogger(__name__)


def summarize_study(searching: StudyRunner) -> SearchResult:
    """Return the trials, values and parameter importance of a study."""
    plan = searching.plan
    sought = tuple(SearchObjective(objective.title, objective.direction) for objective in plan.objectives)
    trials = []
    for frozen in searching.study.get_trials(deepcopy=False):
        if not frozen.state.is_finished():
            continue
        attrs = frozen.user_attrs
        state = {"COMPLETE": "complete", "PRUNED": "pruned"}.get(frozen.state.name, "failed")
        rung = len(frozen.intermediate_values) - 1
        values = attrs.get(MADE) or {}
        trials.append(
            SearchTrial(
                frozen.number, state, dict(attrs.get(CHOSEN) or {}), tuple(frozen.values or ()),
                {k: tuple(v) for k, v in (values.get("seeds") or {}).items()},
                searching.fresh(frozen.number),
                plan.rungs[rung] if state == "pruned" and 0 <= rung < len(plan.rungs) else None,
                str(attrs.get(ERROR) or ""), tuple(values.get("runs") or ()),
            )
        )  # fmt: skip
    shares = tuple(searching.importance(index) for index in range(len(sought)))
    return SearchResult(plan.name, plan.method, sought, tuple(trials), shares, plan.rungs)


def write_search(grid: Path, searched: SearchResult, config: DictConfig) -> None:
    """Write tables and figures of a search into its grid's folder, and print what it found."""
    from openended.harness.report import (
        apply_style,
        build_search_tables,
        make_console,
        print_table,
        save,
        search_figures,
        write_table,
    )

    save_search(grid, searched)
    tables = build_search_tables(searched)
    for table in tables:
        write_table(table, grid / "tables")
    with apply_style():
        for name, figure in search_figures(searched).items():
            save(figure, grid / "figures", name)
    if read_detail(config.hydra) != "quiet":
        out = make_console()
        for table in tables[:-1]:  # the last is every trial
            print_table(table, out)
            out.print()
    log.info("search     tables and figures in %s", grid)
