"""Build the cell of a value whose signature differs from its column's."""

from __future__ import annotations

from openended.harness.core import compare_signatures, parse_signature
from openended.harness.report.tables.table import Cell
from openended.harness.results import SystemValue

NOT_COMPARABLE = "not comparable"


def mark_incomparable(item: SystemValue, column: SystemValue) -> Cell:
    """Return a cell that says "not comparable" and in which fields its signature differs from the column's."""
    fields, usual = parse_signature(item.signature), parse_signature(column.signature)
    names = compare_signatures(item.signature, column.signature)
    differ = "; ".join(f"{name} ({fields.get(name)}, the column has {usual.get(name)})" for name in names)
    return Cell(words=NOT_COMPARABLE, note=f"Not comparable: its signature differs in {differ}.", source=item)
