"""One HTML file with everything: tables, figures and a reader of the texts; needs no network.

Texts that are too many for one file lie in a folder beside it. Nothing but the page's own script runs: its digest
stands in the page's policy, and every text reaches the screen as text.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.core import to_json, write_text
from openended.harness.report.figures.drawing import COLUMN, PAGE, RESOLUTION
from openended.harness.report.page.captions import caption_of
from openended.harness.report.page.parts import as_json, fits_inside, parts_of, write_beside
from openended.harness.report.page.settings import settings_of
from openended.harness.report.page.sources import collect
from openended.harness.report.page.stories import Stories
from openended.harness.report.page.why import reasons_of
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.report.tables.table import Cell, Table

if TYPE_CHECKING:
    from openended.harness.results import Results

SHOWN = 0.7  # pixels of the page for a pixel of a figure: letters as large as the text, and sharp on fine screens
SCRIPTS = (
    "core",
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
    beside: Mapping[str, Results] | None = None,
) -> list[Path]:
    """Write the page, and the folder beside it where the texts are many; all text is escaped.

    Args:
        results: What the page is about.
        tables: Shown as they stand.
        figures: Their files; PNGs are shown.
        path: The page.
        traces: Name of a figure → what it shows as plain data; such a figure answers to the pointer.
        beside: Word before the systems' names → results whose texts are shown, where two reports are compared.

    Returns:
        The page and what was written beside it.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from openended.harness.results import fold_seeds

    shelf = collect(list(beside.items()) if beside else [("", results)])
    contents, made = parts_of(shelf)
    inside, reasons = fits_inside(shelf), reasons_of(shelf)
    parts = {name: as_json(part) for name, part in made} if inside else {}
    written = [] if inside else write_beside(made, path.parent)
    parts |= {"contents": as_json(contents), "stories": as_json(to_json(Stories(results).of(tables)))}
    parts |= {"figures": as_json(to_json(traces))} if traces else {}
    parts |= {"why": as_json(reasons)} if reasons else {}
    style, script = _file("page.css"), "".join(_file(f"js/{name}.js") for name in SCRIPTS)
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(_file("page.html")).render(
        title=tables[0].title if tables else "Report",
        tables=[_for_page(t) for t in tables],
        figures=[_figure(p) for p in figures if p.suffix == ".png"],
        texts=bool(shelf.sources),
        why=bool(reasons),
        counts=_counts(results),
        about=summarize_sources(fold_seeds(results), results.runs),
        settings=settings_of(results.runs),
        parts={name: Markup(part) for name, part in parts.items()}.items(),  # noqa: S704 - `as_json` leaves no `<`
        beside=not inside,
        style=Markup(style),  # noqa: S704 - our own file
        script=Markup(script),  # noqa: S704 - our own files
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    write_text(path, page)
    return [path, *written]


def _file(name: str) -> str:
    return (resources.files("openended.harness.report.page") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the digest by which a policy knows an element's text."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _counts(results: Results) -> str:
    parts = [f"{len(results.runs)} runs", f"{len(results.frame)} values"]
    parts += [f"{results.unfinished} unfinished run folders passed over"] if results.unfinished else []
    parts += [f"{results.superseded} values superseded by newer runs"] if results.superseded else []
    parts += [f"{len(results.left_out)} runs with damaged records left out"] if results.left_out else []
    parts += [f"{len(results.damaged)} damaged artefacts passed over"] if results.damaged else []
    return ", ".join(parts)


def _for_page(table: Table) -> Mapping[str, Any]:
    """Return a table as plain text for the template: the text of every cell, its spread and its mark."""
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
    return {"table": table, "rows": rows, "notes": notes, "legend": table.legend(), "signatures": table.signatures()}


def _figure(path: Path) -> Mapping[str, Any]:
    """Return a picture for the template; a PNG's width in pixels is in bytes 16 to 20 of its head."""
    data = path.read_bytes()
    pixels = int.from_bytes(data[16:20])
    return {
        "name": path.stem.replace("_", " "),
        "stem": path.stem,
        "caption": caption_of(path.stem),
        "file": path.with_suffix(".pdf").name,
        "data": base64.b64encode(data).decode(),
        "width": round(SHOWN * pixels),
        "page": pixels > RESOLUTION * (COLUMN + PAGE) / 2,
    }
