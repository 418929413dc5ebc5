"""The best system of a report: one line for the terminal, and a sentence with its rivals for the page."""

import math
import statistics
from collections.abc import Iterator, Sequence

from openended.harness import results as measured
from openended.harness.report.analysis import paired, power
from openended.harness.report.tables.frame import Cell, choose_decimals, count_decimals, format_fixed
from openended.harness.report.tables.selection import TablePart, select_pairs
from openended.harness.report.tables.values import rank_systems
from openended.harness.results import Results, SystemValue, group_by_data, group_systems, load_replicates

HEADLINES = ("bradley_terry", "huse", "mauve")  # people first; without them the first metric that ranks systems
MAX_NAMED = 3  # systems named in one list


def describe_best(results: Results) -> list[str]:
    """Return a line for each task: its best system by the headline metric, with the value's interval."""
    lines = []
    for task, part, cells in _rank_tasks(results):
        first = _get_source(cells[0])
        over = measured.find_interval(results, first) if first.interval is None else None
        low, high = first.interval or ((over.low, over.high) if over is not None else (math.nan, math.nan))
        decimals = count_decimals((high - low) / 4, choose_decimals([first.mean]))
        ends = f" [{format_fixed(low, decimals)}, {format_fixed(high, decimals)}]" if math.isfinite(high - low) else ""
        others = len([cell for cell in cells[1:] if cell.best])
        tied = f", not told apart from {others} other{'s' if others > 1 else ''}" if others else ""
        where = f"{task}: " if task else ""
        value = f"{first.title} {format_fixed(first.mean, decimals)}{ends}"
        lines.append(f"{where}{_name_systems(part)[tuple(first.axes.items())]}, {value}{tied}")
    return lines


def write_headline(results: Results) -> str:
    """Return which system is best by the headline metric, and how sure that is; empty if there are not two systems.

    The test of two systems and its correction are those of bold face.
    """
    for task, part, cells in _rank_tasks(results):
        sentence = _compare_best(cells, part, results)
        return f"On {task}, {sentence}" if task else sentence
    return ""


def _rank_tasks(results: Results) -> Iterator[tuple[str, Sequence[SystemValue], list[Cell]]]:
    """Yield each task (empty if there is one), its values, and the cells of its headline metric, best first."""
    parts = group_by_data([item for item in results.values if math.isfinite(item.mean)])
    ranks = {metric: rank for rank, metric in enumerate(HEADLINES)}
    for task, part in parts.items():
        pairs = select_pairs(part, companions=False)
        for pair in sorted(pairs, key=lambda pair: ranks.get(pair[0], len(ranks))):
            cells = rank_systems(TablePart(results, part, "headline", {}, ()), pair)
            if len(cells) > 1:
                yield task if len(parts) > 1 else "", part, cells
                break


def _get_source(cell: Cell) -> SystemValue:
    if cell.source is None:
        raise TypeError("a cell of a system has a source")
    return cell.source


def _name_systems(part: Sequence[SystemValue]) -> dict[tuple[tuple[str, str], ...], str]:
    return {tuple(system.items[0].axes.items()): system.name for system in group_systems(part)}


def _compare_best(cells: Sequence[Cell], part: Sequence[SystemValue], results: Results) -> str:
    """Compare the first value, which is the best, with all others, with 95 % margins of the differences."""
    values, names = [_get_source(cell) for cell in cells], _name_systems(part)
    first, labels = values[0], [names[tuple(_get_source(cell).axes.items())] for cell in cells]
    target = measured.find_target(first, part)
    ahead, tied, untested, needed = [], [], [], dict[int, str]()
    for at in range(1, len(values)):
        other = values[at]
        human = measured.find_human_value(part, first) if first.direction == "match_human" else None
        gap = abs(float(measured.orient(first.mean, first.direction, target)
                        - measured.orient(other.mean, first.direction, target)))  # fmt: skip
        is_one_side = target is None or (first.mean - target) * (other.mean - target) >= 0
        _, error, freedom = (
            paired.estimate_difference(results, first, other)
            if is_one_side or target is None
            else paired.estimate_middle(results, first, other, human, target)
        )
        if math.isnan(error):
            error, freedom = _estimate_over_seeds(first, other, 1.0 if is_one_side else -1.0)
        error = error if error > 1e-12 * abs(first.mean) else math.nan  # equal differences do not tell their error
        margin = paired.compute_student_quantile(freedom) * error
        decimals = count_decimals(error, choose_decimals([first.mean, other.mean]))
        apart = format_fixed(gap, decimals) + (f" ± {format_fixed(margin, decimals)}" if margin > 0 else "")
        if not math.isfinite(cells[at].p_value):
            untested.append((gap, labels[at]))
        elif cells[at].best:
            tied.append((gap, f"{labels[at]} (difference {apart})"))
            n = (measured.parse_sizes(other.signature) or (0,))[-1]
            if error > 0 and gap > 0 and n:
                count = power.compute_needed_texts(n, error, gap)
                needed[at] = f"n = {count:,} would tell {labels[0]} from {labels[at]}"
        else:
            ahead.append((gap, f"{labels[at]} by {apart}"))
    words = {"higher": "the highest", "lower": "the lowest"}.get(first.direction, "the best")
    value = format_fixed(first.mean, choose_decimals([first.mean]))
    clauses = [f"ahead of {_join_names(ahead)}"] if ahead else []
    clauses += [f"not told apart from {_join_names(tied)}"] if tied else []
    clauses += [f"about {needed[min(needed)]} (80 % power)"] if needed else []
    hint = " (intervals=200 would test it)" if any(load_replicates(results, value) is None for value in values) else ""
    clauses += [f"not tested against {_join_names(untested)}{hint}"] if untested else []
    return f"{labels[0]} has {words} {first.title}, {value}: {'; '.join(clauses)}."


def _estimate_over_seeds(first: SystemValue, other: SystemValue, sign: float) -> tuple[float, float]:
    """Return the standard error of a difference (or sum) of means over seeds, and its degrees of freedom, or NaN."""
    apart = [first.values[seed] - sign * other.values[seed] for seed in first.values if seed in other.values]
    if len(apart) < 2 or not all(map(math.isfinite, apart)):
        return math.nan, math.nan
    return statistics.stdev(apart) / math.sqrt(len(apart)), len(apart) - 1


def _join_names(entries: Sequence[tuple[float, str]]) -> str:
    """Join the systems nearest to the best; of many only the first few are named."""
    texts = [text for _, text in sorted(entries)]
    more = [f"{len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    texts = texts[:MAX_NAMED] + more
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
