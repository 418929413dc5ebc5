"""The texts of runs as JSON lines, one file per task, system and seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openended.harness.core import DataError, open_for_replacement
from openended.harness.report.page.sources import HUMAN, TextSource, collect_page_texts
from openended.harness.report.tables.selection import make_slug
from openended.harness.results import Results

FIELDS: Mapping[str, str] = {
    "example_id": "Id of the example in its task.",
    "sample": "Number of the draw for this prompt; 0 for human texts.",
    "prompt": "What the text continues; empty for unconditional text.",
    "text": "The continuation, without the prompt.",
    "stop": "`eos`: the text ended by itself; `length`: it was cut at the maximum length.",
    "system": "The system as the tables of the report name it; `human` for the human texts.",
    "seed": "Seed of the run; empty for human texts.",
    "task": "Task that the prompts are from.",
}
"""Name of each field of a line → its meaning."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """One written file of texts."""

    path: Path
    """Relative to the folder of the export."""
    task: str
    system: str
    seed: str
    rows: int
    sha256: str
    size: int
    """In bytes."""
    runs: tuple[int, ...]
    """Indices into `Results.runs` of the runs that have these texts."""


def write_generations(results: Results, folder: Path) -> list[TextFile]:
    """Write the texts of every system and of the human side under `folder/generations`."""
    texts = collect_page_texts([("", results)])
    names = [side.name for side in texts.sides]
    files: list[TextFile] = []
    used: set[str] = set()
    for source in texts.sources:
        seed = "" if source.role == HUMAN or source.seed == "–" else source.seed
        task = names[source.side]
        stem = "/".join((make_slug(task), make_slug(source.system) + (f"-seed{make_slug(seed)}" if seed else "")))
        while stem in used:
            stem += "_"
        used.add(stem)
        files.append(_write_texts(source, folder, Path("generations", f"{stem}.jsonl"), task, seed))
    if not files:
        raise DataError("no texts to export: the runs' texts are not in the store, or the runs have none")
    return files


def _write_texts(source: TextSource, folder: Path, path: Path, task: str, seed: str) -> TextFile:
    """Write the rows of one source."""
    digest, size, count = hashlib.sha256(), 0, 0
    with open_for_replacement(folder / path, "wb", sync=False) as handle:
        for row in source.rows:
            text = row.generation
            values = (text.example_id, text.sample, row.prompt, text.text, text.stop, source.system, seed, task)
            data = f"{json.dumps(dict(zip(FIELDS, values, strict=True)), ensure_ascii=False)}\n".encode()
            handle.write(data)
            digest.update(data)
            size, count = size + len(data), count + 1
    return TextFile(path, task, source.system, seed, count, digest.hexdigest(), size, source.runs)
