"""Results in the schema of Every Eval Ever: one JSON file per run, and one JSON Lines file with its texts.

The schema knows two directions, higher and lower. A value whose best value is the human one is exported twice: as the
distance to the human value, where lower is better, and as it is, with unknown polarity and the human value in the
details.
"""

import hashlib
import json
import math
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from openended.harness.core import MetricResult, digest, digest_file, open_for_replacement, parse_direction, write_json
from openended.harness.report.exports.texts import read_texts
from openended.harness.report.tables.selection import make_slug
from openended.harness.results import Results, Run, format_axis_value
from openended.harness.storage import RunRecord, read_record

SCHEMA_VERSION = "0.3.0"
COLLECTION = "openended"
_DECODER_ARGUMENTS = {"decoder.temperature": "temperature", "decoder.p": "top_p", "decoder.k": "top_k"}
_UNKNOWN = "unknown"
_NO_SCORE = {"evaluation": "no score of its own: the metrics compare sets of texts"}
Node = Mapping[str, Any]  # of JSON


def write_every_eval_ever(results: Results, folder: Path, organization: str) -> list[Path]:
    """Write `data/openended/<developer>/<model>/<uuid>.json` for every run, and its texts in `<uuid>_samples.jsonl`."""
    written: list[Path] = []
    for run in results.runs:
        evaluation = describe_run(run, read_record(run.folder), organization)
        developer, model = (make_slug(evaluation["model_info"][name]) for name in ("developer", "name"))
        number = hashlib.sha256(evaluation["evaluation_id"].encode()).digest()[:16]
        name = str(uuid.UUID(bytes=number, version=4))  # the schema wants version 4; equal runs give equal names
        stem = Path("data", COLLECTION, developer, model, name)
        samples = stem.with_name(f"{name}_samples.jsonl")
        if rows := _write_samples(results, run, evaluation, folder / samples):
            details = {"format": "jsonl", "file_path": str(samples), "hash_algorithm": "sha256", "total_rows": rows}
            evaluation["detailed_evaluation_results"] = details | {"checksum": digest_file(folder / samples)}
            written.append(samples)
        write_json(folder / f"{stem}.json", evaluation)
        written.append(Path(f"{stem}.json"))
    return written


def describe_run(run: Run, record: RunRecord, organization: str) -> dict[str, Any]:
    """Return the evaluation of one run, without its texts; what the record does not know is `unknown`."""
    part = (record.spec.get("models") or {}).get("model") or {}
    path = str(run.axes.get("model.path") or run.axes.get("model") or run.axes.get("system") or _UNKNOWN)
    on_hub = path.count("/") == 1 and not path.startswith(("/", ".", "~"))
    is_local = bool(part) and part.get("name") != "openai"
    engine = "vllm" if part.get("name") == "vllm" else "transformers"
    engine_info = _leave_out_unknown({"name": engine, "version": record.packages.get(engine)})
    timestamp = str(int(datetime.fromisoformat(record.created).timestamp()))
    name = f"{COLLECTION}_{make_slug(run.task)}_{run.folder.name.rpartition('-')[2]}"
    model_info = {"name": run.titles["model"] or path.rpartition("/")[2], "id": path}
    model_info |= {"developer": path.partition("/")[0] if on_hub else _UNKNOWN}
    availability = "open_weights" if on_hub and is_local else _UNKNOWN
    deployment = {"deployment_type": "self_deployed" if is_local else _UNKNOWN, "model_availability": availability}
    optional = {"inference_engine": engine_info if is_local else None, "additional_details": deployment}
    source = {"source_name": run.name, "source_type": "evaluation_run", "source_organization_name": organization}
    return {
        "schema_version": SCHEMA_VERSION,
        "evaluation_id": f"{name}/{path}/{timestamp}",
        "evaluation_timestamp": timestamp,
        "retrieved_timestamp": timestamp,
        "source_metadata": source | {"evaluator_relationship": "other"},
        "eval_library": {"name": "openended", "version": record.packages.get("openended", _UNKNOWN)},
        "model_info": model_info | _leave_out_unknown(optional),
        "evaluation_results": list(_describe_results(run)),
    }


def _leave_out_unknown(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the schema that are known: not None and not an empty object."""
    return {name: value for name, value in fields.items() if value is not None and value != {}}


def _describe_results(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the values of the system under test; a value that aims at another comes after its distance to it."""
    is_target = {"human": True, "model": False}  # the human–human reference is one where it is the target
    humans = {r.metric: r.values for r in run.results if is_target.get(r.system, r.direction == "match_human")}
    values = ((row, *entry) for row in run.results if row.system == "model" for entry in row.values.items())
    for row, key, value in (entry for entry in values if math.isfinite(entry[2])):  # the schema has no missing values
        direction, number = parse_direction(row.directions.get(key) or row.direction)
        human = humans.get(row.metric, {}).get(key, math.nan)
        target = human if number is None else number
        if direction in ("match_human", "target") and math.isfinite(target):
            yield _describe_distance(run, row, key, target)
        low, high = (b if math.isfinite(b) else "Infinity" if b > 0 else "-Infinity" for b in row.bounds[key])
        config: dict[str, Any] = {"metric_id": f"openended.{row.metric}.{key}", "metric_name": row.titles.get(key, key)}
        config |= {"lower_is_better": direction == "lower", "min_score": low, "max_score": high}
        if direction not in ("higher", "lower"):
            config["additional_details"] = {"polarity": _UNKNOWN, "direction": direction}
        details = {"human_value": repr(human)} if math.isfinite(human) else {}
        yield _describe_score(run, row, config, value, row.intervals.get(key, {}), details)


def _describe_distance(run: Run, row: MetricResult, key: str, target: float) -> dict[str, Any]:
    """Describe how far a value is from the best one; a positive value without an upper bound as a log ratio."""
    value, interval = row.values[key], row.intervals.get(key, {})
    least, most = row.bounds[key]
    is_ratio = least >= 0 and most == math.inf and min(value, target, interval.get("low", value)) > 0

    def measure_distance(number: float) -> float:
        return abs(math.log(number / target)) if is_ratio else abs(number - target)

    ends: dict[str, Any] = {}
    low, high = interval.get("low", math.nan), interval.get("high", math.nan)
    if math.isfinite(low) and math.isfinite(high):
        distances = sorted((measure_distance(low), measure_distance(high)))
        ends = {"low": 0.0 if low <= target <= high else distances[0], "high": distances[1]}
        ends |= {"level": interval.get("level"), "replicates": interval.get("replicates")}
        ends["method"] = f"{interval.get('method')}, best value held fixed"
    formula = "abs(log(value / best value))" if is_ratio else "abs(value - best value)"
    best = "given" if row.directions.get(key, "").startswith("nearest ") else "the human one"
    kind = "log_distance" if is_ratio else "distance"
    config: dict[str, Any] = {
        "metric_id": f"openended.{row.metric}.{key}.{kind}",
        "metric_name": f"{row.titles.get(key, key)}, {kind.replace('_', ' ')}",
        "evaluation_description": f"{formula}; the best value is {best}",
        "metric_unit": "nats" if is_ratio else "points",
    }
    config |= {"lower_is_better": True, "min_score": 0.0, "max_score": "Infinity"}
    details = {"best_value": repr(target), "value": repr(value)}
    return _describe_score(run, row, config, measure_distance(value), ends, details)


def _describe_score(
    run: Run, row: MetricResult, config: Node, score: float, interval: Node, details: dict[str, str]
) -> dict[str, Any]:
    """Return one entry of `evaluation_results`; options without a field of the schema are text."""
    axes = {name: value for name, value in run.axes.items() if value is not None}
    numbers = {n: v for n, v in axes.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    length = axes.get("max_new_tokens")
    uncertainty: dict[str, Any] = {}
    low, high = interval.get("low", math.nan), interval.get("high", math.nan)
    if math.isfinite(low) and math.isfinite(high):
        method, error = str(interval.get("method", row.resampling)), interval.get("std_error", math.nan)
        ends = {"lower": low, "upper": high, "method": method, "confidence_level": interval.get("level") or None}
        uncertainty = {
            "confidence_interval": _leave_out_unknown(ends),
            "num_samples": row.n_model,
            "standard_error": {"value": error, "method": method} if math.isfinite(error) else None,
            "num_bootstrap_samples": int(interval.get("replicates") or 0) or None,
        }
    identity = {"run": run.name, "metric": config["metric_id"], "signature": row.signature}
    arguments = {new: numbers.get(old) for old, new in _DECODER_ARGUMENTS.items()} | {
        "max_tokens": length if isinstance(length, int) else None,
        "execution_command": " ".join(run.command) or None,
    }
    signature, errors = {"signature": row.signature}, {"uncertainty": _leave_out_unknown(uncertainty)}
    about_data = {"num_examples": str(row.n_human), "digest": run.task_digest or _UNKNOWN}
    about_metric = {"score_type": "continuous", "metric_kind": row.family, "metric_parameters": signature}
    return {
        "evaluation_result_id": digest(identity)[:16],
        "evaluation_name": run.task,
        "source_data": {"dataset_name": run.task, "source_type": "other", "additional_details": about_data},
        "metric_config": {**config, **about_metric},
        "score_details": {"score": score, "details": details | signature} | _leave_out_unknown(errors),
        "generation_config": {
            "generation_args": _leave_out_unknown(arguments),
            "additional_details": {name: format_axis_value(v) for name, v in axes.items()},
        },
    }


def _write_samples(results: Results, run: Run, evaluation: Mapping[str, Any], path: Path) -> int:
    """Write the texts of a run, one line each, with the human continuation as reference; return their number.

    The schema requires a score of every text; the metrics compare sets of texts, and the metadata says so.
    """
    rows, references = read_texts(results, run)
    if rows is None:
        return 0
    shared: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "evaluation_id": evaluation["evaluation_id"]}
    shared |= {"model_id": evaluation["model_info"]["id"], "evaluation_name": run.task, "answer_attribution": []}
    shared |= {"interaction_type": "single_turn", "evaluation": {"score": 0.0, "is_correct": False}}
    count = 0
    with open_for_replacement(path, sync=False) as handle:
        for row in rows:
            text = row.generation
            reference = [references[text.example_id]] if text.example_id in references else []
            line = shared | {"sample_id": f"{text.example_id}#{text.sample}"}
            line |= {"sample_hash": digest([row.prompt, *reference]), "metadata": {"stop": text.stop, **_NO_SCORE}}
            line |= {"input": {"raw": row.prompt, "reference": reference}, "output": {"raw": [text.text]}}
            handle.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count
