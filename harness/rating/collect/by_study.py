"""Assign answer files to their studies."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from openended.harness.core import DataError, read_json
from openended.harness.rating.collect.answers_database import DATABASE_ERRORS, is_database, open_database
from openended.harness.rating.key import KEY, StudyKey, find_key, read_key


def group_files_by_study(
    files: Sequence[Path], search_paths: Sequence[Path], named: Sequence[Path] | None
) -> list[tuple[StudyKey, list[Path]]]:
    """Return each study's key with its files; a file of no known study goes to the first key, which refuses it."""
    key_paths: dict[Path, None] = {}
    for start in named or search_paths:
        try:
            key_paths[find_key(start if named else None, [start])] = None
        except DataError:
            continue
    if not key_paths:
        raise DataError(f"no {KEY} beside these files: name the folder of the study with --key STUDY")
    keys = [read_key(path) for path in key_paths]
    files_by_study: dict[str, list[Path]] = {key.study: [] for key in keys}
    for file in files:
        study = _read_study_id(file)
        files_by_study[study if study in files_by_study else keys[0].study].append(file)
    return [(key, files_by_study[key.study]) for key in keys if files_by_study[key.study]]


def _read_study_id(path: Path) -> str:
    """Return the study id in a file; empty if it has none."""
    try:
        if is_database(path):
            with open_database(path) as base:
                row = base.execute("SELECT value FROM facts WHERE name = 'study'").fetchone()
            return str(row[0]) if row else ""
        content = read_json(path)
    except (DataError, *DATABASE_ERRORS):
        return ""
    return str(content.get("study", "")) if isinstance(content, dict) else ""
