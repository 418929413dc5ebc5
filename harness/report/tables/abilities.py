"""What people prefer: the Bradley-Terry scores of all players of a file of comparisons, a column a criterion."""

from __future__ import annotations

import math
from collections.abc import Sequence

from openended.harness.core import parse_signature
from openended.harness.report.tables.table import Cell, Column, Table, TableRow
from openended.harness.results import Folded, Results, fold_seeds

METRIC = "bradley_terry"
Z = 1.959964  # standard normal: 95 % within
REMARK = (
    "Bradley-Terry scores, mean 0 over the players of a criterion; a score difference d says that the better one is "
    "preferred with probability 1 / (1 + exp(−d)). Intervals by standard errors (observed information)."
)


def ability_tables(results: Results) -> list[Table]:
    """Build a table of players × criteria for every set of comparisons, best player of the first criterion first."""
    sets: dict[tuple[str, tuple[tuple[str, str], ...]], list[Folded]] = {}
    for item in fold_seeds(results):
        # A run of a system under test has that system's scores alone.
        alone = item.axes.get("decoder") == "rated"
        if alone and item.metric == METRIC and item.system == "model" and item.key != METRIC:
            sets.setdefault((item.signature, tuple(sorted(item.axes.items()))), []).append(item)
    many = len(sets) > 1
    return [_table(items, f"abilities-{i}" if many else "abilities") for i, items in enumerate(sets.values(), 1)]


def _table(items: Sequence[Folded], name: str) -> Table:
    scores = {_parts(item.key): item for item in items}
    criteria = list(dict.fromkeys(criterion for criterion, _ in scores))
    players = list(dict.fromkeys(player for _, player in scores))

    def rank(player: str) -> tuple[float, str]:
        own = [scores[c, player].mean for c in criteria if (c, player) in scores]
        return -own[0], player

    columns = tuple(
        Column(METRIC, c, c.replace("_", " ") or "preferred", "higher", 2, items[0].signature) for c in criteria
    )
    rows = []
    for player in sorted(players, key=rank):
        cells = [_cell(scores.get((criterion, player)), criterion, items) for criterion in criteria]
        rows.append(TableRow(player, "human" if player == "human" else "model", tuple(cells)))
    who = parse_signature(items[0].signature).get("raters", "people")
    title = f"Preferred by {who} ({items[0].axes.get('task', 'comparisons')})"
    return Table(name, title, columns, tuple(rows), (REMARK,), head="Player", show_seeds=False)


def _parts(key: str) -> tuple[str, str]:
    """Criterion and player of a key; the criterion is empty where the comparisons name none."""
    criterion, slash, player = key.partition("/")
    return (criterion, player) if slash else ("", key)


def _cell(item: Folded | None, criterion: str, items: Sequence[Folded]) -> Cell:
    if item is None:
        return Cell(note=f"Not compared by the criterion {criterion}.")
    parts = [(_parts(i.key), i.mean) for i in items]
    best = max((mean for (c, player), mean in parts if c == criterion and player != "human"), default=item.mean)
    around = (item.mean - Z * item.error, item.mean + Z * item.error) if math.isfinite(item.error) else None
    return Cell(item.mean, n=1, interval=around, best=item.mean == best and _parts(item.key)[1] != "human")
