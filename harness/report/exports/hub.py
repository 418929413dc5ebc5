"""Results for the Hub: metadata of model repositories, and the folder of a dataset repository."""

import math
import shutil
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from openended.harness.core import DataError, StoreError, format_error, require_package, write_text
from openended.harness.report.atomic_folder import replace_folder
from openended.harness.report.exports.texts import FIELDS, METADATA, TextFile, write_croissant
from openended.harness.report.tables.formats.text import to_markdown
from openended.harness.report.tables.selection import collect_commands, make_slug, summarize_sources
from openended.harness.report.tables.table import Table
from openended.harness.results import Results, SystemValue, find_human_value, group_systems, write_frame
from openended.harness.storage import RECORD

MODELS = "models"  # folder with one folder per model
CARD = "README.md"
REPORT = ("index.html", "report.html", "page", "tables", "figures")  # what is copied of a report
FILES = (CARD, "records", "generations", "report", METADATA, "results.parquet", "results.csv")


def write_hub_files(results: Results, folder: Path, dataset: str) -> list[Path]:
    """Write `models/<model>/.eval_results/<system>.yaml` for model repositories, filed under a dataset repository."""
    humans = [item for item in results.values if item.system != "model"]
    written: list[Path] = []
    for system in group_systems(results.values):
        model, name = (make_slug(title) for title in (system.items[0].titles[0] or system.name, system.name))
        entries = [  # the primary value of each metric
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
        written.append(Path(MODELS, model, ".eval_results", f"{name}.yaml"))
        write_text(folder / written[-1], dump_yaml(entries))
    return written


def dump_yaml(node: Any) -> str:  # noqa: ANN401 - any plain data
    """Return a YAML text; the order of keys is kept."""
    import yaml

    return str(yaml.safe_dump(node, sort_keys=False, allow_unicode=True, width=120))


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


def write_hub_folder(
    results: Results, folder: Path, repo_id: str, *, tables: Sequence[Table], report: Path | None = None
) -> list[Path]:
    """Write everything that `openended push` uploads.

    Args:
        results: The runs.
        folder: Replaced if it exists.
        repo_id: `owner/name` of the dataset repository.
        tables: Shown on the card.
        report: Folder of a report, which is copied; None: there is none.

    Returns:
        The files.

    Raises:
        StoreError: If the folder cannot be written.
    """
    with replace_folder(folder, FILES) as fresh:
        for run in results.runs:
            target = fresh / "records" / run.experiment / f"{run.folder.name}.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run.folder / RECORD, target)
        write_frame(results, fresh)
        try:
            files = write_croissant(results, fresh, repo_id.rpartition("/")[2])
        except DataError:  # the store no longer has the texts
            files = []
        if report is not None:
            (fresh / "report").mkdir()
            for source in filter(Path.exists, (report / name for name in REPORT)):
                copy = shutil.copytree if source.is_dir() else shutil.copyfile
                copy(source, fresh / "report" / source.name)
        write_text(fresh / CARD, _format_card(results, files, repo_id, tables, has_report=report is not None))
        return sorted(folder / path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file())


def _format_card(
    results: Results, files: Sequence[TextFile], repo_id: str, tables: Sequence[Table], *, has_report: bool
) -> str:
    """Return the dataset card: what the records say, and how to score the texts again."""
    configs: list[dict[str, object]] = [{"config_name": "results", "data_files": "results.parquet", "default": True}]
    configs += [{"config_name": "generations", "data_files": "generations/**/*.jsonl"}] if files else []
    sides = {file.system == "human": file.path for file in reversed(files)}  # the first human text, the first system
    address = f"hf://datasets/{repo_id}"
    command = f"openended score {address}/{sides[False]} --human {address}/{sides[True]}" if len(sides) > 1 else ""
    template = (resources.files(__package__) / "card.md").read_text(encoding="utf-8")
    environment = Environment(undefined=StrictUndefined, trim_blocks=True)  # noqa: S701 - Markdown
    return environment.from_string(template).render(
        front=dump_yaml({"tags": ["openended", "text-generation", "evaluation"], "configs": configs}),
        name=repo_id.rpartition("/")[2], about=summarize_sources(results.values, results.runs),
        tables=map(to_markdown, tables), has_report=has_report, fields=FIELDS if files else {}, command=command,
        commands=[line.removeprefix("Command: ") for line in collect_commands(results.runs)],
    )  # fmt: skip


def upload_folder(folder: Path, repo_id: str, *, private: bool) -> str:
    """Upload a folder to a dataset repository, which is created if missing; return its address.

    Raises:
        ExtraNotInstalled: If huggingface_hub is missing.
        StoreError: If the Hub refuses or cannot be reached; the folder stays.
    """
    require_package("huggingface_hub", "hub")
    from huggingface_hub import HfApi

    api = HfApi()
    try:
        api.create_repo(repo_id, repo_type="dataset", private=private, exist_ok=True)
        api.upload_folder(
            folder_path=folder, repo_id=repo_id, repo_type="dataset", commit_message="Results measured with openended"
        )
    except Exception as err:  # the errors of its HTTP client have no common base
        raise StoreError(
            f"{repo_id}: not uploaded ({type(err).__name__}: {format_error(err)}); the folder {folder} is complete"
        ) from err
    return f"{api.endpoint}/datasets/{repo_id}"
