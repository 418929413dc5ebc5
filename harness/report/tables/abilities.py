"""Tables of Bradley-Terry scores: one row per player, one column per criterion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from openended.harness.core import HUMAN, parse_signature
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.run_summary import RATED
from openended.harness.report.tables.table import Cell, Column, Table
from openended.harness.results import Results, SystemValue, group_by

METRIC = "bradley_terry"
Z = 1.959964  # 97.5 % quantile of the standard normal
REMARK = (
    "Bradley-Terry scores, mean 0 over the players of a criterion; with a score difference d the better player is "
    "preferred with probability 1 / (1 + exp(−d{})). Intervals from standard errors (observed information)."
)


def build_ability_tables(results: Results) -> list[Table]:
    """Build a table of players × criteria per set of comparisons, sorted by the first criterion."""
    # Only runs on judgments alone have the scores of all players.
    rated = (i for i in results.values if i.system == "model" and i.axes.get("decoder") == RATED)
    scores = (i for i in rated if i.metric == METRIC and i.key != METRIC)
    sets = group_by(scores, lambda item: (item.signature, tuple(sorted(item.axes.items()))))
    many = len(sets) > 1
    return [_build_table(items, f"abilities-{i}" if many else "abilities") for i, items in enumerate(sets.values(), 1)]


def drop_abilities(results: Results) -> Results | None:
    """Return the results without those that ability tables show; None if no value of a system is left."""
    frame = results.frame
    frame = frame[(frame["metric"] != METRIC) | (frame["decoder"] != RATED)]
    return replace(results, frame=frame) if (frame["system"] == "model").any() else None


def _build_table(items: Sequence[SystemValue], name: str) -> Table:
    scores: dict[str, dict[str, SystemValue]] = {}  # criterion → player; without criteria the key is the player
    for item in items:
        criterion, slash, player = item.key.partition("/")
        scores.setdefault(criterion if slash else "", {})[player if slash else item.key] = item
    players = list(dict.fromkeys(player for by_player in scores.values() for player in by_player))

    def rank(player: str) -> tuple[float, str]:
        return next(-by_player[player].mean for by_player in scores.values() if player in by_player), player

    ranked = sorted(players, key=rank)
    players.sort(key=HUMAN.__eq__)
    systems = len(players) - (HUMAN in players)
    columns: list[tuple[Column, list[Cell]]] = []
    for criterion, by_player in scores.items():
        title = criterion.replace("_", " ") or "preferred"
        column = Column(METRIC, criterion, title, "higher", 2, items[0].signature, interval=True)
        cells = [_make_cell(by_player.get(player), criterion) for player in players]
        column, marked = mark_best_cells(column, cells[:systems])
        by_name = dict(zip(players, [*marked, *cells[systems:]], strict=True))
        columns.append((column, [by_name[player] for player in ranked]))
    who = parse_signature(items[0].signature).get("raters", "people")
    scale = parse_signature(items[0].signature).get("display_scale", "1").removesuffix(".0")
    title = f"Preferred by {who} ({items[0].axes.get('task', 'comparisons')})"
    notes = dict.fromkeys(item.note for item in items if item.note)  # how many comparisons, and which were left out
    kinds = ["human" if player == HUMAN else "model" for player in ranked]
    remarks = (*notes, REMARK.format(f" / {scale}" if scale != "1" else ""))
    return Table.from_columns(name, title, ranked, columns, remarks, kinds=kinds, head="Player")


def _make_cell(item: SystemValue | None, criterion: str) -> Cell:
    if item is None:
        return Cell(note=f"No comparisons for the criterion {criterion}.")
    around = (item.mean - Z * item.error, item.mean + Z * item.error) if math.isfinite(item.error) else None
    return Cell(item.mean, n=1, interval=around)
