"""Files of the store that a report reads, each verified first: a damaged one is passed over, with a remark."""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from pathlib import Path

from openended.harness.core import DataError, HarnessError, read_json, shareable
from openended.harness.storage import ResultRow, read_entry

log = logging.getLogger(__name__)

RESULT = "result.json"
ROW_FILES = {"human": "human.arrow", "generate": "data.arrow", "import": "data.arrow"}  # stage → its rows


def stored_file(store: Path | None, artefact: str | None, name: str, damaged: MutableMapping[str, str]) -> Path | None:
    """Return a file of an artefact, its bytes verified; None if it is no longer in the store, or damaged.

    Args:
        store: The store's root; None where a run has none.
        artefact: `stage/ab/key`.
        name: The file.
        damaged: Takes artefact → what is wrong with it; each is said once.
    """
    if store is None or not artefact:
        return None
    parts = Path(artefact).parts
    if len(parts) != 3 or ".." in parts or Path(artefact).is_absolute():
        damaged.setdefault(artefact, "no place in a store")
        return None
    folder = store / artefact
    if not os.path.lexists(folder) or artefact in damaged:
        return None
    try:
        read_entry(folder, only=name)
    except HarnessError as err:
        damaged[artefact] = str(err)
        log.warning("%s is damaged (%s): passed over; the run that made it makes it again", folder, err)
        return None
    return folder / name


def contradiction(store: Path | None, row: ResultRow, damaged: MutableMapping[str, str]) -> str | None:
    """Return in what a record's row is not what its artefact holds; None where they agree, or there is none to ask.

    Two that agree need no digest; where they do not, the artefact is verified first, and believed if it is sound.
    """
    if store is None or not row.artefact:
        return None
    path = store / row.artefact / RESULT
    if not path.is_file():
        return None
    said = row.to_json()
    try:
        made = shareable(read_json(path))
    except DataError:
        made = None
    if isinstance(made, dict) and all(said.get(name, value) == value for name, value in made.items()):
        return None
    if stored_file(store, row.artefact, RESULT, damaged) is None or not isinstance(made, dict):
        return None
    name = next(name for name, value in made.items() if said.get(name, value) != value)
    return f"its {name} are not those of its artefact {row.artefact}"
