"""One HTML file with everything: tables, figures and a viewer of the texts; needs no network and no other file."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openended.harness.io import write_text
from openended.harness.report.figures.drawing import COLUMN, PAGE, RESOLUTION
from openended.harness.report.page.captions import caption_of
from openended.harness.report.page.settings import settings_of
from openended.harness.report.read.axes import head_of
from openended.harness.report.read.stored import stored_file
from openended.harness.report.tables.about import about_of
from openended.harness.report.tables.table import Cell, Table

if TYPE_CHECKING:
    from openended.harness.report.read.frame import Results, Run

EXAMPLES = 20  # of each task in the viewer
MOST_SYSTEMS = 24  # in the viewer; a page of a thousand runs must still open
LONGEST = 4000  # characters of a text that are shown
SHOWN = 0.7  # pixels of the page for a pixel of a figure: letters as large as the text, and sharp on fine screens
FILES = {"human": "human.arrow", "generate": "data.arrow", "import": "data.arrow"}  # stage → its rows


@dataclass(frozen=True, slots=True)
class Text:
    """One continuation in the viewer."""

    system: str
    text: str
    stop: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt and what everybody wrote after it."""

    id: str
    prompt: str
    texts: tuple[Text, ...]


def write_page(results: Results, tables: Sequence[Table], figures: Sequence[Path], path: Path) -> Path:
    """Write the page; all text is escaped."""
    from jinja2 import Environment, StrictUndefined

    from openended.harness.report.read.fold import fold

    template = (resources.files("openended.harness.report.page") / "page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    systems, samples = collect_samples(results)
    page = environment.from_string(template).render(
        tables=[_for_page(t) for t in tables],
        figures=[_figure(p) for p in figures if p.suffix == ".png"],
        samples=samples,
        systems=systems,
        counts=_counts(results),
        about=about_of(fold(results), results.runs),
        settings=settings_of(results.runs),
    )
    write_text(path, page)
    return path


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
        "caption": caption_of(path.stem),
        "file": path.with_suffix(".pdf").name,
        "data": base64.b64encode(data).decode(),
        "width": round(SHOWN * pixels),
        "page": pixels > RESOLUTION * (COLUMN + PAGE) / 2,
    }


def collect_samples(results: Results) -> tuple[list[str], list[Sample]]:
    """Return the systems shown and the first examples with the texts of the human and of each system.

    Of a system with several seeds the first is shown. Runs whose texts are no longer in the store are passed over.
    """
    # Two tasks, or one task with two lengths, may give one id to two prompts.
    texts: dict[tuple[str, str], dict[str, Text]] = {}
    prompts: dict[tuple[str, str], str] = {}
    systems: dict[str, None] = {}
    for label, run in _shown_runs(results):
        generated = _rows(results, run, "generate", "import")
        if not generated or len(systems) >= MOST_SYSTEMS:
            continue
        systems[label] = None
        for kind, rows in (("human", _rows(results, run, "human")), (label, generated)):
            for row in rows:
                key = row.example_id, _human_side(run)
                prompts.setdefault(key, row.prompt)
                texts.setdefault(key, {}).setdefault(kind, Text(kind, row.text, row.stop))
    samples = [
        Sample(key[0], prompts[key], tuple(own[s] for s in ("human", *systems) if s in own))
        for key, own in sorted(texts.items())
    ]
    return (["human", *systems] if systems else []), samples


def _human_side(run: Run) -> str:
    """Name what prompts and human texts of a run depend on."""
    kept = (n for n in run.axes if "task" in (n, head_of(n)) or n in ("max_new_tokens", "num_examples"))
    return str(run.axes.get("task.texts") or sorted((n, str(run.axes[n])) for n in kept))


def _shown_runs(results: Results) -> Iterator[tuple[str, Run]]:
    """Yield one run a system, in the order of the tables, under the name that the tables use."""
    from openended.harness.report.read.fold import fold
    from openended.harness.report.read.systems import systems_of

    for system in systems_of(fold(results)):
        yield system.label.replace(r"\$", "$"), results.runs[system.items[0].sources[0][0]]


@dataclass(frozen=True, slots=True)
class _Row:
    example_id: str
    prompt: str
    text: str
    stop: str


def _rows(results: Results, run: Run, *stages: str) -> list[_Row]:
    """Read the first rows that a stage left; nothing where they are no longer in the store, or damaged."""
    import pyarrow as pa

    # A run names what it read `stage:what`.
    stage, artefact = next(
        ((n.partition(":")[0], a) for n, a in run.inputs.items() if n.partition(":")[0] in stages), ("", "")
    )
    path = stored_file(run.store, artefact, FILES.get(stage, ""), results.damaged)
    if path is None:
        return []
    wanted = ["example_id", "prompt", "text", "stop"]
    rows: list[_Row] = []
    with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
        for batch in reader:
            found = batch.slice(0, EXAMPLES - len(rows)).select(wanted).to_pylist()
            rows += [_Row(r["example_id"], r["prompt"], r["text"][:LONGEST], r["stop"] or "") for r in found]
            if len(rows) >= EXAMPLES:
                break
    return rows
