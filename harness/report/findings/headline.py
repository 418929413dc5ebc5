"""One sentence that says which system is best by the headline metric, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from openended.harness.report.analysis.paired import compute_margin_p_value, correct_by_holm
from openended.harness.report.findings.checks import format_number, join_components, select_main_setting
from openended.harness.report.findings.uncertainty import LEVEL, Errors, Outcome, Sample, check_with_uncertainty
from openended.harness.report.tables.selection import select_pairs
from openended.harness.results import Layout, Results, SystemValue, group_by_data, group_systems

HEADLINES = ("bradley_terry", "huse", "mauve")  # people first; without them the first metric that ranks systems
MAX_NAMED = 3  # systems named in one list


def write_headline(results: Results) -> str:
    """Return the sentence, with 95 % margins of the differences; empty if there are not two systems to compare."""
    parts = group_by_data([item for item in results.values if math.isfinite(item.mean)])
    errors = Errors(results)
    for task, part in parts.items():
        directions = {(i.metric, i.key): i.direction for i in part if i.system == "model"}
        pairs = [p for p in select_pairs(part, Layout(companions=False)) if directions.get(p, "none") != "none"]
        ranks = {metric: rank for rank, metric in enumerate(HEADLINES)}
        for pair in sorted(pairs, key=lambda pair: ranks.get(pair[0], len(ranks))):
            sample = Sample(part, errors)
            values = [v for v in select_main_setting(part, pair) if math.isfinite(sample.orient(v)[0])]
            if len(values) > 1:
                sentence = _compare_best(values, part, errors)
                return f"On {task}, {sentence}" if len(parts) > 1 else sentence
    return ""


def _compare_best(values: Sequence[SystemValue], part: Sequence[SystemValue], errors: Errors) -> str:
    """Compare the best value with all others."""
    first = values[0]
    items = [*values, *(i for i in part if i.system != "model" and i.pair == first.pair)]
    sample = Sample(items, errors)
    oriented = [sample.orient(value) for value in values]
    best = max(range(len(values)), key=lambda at: oriented[at][0])
    others = [at for at in range(len(values)) if at != best]

    def check(moved: Sample) -> Outcome | None:
        if len(moved.items) < len(items):  # values without variation are left out: their differences have no test
            return None
        numbers = [moved.orient(value) for value in values]
        return join_components("", [numbers[best] > numbers[at] for at in others])

    verdict = check_with_uncertainty(check, items, errors)
    sampled = [errors.get(value) for value in values]
    system_names = {tuple(system.items[0].axes.items()): system.name for system in group_systems(part)}
    names = [system_names[tuple(value.axes.items())] for value in values]
    gaps, margins, p_values = {}, {}, {}
    for at in others:
        differences = oriented[best] - oriented[at]
        low, high = np.quantile(differences[1:], (LEVEL / 2, 1 - LEVEL / 2))
        gaps[at], margins[at] = float(abs(differences[0])), float(high - low) / 2
        both = [error for error in (sampled[best], sampled[at]) if error is not None]
        if verdict is not None and verdict.doubts and len(both) == 2 and np.stack(both).any():
            p_values[at] = compute_margin_p_value(gaps[at], margins[at])
    # The best is known only from the data, so all pairs of systems count, as for bold cells.
    corrected = correct_by_holm(p_values, math.comb(len(values), 2))
    ahead, tied, untested = [], [], []
    for at in others:
        margin = f"{format_number(gaps[at])} ± {format_number(margins[at])}"
        if at not in corrected:
            untested.append((gaps[at], names[at]))
        elif corrected[at] < LEVEL:
            ahead.append((gaps[at], f"{names[at]} by {margin}"))
        else:
            tied.append((gaps[at], f"{names[at]} (difference {margin})"))
    words = {"higher": "the highest", "lower": "the lowest"}.get(first.direction, "the best")
    sentence = f"{names[best]} has {words} {first.title}, {format_number(values[best].mean)}"
    clauses = [f"ahead of {_join_names(ahead)}"] if ahead else []
    clauses += [f"not told apart from {_join_names(tied)}"] if tied else []
    if verdict is not None and verdict.decides:  # the verdict is sure once the smallest difference is
        rivals = "every other system" if len(others) > 1 else names[others[0]]
        clauses += [f"{verdict.decides} would tell {names[best]} from {rivals}"]
    hint = " (intervals=200 would test it)" if any(errors.get(item) is None for item in items) else ""
    clauses += [f"not tested against {_join_names(untested)}{hint}"] if untested else []
    return f"{sentence}: {'; '.join(clauses)}."


def _join_names(entries: Sequence[tuple[float, str]]) -> str:
    """Join the systems nearest to the best; of many only the first few are named."""
    texts = [text for _, text in sorted(entries)]
    more = [f"{len(texts) - MAX_NAMED} more"] if len(texts) > MAX_NAMED else []
    texts = texts[:MAX_NAMED] + more
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
