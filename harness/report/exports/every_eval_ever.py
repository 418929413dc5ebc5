"""Results in the schema of Every Eval Ever: one JSON file per run, and one JSON Lines file with its texts.

The schema knows two directions, higher and lower. A value whose best value is the human one is exported twice: as the
distance to the human value, where lower is better, and as it is, with unknown polarity and the human value beside it.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from openended.harness.core import Json, digest, digest_file, open_for_replacement, write_json
from openended.harness.report.page.sources import read_rows_of_run
from openended.harness.report.tables.selection import make_slug
from openended.harness.results import Results, Run, format_axis_value
from openended.harness.storage import ResultRow, RunRecord, read_record

SCHEMA_VERSION = "0.3.0"
COLLECTION = "openended"
_DECODER_ARGUMENTS = {"decoder.temperature": "temperature", "decoder.p": "top_p", "decoder.k": "top_k"}
_UNKNOWN = "unknown"


def write_every_eval_ever(results: Results, folder: Path, organization: str) -> list[Path]:
    """Write `data/openended/<developer>/<model>/<uuid>.json` for every run, and its texts in `<uuid>_samples.jsonl`."""
    written: list[Path] = []
    for run in results.runs:
        record = read_record(run.folder)
        evaluation = describe_run(run, record, organization)
        developer, model = (make_slug(evaluation["model_info"][name]) for name in ("developer", "name"))
        stem = Path(
            "data", COLLECTION, developer, model, str(uuid.uuid5(uuid.NAMESPACE_OID, evaluation["evaluation_id"]))
        )
        samples = stem.with_name(f"{stem.name}_samples.jsonl")
        if rows := _write_samples(results, run, evaluation, folder / samples):
            checksum = digest_file(folder / samples)
            evaluation["detailed_evaluation_results"] = {
                "format": "jsonl", "file_path": str(samples), "hash_algorithm": "sha256", "checksum": checksum,
                "total_rows": rows,
            }  # fmt: skip
            written.append(samples)
        write_json(folder / f"{stem}.json", evaluation)
        written.append(Path(f"{stem}.json"))
    return written


def describe_run(run: Run, record: RunRecord, organization: str) -> dict[str, Any]:
    """Return the evaluation of one run, without its texts."""
    model = _describe_model(run, record)
    timestamp = str(int(datetime.fromisoformat(record.created).timestamp()))
    task = make_slug(format_axis_value(run.axes.get("task")) or "texts")
    name = f"{COLLECTION}_{task}_{run.folder.name.rpartition('-')[2]}"
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{name}/{model['id']}/{timestamp}",
        "evaluation_timestamp": timestamp,
        "retrieved_timestamp": timestamp,
        "source_metadata": {
            "source_name": run.name,
            "source_type": "evaluation_run",
            "source_organization_name": organization,
            "evaluator_relationship": "other",
        },
        "eval_library": {"name": "openended", "version": record.packages.get("openended", _UNKNOWN)},
        "model_info": model,
        "evaluation_results": list(_describe_results(run)),
    }


def _describe_model(run: Run, record: RunRecord) -> dict[str, Any]:
    """Return the system's model; what the record does not know is `unknown`."""
    part = record.spec.get("model") or {}
    path = str(run.axes.get("model.path") or run.axes.get("model") or run.axes.get("system") or _UNKNOWN)
    on_hub = path.count("/") == 1 and not path.startswith(("/", ".", "~"))
    is_server = part.get("name") == "openai"
    details = {
        "deployment_type": _UNKNOWN if is_server or not part else "self_deployed",
        "model_availability": "open_weights" if on_hub and part and not is_server else _UNKNOWN,
    }
    title = run.titles["model"] or path.rpartition("/")[2]
    engine = "vllm" if part.get("name") == "vllm" else "transformers"
    version = {"version": record.packages[engine]} if engine in record.packages else {}
    info: dict[str, Any] = {"name": title, "id": path, "developer": path.partition("/")[0] if on_hub else _UNKNOWN}
    info |= {"inference_engine": {"name": engine, **version}} if part and not is_server else {}
    return {**info, "additional_details": details}


def _describe_results(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the values of the system under test; a value that aims at another comes after its distance to it."""
    humans = {row.metric: row for row in run.results if row.system == "human"}
    for row in (row for row in run.results if row.system == "model"):
        for key, value in row.values.items():
            if not math.isfinite(value):
                continue  # the schema has no missing values
            direction = row.directions.get(key) or row.direction
            human = humans[row.metric].values.get(key, math.nan) if row.metric in humans else math.nan
            target = row.targets.get(key, math.nan) if direction == "target" else human
            if direction in ("match_human", "target") and math.isfinite(target):
                yield _describe_distance(run, row, key, target)
            yield _describe_value(run, row, key, direction, human)


def _describe_value(run: Run, row: ResultRow, key: str, direction: str, human: float) -> dict[str, Any]:
    low, high = row.bounds
    config = {
        "metric_id": f"openended.{row.metric}.{key}", "metric_name": row.titles.get(key, key),
        "lower_is_better": direction == "lower", "score_type": "continuous",
        "min_score": _format_bound(low), "max_score": _format_bound(high),
    }  # fmt: skip
    if direction not in ("higher", "lower"):
        config["additional_details"] = {"polarity": _UNKNOWN, "direction": direction}
    details = {"human_value": repr(human)} if math.isfinite(human) else {}
    return _describe_score(run, row, config, row.values[key], row.intervals.get(key, {}), details)


def _describe_distance(run: Run, row: ResultRow, key: str, target: float) -> dict[str, Any]:
    """Describe how far a value is from the best one; a positive value without an upper bound as a log ratio."""
    value, interval = row.values[key], row.intervals.get(key, {})
    is_ratio = row.bounds[0] >= 0 and row.bounds[1] == math.inf and min(value, target, interval.get("low", value)) > 0

    def measure_distance(number: float) -> float:
        return abs(math.log(number / target)) if is_ratio else abs(number - target)

    ends: dict[str, Any] = {}
    low, high = interval.get("low", math.nan), interval.get("high", math.nan)
    if math.isfinite(low) and math.isfinite(high):
        distances = sorted((measure_distance(low), measure_distance(high)))
        ends = {
            "low": 0.0 if low <= target <= high else distances[0], "high": distances[1], "level": interval.get("level"),
            "method": f"{interval.get('method')}, best value held fixed", "replicates": interval.get("replicates"),
        }  # fmt: skip
    formula = "abs(log(value / best value))" if is_ratio else "abs(value - best value)"
    best = "given" if key in row.targets else "the human one"
    config = {
        "metric_id": f"openended.{row.metric}.{key}.distance", "metric_name": f"{row.titles.get(key, key)}, distance",
        "evaluation_description": f"{formula}; the best value is {best}",
        "metric_unit": "nats" if is_ratio else "points", "lower_is_better": True, "score_type": "continuous",
        "min_score": 0.0, "max_score": "Infinity",
    }  # fmt: skip
    details = {"best_value": repr(target), "value": repr(value)}
    return _describe_score(run, row, config, measure_distance(value), ends, details)


def _describe_score(
    run: Run, row: ResultRow, config: Mapping[str, Any], score: float, interval: Mapping[str, Any],
    details: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    """Return one entry of `evaluation_results`."""
    task = format_axis_value(run.axes.get("task")) or "texts"
    score_details: dict[str, Any] = {"score": score, "details": {**details, "signature": row.signature}}
    if uncertainty := _describe_uncertainty(row, interval):
        score_details["uncertainty"] = uncertainty
    data = {"num_examples": str(row.n_human), "digest": str(run.inputs.get("task", _UNKNOWN))}
    return {
        "evaluation_result_id": digest({"run": run.name, "metric": config["metric_id"], "signature": row.signature})[
            :16
        ],
        "evaluation_name": task,
        "source_data": {"dataset_name": task, "source_type": "other", "additional_details": data},
        "metric_config": {**config, "metric_kind": row.family, "metric_parameters": {"signature": row.signature}},
        "score_details": score_details,
        "generation_config": _describe_generation(run),
    }


def _describe_uncertainty(row: ResultRow, interval: Mapping[str, Any]) -> dict[str, Json]:
    """Return the interval over examples in the schema's fields; empty without one."""
    low, high = interval.get("low", math.nan), interval.get("high", math.nan)
    if not (math.isfinite(low) and math.isfinite(high)):
        return {}
    method, error = str(interval.get("method", row.resampling)), interval.get("std_error", math.nan)
    ends: dict[str, Json] = {"lower": low, "upper": high, "method": method}
    ends |= {"confidence_level": interval["level"]} if interval.get("level") else {}
    out: dict[str, Json] = {"confidence_interval": ends, "num_samples": row.n_model}
    out |= {"standard_error": {"value": error, "method": method}} if math.isfinite(error) else {}
    resamples = interval.get("replicates")
    return out | ({"num_bootstrap_samples": int(resamples)} if resamples else {})


def _describe_generation(run: Run) -> dict[str, Any]:
    """Return the decoder's options; those without a field of the schema are text."""
    axes = {name: value for name, value in run.axes.items() if value is not None}
    arguments: dict[str, Any] = {new: axes[old] for old, new in _DECODER_ARGUMENTS.items() if _is_number(axes.get(old))}
    arguments |= {"max_tokens": axes["max_new_tokens"]} if isinstance(axes.get("max_new_tokens"), int) else {}
    arguments |= {"execution_command": " ".join(run.command)} if run.command else {}
    return {
        "generation_args": arguments,
        "additional_details": {name: format_axis_value(v) for name, v in axes.items()},
    }


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _format_bound(value: float) -> float | str:
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _write_samples(results: Results, run: Run, evaluation: Mapping[str, Any], path: Path) -> int:
    """Write the texts of a run, one line each, with the human continuation as reference; return their number.

    The schema requires a score of every text; the metrics compare sets of texts, and the metadata says so.
    """
    rows, human = read_rows_of_run(results, run, "generate", "import"), read_rows_of_run(results, run, "human")
    if rows is None:
        return 0
    references = dict(zip(human.ids, human.each("text"), strict=True)) if human is not None else {}
    count = 0
    with open_for_replacement(path, sync=False) as handle:
        for row in rows:
            text = row.generation
            reference = [references[text.example_id]] if text.example_id in references else []
            line = {
                "schema_version": SCHEMA_VERSION, "evaluation_id": evaluation["evaluation_id"],
                "model_id": evaluation["model_info"]["id"],
                "evaluation_name": format_axis_value(run.axes.get("task")) or "texts",
                "sample_id": f"{text.example_id}#{text.sample}",
                "sample_hash": digest([row.prompt, *reference]), "interaction_type": "single_turn",
                "input": {"raw": row.prompt, "reference": reference}, "output": {"raw": [text.text]},
                "answer_attribution": [], "evaluation": {"score": 0.0, "is_correct": False},
                "metadata": {"stop": text.stop, "evaluation": "no score of its own: the metrics compare sets of texts"},
            }  # fmt: skip
            handle.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count
