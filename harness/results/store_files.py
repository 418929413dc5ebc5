"""Verified access to store files for reports; damaged files are skipped with a remark."""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from pathlib import Path

from openended.harness.core import DataError, HarnessError, make_shareable, read_json
from openended.harness.storage import ResultRow, read_entry

log = logging.getLogger(__name__)

RESULT = "result.json"
ROW_FILES = {"human": "human.arrow", "generate": "data.arrow", "import": "data.arrow"}  # stage → file with its rows


def locate_verified_file(
    store: Path | None, artefact: str | None, name: str, damaged: MutableMapping[str, str]
) -> Path | None:
    """Return the path of an artifact's file after verifying its bytes; None if it is missing or damaged.

    Args:
        store: Root of the store; None if a run has none.
        artefact: `stage/ab/key`.
        name: File name.
        damaged: Collects artifact → what is wrong with it; each is logged once.
    """
    if store is None or not artefact:
        return None
    parts = Path(artefact).parts
    if len(parts) != 3 or ".." in parts or Path(artefact).is_absolute():
        damaged.setdefault(artefact, "not a path inside the store")
        return None
    folder = store / artefact
    if not os.path.lexists(folder) or artefact in damaged:
        return None
    try:
        read_entry(folder, only=name)
    except HarnessError as err:
        damaged[artefact] = str(err)
        log.warning("%s is damaged (%s): skipped; rerun the run that wrote it to compute it again", folder, err)
        return None
    return folder / name


def describe_contradiction(store: Path | None, row: ResultRow, damaged: MutableMapping[str, str]) -> str | None:
    """Describe how a record's row differs from its artifact; None if they agree or the artifact is missing.

    The artifact is verified only if the two differ; a valid artifact then overrules the record.
    """
    if store is None or not row.artefact:
        return None
    path = store / row.artefact / RESULT
    if not path.is_file():
        return None
    recorded = row.to_json()
    try:
        stored = make_shareable(read_json(path))
    except DataError:
        stored = None
    if isinstance(stored, dict) and all(recorded.get(name, value) == value for name, value in stored.items()):
        return None
    if locate_verified_file(store, row.artefact, RESULT, damaged) is None or not isinstance(stored, dict):
        return None
    name = next(name for name, value in stored.items() if recorded.get(name, value) != value)
    return f"its {name} differ from those of its artifact {row.artefact}"
