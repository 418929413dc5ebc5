"""The human side in a table: the ceiling, how many texts it has, and the spread that a metric states of itself."""

from __future__ import annotations

import math
from collections.abc import Sequence

from openended.harness.core import parse_signature
from openended.harness.report.tables.numbers import fixed
from openended.harness.report.tables.table import Cell, Column
from openended.harness.results import Folded, human_value

CEILING = "Human ceiling: two disjoint sets of human text against each other"
UNSHARED = "They share no prompts, while a system and the human text do: a system can come out above."

NOT_HUMAN = {
    "two_sample": "Compares a system with the human text; the human text has no value of its own.",
    "teacher_forced": "Reads the decoder's distribution on human text; there is none of the human's own.",
}


def own_spread(item: Folded) -> float:
    """Return the spread that the metric states, NaN where it states none."""
    return item.error if math.isfinite(item.error) else math.nan


def ceiling(item: Folded, column: Column) -> Cell:
    """Return the human ceiling where it has as many texts as the systems; elsewhere say what it is, and of how many."""
    n, of = (parse_signature(s).get("n", "") for s in (item.signature, column.signature))
    if n == of or not column.signature:
        note = f"{CEILING}{f' (n {n})' if n else ''}. {UNSHARED}"
        return Cell(item.mean, own=own_spread(item), note=note, source=item)
    value = fixed(item.mean, column.decimals)
    return Cell(note=f"No human ceiling of as many texts as the systems (n {of}). {CEILING}: {value} at n {n}.")


def remarks_on_counts(models: Sequence[Folded], humans: Sequence[Folded]) -> list[str]:
    """Say where the human value is of fewer texts, which some values depend on."""
    pairs = [(h, m) for m in models if m.direction == "match_human" and (h := human_value(humans, m)) is not None]
    counts = {tuple(parse_signature(i.signature).get("n", "") for i in pair) for pair in pairs}
    return [
        f"The human values are of {human} texts, the systems' of {model}. What depends "
        "on the number of texts (distinct n-grams, Self-BLEU, Zipf, …) is not compared at one size."
        for human, model in sorted(counts)
        if human != model
    ]
