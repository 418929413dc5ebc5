"""Results for model repositories of the Hub: `.eval_results/*.yaml` and the `model-index` of a model card."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openended.harness.core import write_text
from openended.harness.report.tables.selection import make_slug
from openended.harness.results import Results, System, SystemValue, find_human_value, group_systems

MODELS = "models"  # folder with one folder per model


def write_hub_files(results: Results, folder: Path, dataset: str | None) -> list[Path]:
    """Write a folder per model below `models`: `README.md` with a model-index, and `.eval_results/<system>.yaml`."""
    humans = [item for item in results.values if item.system != "model"]
    models: dict[str, list[System]] = {}
    for system in group_systems(results.values):
        models.setdefault(system.items[0].titles[0] or system.name, []).append(system)
    written: list[Path] = []
    for title, systems in models.items():
        card = Path(MODELS, make_slug(title), "README.md")
        front = {"model-index": [{"name": title, "results": [_describe_system(s, humans) for s in systems]}]}
        write_text(folder / card, f"---\n{dump_yaml(front)}---\n\n# {title}\n\n{_format_values(systems)}")
        written.append(card)
        for system in systems if dataset is not None else ():
            path = card.with_name(".eval_results") / f"{make_slug(system.name)}.yaml"
            write_text(folder / path, dump_yaml(_list_results(results, system, humans, str(dataset))))
            written.append(path)
    return written


def dump_yaml(node: Any) -> str:  # noqa: ANN401 - any plain data
    """Return a YAML text; the order of keys is kept."""
    import yaml

    return str(yaml.safe_dump(node, sort_keys=False, allow_unicode=True, width=120))


def _describe_system(system: System, humans: Sequence[SystemValue]) -> dict[str, Any]:
    """Return one entry of a model-index: all values of one system on one task."""
    task = system.items[0].axes.get("task") or "texts"
    metrics = [
        {
            "type": f"{item.metric}.{item.key}", "name": f"{item.title} ({system.name})", "value": _round(item.mean),
            "args": _list_facts(item, humans),
        }
        for item in system.items
        if math.isfinite(item.mean)
    ]  # fmt: skip
    return {"task": {"type": "text-generation"}, "dataset": {"name": task, "type": task}, "metrics": metrics}


def _list_results(
    results: Results, system: System, humans: Sequence[SystemValue], dataset: str
) -> list[dict[str, Any]]:
    """Return the entries of one file in `.eval_results`: the primary value of each metric."""
    return [
        {
            "dataset": {"id": dataset, "task_id": item.metric},
            "value": _round(item.mean),
            "date": max(results.runs[at].created for at, _ in item.sources)[:10],
            "evaluation_framework": "openended",
            "notes": "; ".join([system.name, *(f"{n}: {fact}" for n, fact in _list_facts(item, humans).items())]),
        }
        for item in system.items
        if item.primary and math.isfinite(item.mean)
    ]


def _list_facts(item: SystemValue, humans: Sequence[SystemValue]) -> dict[str, Any]:
    """Return the facts that a reader of a value needs: direction, interval or deviation, human value, signature."""
    facts: dict[str, Any] = {"direction": item.direction}
    if item.ends is not None:
        facts["confidence_interval_95"] = [_round(end) for end in item.ends]
    if math.isfinite(item.sd):
        facts |= {"seeds": item.seeds, "standard_deviation": _round(item.sd)}
    human = find_human_value(humans, item)
    if human is not None and math.isfinite(human.mean):
        facts["human_value"] = _round(human.mean)
    return facts | {"signature": item.signature}


def _format_values(systems: Sequence[System]) -> str:
    """Return a Markdown table of the primary values."""
    lines = ["| system | metric | value | 95 % interval or std over seeds |", "| --- | --- | --- | --- |"]
    for system in systems:
        name = system.name.replace("|", "\\|")
        for item in (i for i in system.items if i.primary and math.isfinite(i.mean)):
            spread = f"± {item.sd:.4g}" if math.isfinite(item.sd) else ""
            spread = f"[{item.ends[0]:.4g}, {item.ends[1]:.4g}]" if item.ends is not None else spread
            lines.append(f"| {name} | {item.title} | {item.mean:.4g} | {spread} |")
    return "\n".join([*lines, ""])


def _round(value: float) -> float:
    """Round to the 15 digits that YAML and JSON readers agree on."""
    return float(f"{value:.15g}")
