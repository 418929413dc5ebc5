"""Files of the store that a report reads, each verified first: a damaged one is passed over, with a remark."""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from pathlib import Path

from openended.harness.errors import HarnessError
from openended.harness.store import read_entry

log = logging.getLogger(__name__)


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
