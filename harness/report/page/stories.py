"""Collect the details of every table cell: signature, interval, value of every seed, command, LaTeX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from openended.harness.report.tables.formats.latex import format_latex_rows
from openended.harness.report.tables.run_summary import collect_commands
from openended.harness.report.tables.table import Cell, Column, Table
from openended.harness.results import Results, SystemValue


class Stories:
    """Collects the details of table cells; shared strings are stored once."""

    def __init__(self, results: Results) -> None:
        self._results = results
        self._shared: dict[str, int] = {}
        self._settings: dict[tuple[tuple[str, str], ...], int] = {}

    def collect(self, tables: Sequence[Table]) -> dict[str, Any]:
        """Return the tables' cells, with `texts` and `settings` that they name by number."""
        table_stories = [self._describe_table(table) for table in tables]
        return {"tables": table_stories, "texts": list(self._shared), "settings": [dict(s) for s in self._settings]}

    def _describe_table(self, table: Table) -> dict[str, Any]:
        rows = [
            {
                "label": row.label,
                "latex": latex,
                "cells": [self._describe_cell(table, c, k) for c, k in zip(row.cells, table.columns, strict=True)],
            }
            for row, latex in zip(table.rows, format_latex_rows(table), strict=True)
        ]
        columns = [{"title": c.heading, "signature": self._share(c.signature)} for c in table.columns]
        return {"title": table.title, "columns": columns, "rows": rows}

    def _describe_cell(self, table: Table, cell: Cell, column: Column) -> dict[str, Any]:
        story: dict[str, Any] = {"text": " ".join(filter(None, table.text(cell, column)))}
        story |= {"value": cell.value} if math.isfinite(cell.value) else {}
        story |= {"note": cell.note} if cell.note else {}
        story |= {"interval": list(cell.interval)} if cell.interval else {}
        return story | (self._describe_source(cell.source) if cell.source is not None else {})

    def _describe_source(self, item: SystemValue) -> dict[str, Any]:
        runs = [self._results.runs[at] for at in dict.fromkeys(at for at, _ in item.sources)]
        settings = tuple((name, value) for name, value in item.axes.items() if value)
        facts: dict[str, Any] = {
            "signature": self._share(item.signature),
            "seeds": {seed: value if math.isfinite(value) else None for seed, value in item.values.items()},
            "settings": self._settings.setdefault(settings, len(self._settings)),
            "commands": [self._share(line.removeprefix("Command: ")) for line in collect_commands(runs)],
            "runs": [self._share(run.name) for run in runs],
        }
        facts |= {"sd": item.sd} if math.isfinite(item.sd) else {}
        return facts | ({"error": item.error} if math.isfinite(item.error) else {})

    def _share(self, text: str) -> int:
        return self._shared.setdefault(text, len(self._shared))
