"""Human values in tables: the ceiling cell and remarks on the number of texts."""

from __future__ import annotations

from collections.abc import Sequence

from openended.harness.core import load_members, parse_signature
from openended.harness.report.tables.numbers import format_fixed
from openended.harness.report.tables.table import Cell, Column
from openended.harness.results import SystemValue, find_human_value

CEILING = "Human ceiling: two disjoint sets of human text against each other"
UNSHARED = "The two human sets have different prompts, so a system can score above this ceiling."

NOT_HUMAN = {
    "two_sample": "Compares a system with the human text, so the human text itself has no value.",
    "teacher_forced": "Uses the decoder's distribution on human text, so the human text itself has no value.",
}


def build_ceiling_cell(item: SystemValue, column: Column) -> Cell:
    """Build the cell of the human ceiling; its value moves to the note if its number of texts differs."""
    n, of = (parse_signature(s).get("n", "") for s in (item.signature, column.signature))
    if n == of or not column.signature:
        note = f"{CEILING}{f' (n {n})' if n else ''}."
        if _has_prompts(item):
            note += f" {UNSHARED}"
        return Cell(item.mean, metric_error=item.error, note=note, source=item)
    value = format_fixed(item.mean, column.decimals)
    return Cell(note=f"No human ceiling with as many texts as the systems (n {of}). {CEILING}: {value} at n {n}.")


def _has_prompts(item: SystemValue) -> bool:
    task = load_members("task").get(item.axes.get("task", ""))
    return bool(getattr(task, "prompted", True))


def list_count_remarks(models: Sequence[SystemValue], humans: Sequence[SystemValue]) -> list[str]:
    """Return remarks on human values that are based on another number of texts than the systems' values."""
    pairs = [(h, m) for m in models if m.direction == "match_human" and (h := find_human_value(humans, m)) is not None]
    counts = {tuple(parse_signature(i.signature).get("n", "") for i in pair) for pair in pairs}
    return [
        f"The human values are based on {human} texts, those of the systems on {model}. Values that depend "
        "on the number of texts (distinct n-grams, Self-BLEU, Zipf, …) are not comparable."
        for human, model in sorted(counts)
        if human != model
    ]
