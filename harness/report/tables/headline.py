"""The best system of a report in one line, for the terminal and the page."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from openended.harness import results as measured
from openended.harness.report.tables.frame import Cell, choose_decimals, count_decimals, format_cell
from openended.harness.report.tables.selection import TablePart, select_pairs
from openended.harness.report.tables.values import rank_systems
from openended.harness.results import Results, SystemValue, group_by_data, group_systems

HEADLINES = ("bradley_terry", "huse", "mauve")  # people first; without any the first metric that ranks systems


def describe_best(results: Results) -> list[str]:
    """Return a line for each task: its best system by the headline metric, with the value's interval."""
    lines = []
    for task, part, cells in _rank_tasks(results):
        first = next(cell.source for cell in cells if cell.source is not None)
        best, over = cells[0], measured.find_interval(results, first)
        if over is not None and math.isfinite(over.high - over.low):
            decimals = count_decimals((over.high - over.low) / 4, choose_decimals([first.mean]))
            best = replace(best, low=over.low, high=over.high, own_decimals=decimals)
        others = len([cell for cell in cells[1:] if cell.best])
        tied = f", not significantly different from {others} other{'s' if others > 1 else ''}" if others else ""
        tied = tied if cells[0].rule in ("tests", "intervals") else ", not tested against the others"
        where = f"{task}: " if task else ""
        invented = f" ({first.invented})" if first.invented else ""
        value = f"{first.title} {' '.join(filter(None, format_cell(best)))}{invented}"
        names = {id(item): system.name for system in group_systems(part) for item in system.items}
        lines.append(f"{where}{names[id(first)]}, {value}{tied}")
    return lines


def _rank_tasks(results: Results) -> Iterator[tuple[str, Sequence[SystemValue], list[Cell]]]:
    """Yield each task (empty if there is one), its values, and the cells of its headline metric, best first."""
    parts = group_by_data([item for item in results.values if math.isfinite(item.mean)])
    ranks = {metric: rank for rank, metric in enumerate(HEADLINES)}
    for task, part in parts.items():
        invented = {item.pair for item in part if item.invented}  # are no judgments of people: they come last
        pairs = select_pairs(part, companions=False)
        for pair in sorted(pairs, key=lambda pair: (pair in invented, ranks.get(pair[0], len(ranks)))):
            counts = Counter(item.signature for item in measured.select_values(part, *pair)).most_common(2)
            if len(counts) > 1 and counts[0][1] == counts[1][1]:  # of several options, none is the usual one
                continue
            cells = rank_systems(TablePart(results, part, "headline", {}, ()), pair)
            if len(cells) > 1:
                yield task if len(parts) > 1 else "", part, cells
                break
