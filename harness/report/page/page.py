"""One HTML file with everything: tables, figures and a reader of the texts; needs no network.

Texts that are too many for one file lie in a folder beside it. Nothing but the page's own script runs: its digest
stands in the page's policy, and every text reaches the screen as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.core import to_json, write_text
from openended.harness.report.figures.drawing import COLUMN, HUMAN_COLOR, PAGE, RESOLUTION, SystemStyles
from openended.harness.report.findings.headline import HEADLINES, write_headline
from openended.harness.report.page.captions import find_caption, find_figure_title
from openended.harness.report.page.parts import build_parts, fits_inside, to_script_json, write_beside
from openended.harness.report.page.settings import list_settings
from openended.harness.report.page.sources import collect_page_texts
from openended.harness.report.page.stories import Stories
from openended.harness.report.page.why import read_reasons
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.report.tables.table import Cell, Table

if TYPE_CHECKING:
    from openended.harness.results import Results

SCALE = 0.7  # page pixels per figure pixel: letters have the size of the text, and are sharp on fine screens
SCRIPTS = (
    "core",
    "address",
    "navigation",
    "marks",
    "sources",
    "example",
    "list",
    "texts",
    "controls",
    "story",
    "tables",
    "figures",
    "why",
    "main",
)


def write_page(
    results: Results,
    tables: Sequence[Table],
    figures: Sequence[Path],
    path: Path,
    *,
    traces: Mapping[str, Any] | None = None,
    compared_results: Mapping[str, Results] | None = None,
    leaderboard: bool = False,
) -> list[Path]:
    """Write the page and, if there are many texts, a folder next to it; all text is escaped."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    page_texts = collect_page_texts([] if leaderboard else list((compared_results or {"": results}).items()))
    tables = [order_columns(table) for table in tables]
    contents, named_parts = build_parts(page_texts)
    contents["styles"] = list_system_styles(results, tables)
    inside, reasons = fits_inside(page_texts), read_reasons(page_texts)
    parts = {name: to_script_json(part) for name, part in named_parts} if inside else {}
    written = [] if inside else write_beside(named_parts, path.parent)
    parts["contents"] = to_script_json(contents)
    parts["stories"] = to_script_json(to_json(Stories(results).collect(tables)))
    parts |= {"figures": to_script_json(to_json(traces))} if traces else {}
    parts |= {"why": to_script_json(reasons)} if reasons else {}
    pictures = [p for p in figures if p.suffix == ".png"]
    style, script = _read_asset("page.css"), "".join(_read_asset(f"js/{name}.js") for name in SCRIPTS)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(_read_asset("page.html")).render(
        title=tables[0].title if tables else "Report",
        finding=write_headline(results),
        tables=[_to_plain_table(t) for t in tables],
        figures=[_to_embedded_figure(p) for p in pictures],
        texts=bool(page_texts.sources),
        why=bool(reasons),
        parts_of_page=_list_parts(len(tables), len(pictures), why=bool(reasons), texts=bool(page_texts.sources)),
        counts=_format_counts(results),
        about=summarize_sources(results.values, results.runs),
        settings=list_settings(results.runs),
        parts={name: Markup(part) for name, part in parts.items()}.items(),  # noqa: S704 - `to_script_json` leaves no `<`
        beside=not inside,
        leaderboard=leaderboard,
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own files
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    write_text(path, page)
    return [path, *written]


def order_columns(table: Table) -> Table:
    """Move the metrics of the headline to the left if the columns have no order of their own but the alphabet."""
    metrics = [column.metric for column in table.columns]
    if metrics != sorted(metrics):
        return table
    order = sorted(
        range(len(metrics)), key=lambda at: HEADLINES.index(metrics[at]) if metrics[at] in HEADLINES else len(HEADLINES)
    )
    rows = tuple(replace(row, cells=tuple(row.cells[at] for at in order)) for row in table.rows)
    return replace(table, columns=tuple(table.columns[at] for at in order), rows=rows)


def list_system_styles(results: Results, tables: Sequence[Table]) -> dict[str, dict[str, str]]:
    """Return name of a system → its color, marker and dash in the figures."""
    from openended.harness.results import group_systems

    values = {system.name: system.items[0] for system in group_systems(results.values)}
    for row in (row for table in tables for row in table.rows if row.system == "model"):
        source = next((cell.source for cell in row.cells if cell.source is not None), None)
        if source is not None:
            values.setdefault(row.label, source)
    styles: dict[str, dict[str, str]] = {"human": {"color": HUMAN_COLOR, "marker": "*", "line": "--"}}
    for name, value in values.items():
        (style,) = SystemStyles(results.values).choose([value])
        styles[name] = {"color": str(style["color"]).lower(), "marker": style["marker"], "line": style["linestyle"]}
    return styles


def _read_asset(name: str) -> str:
    return (resources.files("openended.harness.report.page") / name).read_text(encoding="utf-8")


def _list_parts(tables: int, figures: int, *, why: bool, texts: bool) -> list[tuple[str, str]]:
    """Return anchor and name of every part of the page, for the navigation."""
    parts = [("result", "Result")]
    parts += [("tables", "Tables")] if tables > 1 else []
    parts += [("figures", "Figures")] if figures > 1 else []
    parts += [("why", "Why")] if why else []
    return [*parts, ("about", "About"), *([("texts", "Texts")] if texts else [])]


def _hash(text: str) -> str:
    """Return the digest of an element for the content security policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _format_counts(results: Results) -> str:
    parts = [f"{len(results.runs)} runs", f"{len(results.frame)} values"]
    parts += [f"{results.unfinished} unfinished run folders skipped"] if results.unfinished else []
    parts += [f"{results.superseded} values superseded by newer runs"] if results.superseded else []
    parts += [f"{len(results.left_out)} runs with damaged records left out"] if results.left_out else []
    parts += [f"{len(results.damaged)} damaged artifacts skipped"] if results.damaged else []
    return ", ".join(parts)


def _to_plain_table(table: Table) -> Mapping[str, Any]:
    """Return a table as plain text for the template: the text of every cell, its uncertainty and its mark."""
    rows = [
        {
            "label": row.label,
            "system": row.system,
            "seeds": row.seeds or "",
            "rule": row.rule,
            "cells": [
                (*table.text(cell, column), table.mark(cell), cell.best, cell.note)
                for cell, column in zip(row.cells, table.columns, strict=True)
            ],
        }
        for row in table.rows
    ]
    notes = [(table.mark(Cell(note=n)), n) for n in table.notes()]
    return {
        "table": table,
        "rows": rows,
        "notes": notes,
        "count": len(notes) + len(table.remarks) + len(table.about) + len(table.rules),
        "legend": " ".join(table.legend()),
        "signatures": table.signatures(),
    }


def _to_embedded_figure(path: Path) -> Mapping[str, Any]:
    """Return a picture for the template; a PNG stores its width in pixels in bytes 16 to 20."""
    data = path.read_bytes()
    pixels = int.from_bytes(data[16:20])
    return {
        "name": find_figure_title(path.stem),
        "stem": path.stem,
        "caption": find_caption(path.stem),
        "file": path.with_suffix(".pdf").name,
        "data": base64.b64encode(data).decode(),
        "width": round(SCALE * pixels),
        "page": pixels > RESOLUTION * (COLUMN + PAGE) / 2,
    }
