"""The details of every table cell: signature, interval, value of every seed, command, LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from openended.harness.report.tables.formats.latex import format_latex_rows
from openended.harness.report.tables.run_summary import collect_commands
from openended.harness.report.tables.table import Cell, Column, Table
from openended.harness.results import Results, SystemValue


def collect_cell_details(results: Results, tables: Sequence[Table]) -> dict[str, Any]:
    """Return the tables' cells; they name shared strings (`texts`) and `settings` by number."""
    numbers: dict[str, int] = {}
    settings: dict[tuple[tuple[str, str], ...], int] = {}

    def share(text: str) -> int:
        return numbers.setdefault(text, len(numbers))

    def describe_source(item: SystemValue) -> dict[str, Any]:
        runs = [results.runs[at] for at in dict.fromkeys(at for at, _ in item.sources)]
        setting = tuple((name, value) for name, value in item.axes.items() if value)
        details: dict[str, Any] = {
            "signature": share(item.signature),
            "seeds": {seed: value if math.isfinite(value) else None for seed, value in item.values.items()},
            "settings": settings.setdefault(setting, len(settings)),
            "commands": [share(line.removeprefix("Command: ")) for line in collect_commands(runs)],
            "runs": [share(run.name) for run in runs],
        }
        details |= {"sd": item.sd} if math.isfinite(item.sd) else {}
        return details | ({"error": item.error} if math.isfinite(item.error) else {})

    def describe_cell(table: Table, cell: Cell, column: Column) -> dict[str, Any]:
        details: dict[str, Any] = {"text": " ".join(filter(None, table.text(cell, column)))}
        details |= {"value": cell.value} if math.isfinite(cell.value) else {}
        details |= {"note": cell.note} if cell.note else {}
        details |= {"interval": list(cell.interval)} if cell.interval else {}
        return details | (describe_source(cell.source) if cell.source is not None else {})

    described = []
    for table in tables:
        rows = [
            {
                "label": row.label,
                "latex": latex,
                "cells": [describe_cell(table, c, k) for c, k in zip(row.cells, table.columns, strict=True)],
            }
            for row, latex in zip(table.rows, format_latex_rows(table), strict=True)
        ]
        columns = [{"title": c.heading, "signature": share(c.signature)} for c in table.columns]
        described.append({"title": table.title, "columns": columns, "rows": rows})
    return {"tables": described, "texts": list(numbers), "settings": [dict(setting) for setting in settings]}
