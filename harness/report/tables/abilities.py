"""Tables of Bradley-Terry scores: one row per player, one column per criterion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from openended.harness.core import HUMAN, parse_signature
from openended.harness.report.tables.best_cells import mark_best_cells
from openended.harness.report.tables.run_summary import RATED
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Results, SystemValue

METRIC = "bradley_terry"
Z = 1.959964  # 97.5 % quantile of the standard normal
REMARK = (
    "Bradley-Terry scores, mean 0 over the players of a criterion; with a score difference d the better player is "
    "preferred with probability 1 / (1 + exp(−d)). Intervals from standard errors (observed information)."
)


def build_ability_tables(results: Results) -> list[Table]:
    """Build a table of players × criteria per set of comparisons, sorted by the first criterion."""
    sets: dict[tuple[str, tuple[tuple[str, str], ...]], list[SystemValue]] = {}
    for item in results.values:
        # Only runs on judgments alone have the scores of all players.
        alone = item.axes.get("decoder") == RATED
        if alone and item.metric == METRIC and item.system == "model" and item.key != METRIC:
            sets.setdefault((item.signature, tuple(sorted(item.axes.items()))), []).append(item)
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

    players = sorted(players, key=lambda player: (player == HUMAN, players.index(player)))
    systems = len(players) - (HUMAN in players)
    columns: list[tuple[Column, dict[str, Cell]]] = []
    for criterion, by_player in scores.items():
        title = criterion.replace("_", " ") or "preferred"
        column = Column(METRIC, criterion, title, "higher", 2, items[0].signature, interval=True)
        cells = [_make_cell(by_player.get(player), criterion) for player in players]
        column, marked = mark_best_cells(column, cells[:systems])
        columns.append((column, dict(zip(players, [*marked, *cells[systems:]], strict=True))))
    rows = [
        TableRow(player, "human" if player == HUMAN else "model", tuple(cells[player] for _, cells in columns))
        for player in sorted(players, key=rank)
    ]
    who = parse_signature(items[0].signature).get("raters", "people")
    title = f"Preferred by {who} ({items[0].axes.get('task', 'comparisons')})"
    notes = dict.fromkeys(item.note for item in items if item.note)  # how many comparisons, and which were left out
    heads = tuple(column for column, _ in columns)
    return Table(name, title, heads, tuple(rows), (*notes, REMARK), head="Player", show_seeds=False)


def _make_cell(item: SystemValue | None, criterion: str) -> Cell:
    if item is None:
        return Cell(note=f"No comparisons for the criterion {criterion}.")
    around = (item.mean - Z * item.error, item.mean + Z * item.error) if math.isfinite(item.error) else None
    return Cell(item.mean, n=1, interval=around)
