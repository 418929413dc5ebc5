"""Generations with a Croissant description, which dataset search engines and `mlcroissant` read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openended.harness.core import write_json
from openended.harness.report.exports.generations import FIELDS, TextFile, write_generations
from openended.harness.report.tables.run_summary import summarize_sources
from openended.harness.results import Results

METADATA = "croissant.json"
_TERMS = (
    "citeAs column equivalentProperty extract field fileObject fileProperty fileSet format includes isLiveDataset "
    "jsonPath key md5 parentField path recordSet references regex repeated replace samplingRate separator source "
    "subField transform"
)
# The context that Croissant 1.0 prescribes.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
}
_TYPES = {"sample": "sc:Integer"}  # the other fields are text


def write_croissant(results: Results, folder: Path, name: str) -> list[Path]:
    """Write the texts of the runs and `croissant.json`, which describes them."""
    files = write_generations(results, folder)
    write_json(folder / METADATA, describe_files(files, name, results))
    return [*(file.path for file in files), Path(METADATA)]


def describe_files(files: Sequence[TextFile], name: str, results: Results) -> dict[str, Any]:
    """Return the Croissant description of files of texts."""
    published = max(run.created for run in results.runs)[:10]
    about = " ".join(summarize_sources(results.values, results.runs)[:1])
    return {
        "@context": _CONTEXT, "@type": "sc:Dataset", "conformsTo": "http://mlcommons.org/croissant/1.0", "name": name,
        "description": f"Texts of {len({file.system for file in files})} systems, human texts included. {about}",
        "datePublished": published, "version": "1.0.0",
        "distribution": [_describe_file(file) for file in files],
        "recordSet": [_describe_records(file) for file in files],
    }  # fmt: skip


def _describe_file(file: TextFile) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject", "@id": str(file.path), "name": str(file.path), "contentUrl": str(file.path),
        "encodingFormat": "application/jsonlines", "sha256": file.sha256, "contentSize": f"{file.size} B",
    }  # fmt: skip


def _describe_records(file: TextFile) -> dict[str, Any]:
    name = str(file.path.with_suffix("").relative_to("generations")).replace("/", "_")
    seed = f", seed {file.seed}" if file.seed else ""
    fields = [
        {
            "@type": "cr:Field", "@id": f"{name}/{field}", "name": f"{name}/{field}", "description": meaning,
            "dataType": _TYPES.get(field, "sc:Text"),
            "source": {"fileObject": {"@id": str(file.path)}, "extract": {"column": field}},
        }
        for field, meaning in FIELDS.items()
    ]  # fmt: skip
    description = f"{file.rows} texts of {file.system}{seed} on {file.task}."
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "description": description, "field": fields}
