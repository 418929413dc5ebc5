"""Runs as logs of Inspect: one `.eval` archive per run, with its texts, and the values of single texts as scores.

`inspect view` opens them, Inspect's own functions read them, and `openended compare` does. Values of sets of texts, as
MAUVE, are the log's results without scores of samples.
"""

import json
import math
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openended.harness.core import DataError, digest, open_for_replacement
from openended.harness.report.exports.texts import read_texts
from openended.harness.report.tables.selection import make_slug
from openended.harness.results import Results, Run, format_axis_value

_STOPS = {"eos": "stop", "length": "max_tokens"}


def write_inspect_logs(results: Results, folder: Path) -> list[Path]:
    """Write `logs/<run>.eval` for every run whose texts are in the store; return the files, relative to the folder."""
    written = []
    for run in results.runs:
        samples = list(_describe_samples(results, run))
        if not samples:
            continue
        name = make_slug(" ".join(filter(None, run.titles.values())) or "texts")
        path = Path("logs", f"{name}-{run.folder.name.rpartition('-')[2]}.eval")
        header, brief = _describe_run(run, samples), ("id", "epoch", "input", "target", "scores", "metadata")
        members: dict[str, Any] = {f"samples/{s['id']}_epoch_{s['epoch']}.json": s for s in samples}
        members["summaries.json"] = [{n: s[n] for n in brief} | {"completed": True} for s in samples]
        members |= {"_journal/start.json": {n: header[n] for n in ("version", "eval", "plan")}, "header.json": header}
        with open_for_replacement(folder / path, "wb") as handle, zipfile.ZipFile(handle, "w") as archive:
            for member, content in members.items():  # with one date: equal runs give equal bytes
                data = json.dumps(content, ensure_ascii=False, allow_nan=False)
                archive.writestr(zipfile.ZipInfo(member), data, zipfile.ZIP_DEFLATED)
        written.append(path)
    if not written:
        raise DataError("no texts to export: the runs' texts are not in the store, or the runs have none")
    return written


def _describe_run(run: Run, samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the header of the log of a run."""
    number = digest([run.name, run.folder.name])[:22]
    ids = list(dict.fromkeys(sample["id"] for sample in samples))
    model = " ".join(filter(None, run.titles.values())) or "texts"
    spec: dict[str, Any] = dict.fromkeys(("eval_id", "run_id", "task_id"), number)
    spec |= {"created": run.created, "task": run.task, "task_version": 0, "model": f"openended/{model}"}
    spec |= {name: {} for name in ("task_args", "model_args", "model_generate_config", "packages")}
    spec["config"] = {"epochs": len(samples) // len(ids)}
    spec["dataset"] = {"name": run.task, "samples": len(ids), "sample_ids": ids, "shuffled": False}
    spec["metadata"] = {name: format_axis_value(value) for name, value in run.axes.items() if value is not None}
    scores = []
    for row in (row for row in run.results if row.system == "model"):
        metrics = {k: {"name": k, "value": v, "params": {}} for k, v in row.values.items() if math.isfinite(v)}
        directions = {key: row.directions.get(key) or row.direction for key in metrics}
        params = {"signature": row.signature, "directions": directions}
        scores += [{"name": row.metric, "scorer": row.metric, "metrics": metrics, "params": params}] if metrics else []
    return {
        "version": 2,
        "status": "success",
        "eval": spec,
        "plan": {"name": "plan", "steps": [{"solver": "openended", "params": {}}], "config": {}},
        "results": {"total_samples": len(samples), "completed_samples": len(samples), "scores": scores},
        "stats": {"started_at": run.created, "completed_at": run.created, "model_usage": {}},
    }


def _describe_samples(results: Results, run: Run) -> Iterator[dict[str, Any]]:
    rows, references = read_texts(results, run)
    if rows is None:
        return
    scored: dict[str, dict[str, Any]] = {}  # metric → key → values of single texts
    for result in (r for r in run.results if r.system == "model"):
        arrays = results.arrays(run, result.artifact)
        values = {key: arrays[f"per_example/{key}"] for key in result.values if f"per_example/{key}" in arrays}
        scored[result.metric] = {key: of for key, of in values.items() if len(of) == len(rows)}
    for number, row in enumerate(rows):
        text = row.generation
        scores: dict[str, Any] = {}
        for metric, of in scored.items():
            numbers = {key: float(values[number]) for key, values in of.items() if math.isfinite(values[number])}
            scores |= {metric: {"value": numbers, "answer": text.text}} if numbers else {}
        message = {"role": "assistant", "content": text.text, "source": "generate"}
        choices = [{"message": message, "stop_reason": _STOPS.get(text.stop, "unknown")}]
        sample = {"id": text.example_id, "epoch": text.sample + 1, "input": row.prompt, "scores": scores}
        sample |= {"target": references.get(text.example_id, ""), "events": []}
        sample |= {"messages": [{"role": "user", "content": row.prompt, "source": "input"}, message]}
        sample |= {"output": {"model": "openended", "completion": text.text, "choices": choices}}
        yield sample | {name: {} for name in ("metadata", "store", "attachments", "model_usage")}
