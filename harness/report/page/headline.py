"""The sentence on the best system of a report."""

import math
from collections.abc import Sequence

import numpy as np

from openended.harness.report.analysis import uncertainty
from openended.harness.report.analysis.uncertainty import LEVEL, Errors, Outcome, Sample, format_number, join_components
from openended.harness.report.tables.frame import Cell
from openended.harness.report.tables.selection import TablePart, select_pairs
from openended.harness.report.tables.values import rank_systems
from openended.harness.results import Results, SystemValue, group_by_data, group_systems, load_replicates

HEADLINES = ("bradley_terry", "huse", "mauve")  # people first; without them the first metric that ranks systems
MAX_NAMED = 3  # systems named in one list


def write_headline(results: Results) -> str:
    """Return which system is best by the headline metric, and how sure that is; empty if there are not two systems.

    The test of two systems and its correction are those of bold face.
    """
    parts = group_by_data([item for item in results.values if math.isfinite(item.mean)])
    ranks = {metric: rank for rank, metric in enumerate(HEADLINES)}
    for task, part in parts.items():
        pairs = select_pairs(part, companions=False)
        for pair in sorted(pairs, key=lambda pair: ranks.get(pair[0], len(ranks))):
            cells = rank_systems(TablePart(results, part, "headline", {}, ()), pair)
            if len(cells) > 1:
                sentence = _compare_best(cells, part, results)
                return f"On {task}, {sentence}" if len(parts) > 1 else sentence
    return ""


def _compare_best(cells: Sequence[Cell], part: Sequence[SystemValue], results: Results) -> str:
    """Compare the first value, which is the best, with all others, with 95 % margins of the differences."""
    values = [cell.source for cell in cells if cell.source is not None]
    first = values[0]
    items = [*values, *(i for i in part if i.system != "model" and i.pair == first.pair)]
    errors = Errors(results)
    sample = Sample(items, errors)
    oriented = [sample.orient(value) for value in values]
    others = range(1, len(values))

    def check(moved: Sample) -> Outcome | None:
        if len(moved.items) < len(items):  # values without variation are left out: their differences have no test
            return None
        numbers = [moved.orient(value) for value in values]
        return join_components("", [numbers[0] > numbers[at] for at in others])

    verdict = uncertainty.check_with_uncertainty(check, items, errors)
    system_names = {tuple(system.items[0].axes.items()): system.name for system in group_systems(part)}
    names = [system_names[tuple(value.axes.items())] for value in values]
    ahead, tied, untested = [], [], []
    for at in others:
        differences = oriented[0] - oriented[at]
        low, high = np.quantile(differences[1:], (LEVEL / 2, 1 - LEVEL / 2))
        gap = float(abs(differences[0]))
        margin = f"{format_number(gap)} ± {format_number(float(high - low) / 2)}"
        if not math.isfinite(cells[at].p_value):
            untested.append((gap, names[at]))
        elif cells[at].best:
            tied.append((gap, f"{names[at]} (difference {margin})"))
        else:
            ahead.append((gap, f"{names[at]} by {margin}"))
    words = {"higher": "the highest", "lower": "the lowest"}.get(first.direction, "the best")
    sentence = f"{names[0]} has {words} {first.title}, {format_number(values[0].mean)}"
    clauses = [f"ahead of {_join_names(ahead)}"] if ahead else []
    clauses += [f"not told apart from {_join_names(tied)}"] if tied else []
    if tied and verdict is not None and verdict.decides:  # the verdict is sure once the smallest difference is
        rivals = "every other system" if len(others) > 1 else names[1]
        clauses += [f"{verdict.decides} would tell {names[0]} from {rivals}"]
    hint = " (intervals=200 would test it)" if any(load_replicates(results, value) is None for value in values) else ""
    clauses += [f"not tested against {_join_names(untested)}{hint}"] if untested else []
    return f"{sentence}: {'; '.join(clauses)}."


def _join_names(entries: Sequence[tuple[float, str]]) -> str:
    """Join the systems nearest to the best; of many only the first few are named."""
    texts = [text for _, text in sorted(entries)]
    more = [f"{len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    texts = texts[:MAX_NAMED] + more
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
