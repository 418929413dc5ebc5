"""The texts of runs as JSON lines, one file per task, system and seed, and their Croissant description.

Dataset search engines and `mlcroissant` read the description.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, open_for_replacement, write_json
from openended.harness.report.page.sources import HUMAN, TextSource, collect_page_texts
from openended.harness.report.tables.selection import make_slug, summarize_sources
from openended.harness.results import Results, Run, read_rows_of_run
from openended.harness.storage import RowFile

METADATA = "croissant.json"
FIELDS: Mapping[str, str] = {
    "example_id": "Id of the example in its task.", "sample": "Number of the draw for this prompt; 0 for human texts.",
    "prompt": "What the text continues; empty for unconditional text.", "text": "The continuation, without the prompt.",
    "stop": "`eos`: the text ended by itself; `length`: it was cut at the maximum length.",
    "system": "The system as the tables of the report name it; `human` for the human texts.",
    "seed": "Seed of the run; empty for human texts.", "task": "Task that the prompts are from.",
}  # fmt: skip
"""Name of each field of a line → its meaning."""
_TYPES = {"sample": "sc:Integer"}  # the other fields are text
_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
_CROISSANT, _SCHEMA = "http://mlcommons.org/croissant/", "https://schema.org/"
# The context that Croissant 1.0 prescribes.
_CONTEXT: dict[str, Any] = {"@language": "en", "@vocab": _SCHEMA, "conformsTo": "dct:conformsTo", "cr": _CROISSANT}
_CONTEXT |= {"dct": "http://purl.org/dc/terms/", "rai": f"{_CROISSANT}RAI/", "sc": _SCHEMA}
_CONTEXT |= {name: {"@id": f"cr:{name}", "@type": "@json"} for name in ("data", "examples")}
_CONTEXT |= {"dataType": {"@id": "cr:dataType", "@type": "@vocab"}}
_CONTEXT |= {term: f"cr:{term}" for term in _TERMS.split()}


@dataclass(frozen=True, slots=True)
class TextFile:
    """One written file of texts."""

    path: Path  # relative to the folder of the export
    task: str
    system: str
    seed: str
    rows: int
    sha256: str
    size: int  # in bytes


def read_texts(results: Results, run: Run) -> tuple[RowFile | None, dict[str, str]]:
    """Return the texts of a run, None if they are not in the store, and example id → human text."""
    rows, human = read_rows_of_run(results, run, "model"), read_rows_of_run(results, run, "human")
    return rows, dict(zip(human.ids, human.each("text"), strict=True)) if human is not None else {}


def write_croissant(results: Results, folder: Path, name: str) -> list[TextFile]:
    """Write the texts of every system and of the human side under `folder/generations`, and `croissant.json`."""
    texts = collect_page_texts([("", results)])
    files: list[TextFile] = []
    used: set[str] = set()
    for source in texts.sources:
        seed = "" if source.role == HUMAN or source.seed == "–" else source.seed
        task = texts.sides[source.side].name
        stem = "/".join((make_slug(task), make_slug(source.system) + (f"-seed{make_slug(seed)}" if seed else "")))
        while stem in used:
            stem += "_"
        used.add(stem)
        files.append(_write_texts(source, folder, Path("generations", f"{stem}.jsonl"), task, seed))
    if not files:
        raise DataError("no texts to export: the runs' texts are not in the store, or the runs have none")
    write_json(folder / METADATA, describe_files(files, name, results))
    return files


def _write_texts(source: TextSource, folder: Path, path: Path, task: str, seed: str) -> TextFile:
    digest, size, count = hashlib.sha256(), 0, 0
    with open_for_replacement(folder / path, "wb", sync=False) as handle:
        for row in source.rows:
            text = row.generation
            values = (text.example_id, text.sample, row.prompt, text.text, text.stop, source.system, seed, task)
            data = f"{json.dumps(dict(zip(FIELDS, values, strict=True)), ensure_ascii=False)}\n".encode()
            handle.write(data)
            digest.update(data)
            size, count = size + len(data), count + 1
    return TextFile(path, task, source.system, seed, count, digest.hexdigest(), size)


def describe_files(files: Sequence[TextFile], name: str, results: Results) -> dict[str, Any]:
    """Return the Croissant description of files of texts."""
    about = " ".join(summarize_sources(results.values, results.runs)[:1])
    names = {str(f.path.with_suffix("").relative_to("generations")).replace("/", "_"): f for f in files}
    file_objects = [
        {"@type": "cr:FileObject", "@id": str(f.path), "name": str(f.path), "contentUrl": str(f.path)}
        | {"encodingFormat": "application/jsonlines", "sha256": f.sha256, "contentSize": f"{f.size} B"}
        for f in files
    ]
    record_sets = []
    for name_of_set, f in names.items():
        fields = [
            {"@type": "cr:Field", "@id": f"{name_of_set}/{field}", "name": f"{name_of_set}/{field}"}
            | {"description": meaning, "dataType": _TYPES.get(field, "sc:Text")}
            | {"source": {"fileObject": {"@id": str(f.path)}, "extract": {"column": field}}}
            for field, meaning in FIELDS.items()
        ]
        text = f"{f.rows} texts of {f.system}{f', seed {f.seed}' if f.seed else ''} on {f.task}."
        identity = {"@type": "cr:RecordSet", "@id": name_of_set, "name": name_of_set}
        record_sets.append(identity | {"description": text, "field": fields})
    text = f"Texts of {len({file.system for file in files})} systems, human texts included. {about}"
    described = {"@context": _CONTEXT, "@type": "sc:Dataset", "conformsTo": f"{_CROISSANT}1.0", "name": name}
    described |= {"description": text, "datePublished": max(run.created for run in results.runs)[:10]}
    return described | {"version": "1.0.0", "distribution": file_objects, "recordSet": record_sets}
