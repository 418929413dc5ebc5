"""The folder of a dataset repository on the Hub: card, values, records, texts and report of a name."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from openended.harness.core import DataError, StoreError, format_error, require_package, write_text
from openended.harness.report.atomic_folder import replace_folder
from openended.harness.report.exports.hub_files import dump_yaml
from openended.harness.report.exports.texts import FIELDS, METADATA, TextFile, write_croissant
from openended.harness.report.tables.formats.markdown import to_markdown
from openended.harness.report.tables.run_summary import collect_commands, summarize_sources
from openended.harness.report.tables.table import Table
from openended.harness.results import Results, write_frame
from openended.harness.storage import RECORD

CARD = "README.md"
REPORT = ("index.html", "report.html", "page", "tables", "figures")  # what is copied of a report
FILES = (CARD, "records", "generations", "report", METADATA, "results.parquet", "results.csv")


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
        for name in REPORT if report is not None else ():
            source, target = Path(str(report)) / name, fresh / "report" / name
            if source.is_dir():
                shutil.copytree(source, target)
            elif source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        write_text(fresh / CARD, _format_card(results, files, repo_id, tables, has_report=report is not None))
        return sorted(folder / path.relative_to(fresh) for path in fresh.rglob("*") if path.is_file())


def _format_card(
    results: Results, files: Sequence[TextFile], repo_id: str, tables: Sequence[Table], *, has_report: bool
) -> str:
    """Return the dataset card: what the records say, and how to score the texts again."""
    configs: list[dict[str, object]] = [{"config_name": "results", "data_files": "results.parquet", "default": True}]
    configs += [{"config_name": "generations", "data_files": "generations/**/*.jsonl"}] if files else []
    front = {"tags": ["openended", "text-generation", "evaluation"], "configs": configs}
    commands = [line.removeprefix("Command: ") for line in collect_commands(results.runs)]
    lines = [
        f"---\n{dump_yaml(front)}---\n", f"# {repo_id.rpartition('/')[2]}\n",
        "Values and texts of open-ended text generation, measured with `openended`.\n",
        *(f"- {line}" for line in summarize_sources(results.values, results.runs)), "",
        *map(to_markdown, tables),
        "## Files\n", "- `results.parquet`, `results.csv`: one row per value, with interval and signature",
        "- `records/`: the record of every run: options, versions, hardware, digests of the inputs",
        *(["- `report/`: tables, figures and the page of the report"] if has_report else []),
        *_describe_texts(files, repo_id),
        *(["\n## Commands\n", "```", *commands, "```"] if commands else []), "",
    ]  # fmt: skip
    return "\n".join(lines)


def _describe_texts(files: Sequence[TextFile], repo_id: str) -> list[str]:
    """Return the lines about the texts; empty if there are none."""
    if not files:
        return []
    lines = ["- `generations/`: the texts, one file per task, system and seed; `croissant.json` describes them\n"]
    lines += ["| field | meaning |", "| --- | --- |", *(f"| `{name}` | {text} |" for name, text in FIELDS.items())]
    human = next((file for file in files if file.system == "human"), None)
    system = next((file for file in files if file.system != "human"), None)
    if human is None or system is None:
        return lines
    address = f"hf://datasets/{repo_id}"
    command = f"openended score {address}/{system.path} --human {address}/{human.path}"
    return [*lines, "\nScore them again:\n", "```", command, "```"]


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
