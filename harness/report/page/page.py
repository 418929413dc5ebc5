"""One HTML file with everything: tables, figures and a reader of the texts; needs no network.

Texts that are too many for one file are in a folder next to it. Nothing but the page's own script runs: its digest is
in the page's policy, and every text is shown as text.
"""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Template
from markupsafe import Markup

from openended.harness.core import to_json, write_text
from openended.harness.report.page.explanations import read_explanations
from openended.harness.report.page.parts import build_parts, fits_inside, to_script_json, write_beside
from openended.harness.report.page.sources import PageTexts, collect_page_texts
from openended.harness.report.tables.formats.html import make_environment
from openended.harness.report.tables.formats.latex import format_latex_rows
from openended.harness.report.tables.frame import Cell, explain_bold
from openended.harness.report.tables.headline import describe_best
from openended.harness.report.tables.pictures import COLUMN, HUMAN_COLOR, PAGE, RESOLUTION, Picture, SystemStyles
from openended.harness.report.tables.selection import collect_commands, format_axis_values, summarize_sources
from openended.harness.report.tables.table import Table
from openended.harness.results import Results, Run, SystemValue, group_systems, order_axes
from openended.harness.storage import warn_of_failure

FOLDER = resources.files("openended.harness.report.page")
SCALE = 0.7  # page pixels per figure pixel: letters have the size of the text, and are sharp on fine screens
SCRIPTS = "core address navigation marks sources example list texts controls story tables figures why main"


@cache
def _compile_template() -> Template:
    """Compile the page's template, once for all reports of a process."""
    return make_environment().from_string((FOLDER / "page.html").read_text(encoding="utf-8"))


def write_page(
    results: Results, tables: Sequence[Table], pictures: Sequence[Picture], path: Path, *,
    compared_results: Mapping[str, Results] | None = None, leaderboard: bool = False,
    failures: list[str] | None = None,
) -> list[Path]:  # fmt: skip
    """Write the page and, if there are many texts, a folder next to it; all text is escaped.

    What its texts fail with is logged, and is added to `failures`; tables and figures are on the page anyway.

    A picture with its content as plain data is interactive. Where two reports are compared, the texts are
    those of `compared_results`: prefix of the systems' names → results. A leaderboard has a filter and no texts.
    """
    sources = [] if leaderboard else list((compared_results or {"": results}).items())
    texts = None
    with warn_of_failure("the page has no texts", [] if failures is None else failures):
        texts = _write_texts(sources, path.parent)
    page_texts, contents, parts, written, explanations = texts or _write_texts([], path.parent)
    contents["styles"] = list_system_styles(results, tables)
    parts["contents"] = to_script_json(contents)
    parts["stories"] = to_script_json(to_json(collect_cell_details(tables)))
    contents_of = {picture.png.stem: picture.content for picture in pictures if picture.content is not None}
    parts |= {"figures": to_script_json(to_json(contents_of))} if contents_of else {}
    parts |= {"why": to_script_json(explanations)} if explanations else {}
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    script = "".join((FOLDER / "js" / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS.split())
    content: dict[str, Any] = {"results": results, "tables": tables, "leaderboard": leaderboard}
    content |= {"title": tables[0].title if tables else "Report", "settings": list_settings(results.runs)}
    # Runs of equal settings in both reports are not seeds of one system.
    content |= {"finding": "" if compared_results else "; ".join(describe_best(results))}
    content |= {"about": summarize_sources(results.values, results.runs), "figures": [*map(_embed_picture, pictures)]}
    content |= {"has_texts": bool(page_texts.sources), "has_why": bool(explanations), "beside": bool(written)}
    files = {"style": style, "script": script}  # our own files; `to_script_json` leaves no `<` in the parts
    content |= {name: Markup(text) for name, text in files.items()}  # noqa: S704
    content |= {f"{name}_hash": _hash(text) for name, text in files.items()}
    page = _compile_template().render(content, parts=[(name, Markup(part)) for name, part in parts.items()])  # noqa: S704
    write_text(path, page)
    return [path, *written]


def _write_texts(
    sources: Sequence[tuple[str, Results]], folder: Path
) -> tuple[PageTexts, dict[str, Any], dict[str, str], list[Path], Any]:
    """Return the texts, the page's contents, the parts with them, or the files next to the page, and explanations."""
    page_texts = collect_page_texts(sources)
    contents, named_parts = build_parts(page_texts)
    if fits_inside(page_texts):
        parts, written = {name: to_script_json(part) for name, part in named_parts}, list[Path]()
    else:
        parts, written = {}, write_beside(named_parts, folder)
    return page_texts, contents, parts, written, read_explanations(page_texts)


def list_system_styles(results: Results, tables: Sequence[Table]) -> dict[str, dict[str, str]]:
    """Return name of a system → its color, marker and dash in the figures."""
    values = {system.name: system.items[0] for system in group_systems(results.values)}
    for row in (row for table in tables for row in table.rows if row.system == "model"):
        sources = {tuple(cell.source.axes.items()): cell.source for cell in row.cells if cell.source is not None}
        if len(sources) == 1:  # a row of a metric is of several systems
            values.setdefault(row.label, *sources.values())
    styles: dict[str, dict[str, str]] = {"human": {"color": HUMAN_COLOR, "marker": "*", "line": "--"}}
    system_styles = SystemStyles(results.values)
    for name, value in values.items():
        (style,) = system_styles.choose([value])
        styles[name] = {"color": style["color"].lower(), "marker": style["marker"], "line": style["linestyle"]}
    return styles


def list_settings(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return every option of the runs with its values, swept options first; unset options are left out."""
    axes = order_axes(name for run in runs for name in run.axes)
    settings = [(axis, values) for axis in axes if (values := format_axis_values(runs, axis))]
    counts = {axis: len({str(run.axes.get(axis)) for run in runs} - {"None"}) for axis, _ in settings}
    return sorted(settings, key=lambda setting: counts[setting[0]] < 2)


def _hash(text: str) -> str:
    """Return the digest of an element for the content security policy."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed_picture(picture: Picture) -> Mapping[str, Any]:
    """Return a picture for the template; a PNG stores its width in pixels in bytes 16 to 20."""
    data = picture.png.read_bytes()
    pixels = int.from_bytes(data[16:20])
    files = {"stem": picture.png.stem, "file": picture.png.with_suffix(".pdf").name}
    image = {"data": base64.b64encode(data).decode(), "width": round(SCALE * pixels)}
    is_wide = pixels > RESOLUTION * (COLUMN + PAGE) / 2
    return {"name": picture.title, "caption": picture.caption, "page": is_wide} | files | image


def collect_cell_details(tables: Sequence[Table]) -> dict[str, Any]:
    """Return the tables' cells; they name shared strings (`texts`) and `settings` by number."""
    numbers: dict[str, int] = {}
    settings: dict[tuple[tuple[str, str], ...], int] = {}

    def share(text: str) -> int:
        return numbers.setdefault(text, len(numbers))

    def describe_source(item: SystemValue, scale: float) -> dict[str, Any]:
        runs = list(dict.fromkeys(run for run, _ in item.sources))
        setting = tuple((name, value) for name, value in item.axes.items() if value)
        details: dict[str, Any] = {
            "signature": share(item.signature),
            "seeds": {seed: scale * value if math.isfinite(value) else None for seed, value in item.values.items()},
            "settings": settings.setdefault(setting, len(settings)),
            "commands": [share(line.removeprefix("Command: ")) for line in collect_commands(runs)],
            "runs": [share(run.name) for run in runs],
        }
        details |= {"sd": scale * item.sd} if math.isfinite(item.sd) else {}
        return details | ({"error": scale * item.metric_error} if math.isfinite(item.metric_error) else {})

    def describe_cell(cell: Cell) -> dict[str, Any]:
        details: dict[str, Any] = {"text": " ".join(filter(None, (f"{cell.number}{cell.mark}", cell.spread)))}
        details |= {"value": cell.value} if math.isfinite(cell.value) else {}
        details |= {name: text for name, text in (("note", cell.note), ("bold", explain_bold(cell))) if text}
        details |= {"interval": list(cell.interval)} if cell.interval else {}
        return details | (describe_source(cell.source, cell.scale) if cell.source is not None else {})

    described = []
    for table in tables:
        rows = [
            {"label": row.label, "latex": latex, "cells": list(map(describe_cell, row.cells))}
            for row, latex in zip(table.rows, format_latex_rows(table), strict=True)
        ]
        columns = [{"title": c.heading, "signature": share(c.signature)} for c in table.columns]
        described.append({"title": table.title, "columns": columns, "rows": rows})
    return {"tables": described, "texts": list(numbers), "settings": [dict(setting) for setting in settings]}
