"""Which study a file of answers is of, where there are several."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from openended.harness.core import DataError, read_json
from openended.harness.rating.collect.stored import is_database
from openended.harness.rating.key import KEY, StudyKey, find_key, read_key


def by_study(
    files: Sequence[Path], places: Sequence[Path], named: Sequence[Path] | None
) -> list[tuple[StudyKey, list[Path]]]:
    """Give each file to the key of its study; what belongs to none goes to the first, whose check says so.

    Args:
        files: Files of answers.
        places: Where keys are looked for: beside these, or above.
        named: Keys that the user named; None: they are looked for.

    Raises:
        DataError: If there is no key.
    """
    found: dict[Path, None] = {}
    for place in named or places:
        try:
            found[find_key(place if named else None, [place])] = None
        except DataError:
            continue
    if not found:
        raise DataError(f"no {KEY} beside these files: name the folder of the study with --key STUDY")
    keys = [read_key(path) for path in found]
    given: dict[str, list[Path]] = {key.study: [] for key in keys}
    for file in files:
        told = _study_of(file)
        given[told if told in given else keys[0].study].append(file)
    return [(key, given[key.study]) for key in keys if given[key.study]]


def _study_of(path: Path) -> str:
    """Return what a file says of its study; empty where it says nothing."""
    try:
        if is_database(path):
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as base:
                row = base.execute("SELECT value FROM facts WHERE name = 'study'").fetchone()
            return str(row[0]) if row else ""
        told = read_json(path)
    except (DataError, sqlite3.Error):
        return ""
    return str(told.get("study", "")) if isinstance(told, dict) else ""
