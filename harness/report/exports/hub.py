"""Results for the Hub: metadata of model repositories."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openended.harness.core import write_text
from openended.harness.report.tables.selection import make_slug
from openended.harness.results import Results, SystemValue, find_human_value, group_systems

MODELS = "models"  # folder with one folder per model


def write_hub_files(results: Results, folder: Path, dataset: str) -> list[Path]:
    """Write `models/<model>/.eval_results/<system>.yaml` for model repositories, filed under a dataset repository."""
    import yaml

    humans = [item for item in results.values if item.system != "model"]
    written: list[Path] = []
    for system in group_systems(results.values):
        model, name = (make_slug(title) for title in (system.items[0].titles[0] or system.name, system.name))
        entries = [  # the primary value of each metric
            {
                "dataset": {"id": dataset, "task_id": item.metric},
                "value": _round(item.mean),
                "date": max(run.created for run, _ in item.sources)[:10],
                "evaluation_framework": "openended",
                "notes": "; ".join([system.name, *(f"{n}: {fact}" for n, fact in _list_facts(item, humans).items())]),
            }
            for item in system.items
            if item.primary and math.isfinite(item.mean)
        ]
        written.append(Path(MODELS, model, ".eval_results", f"{name}.yaml"))
        text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=120)
        write_text(folder / written[-1], text)
    return written


def _list_facts(item: SystemValue, humans: Sequence[SystemValue]) -> dict[str, Any]:
    """Return the facts that a reader of a value needs: direction, interval or deviation, human value, signature."""
    facts: dict[str, Any] = {"direction": item.direction}
    if item.interval is not None:
        facts["confidence_interval_95"] = [_round(end) for end in item.interval]
    if math.isfinite(item.sd):
        facts |= {"seeds": item.seeds, "standard_deviation": _round(item.sd)}
    human = find_human_value(humans, item)
    if human is not None and math.isfinite(human.mean):
        facts["human_value"] = _round(human.mean)
    return facts | {"signature": item.signature}


def _round(value: float) -> float:
    """Round to the 15 digits that YAML and JSON readers agree on."""
    return float(f"{value:.15g}")
