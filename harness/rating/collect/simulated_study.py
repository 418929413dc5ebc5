"""A whole study at the end of a grid, with raters that nobody is: sheets made, filled in, collected.

`judgments=simulated:mauve+typicality` asks for it. The folder is kept: its sheets are what people would get, its
answers what a form saves, and the file of judgments says of every rater that it is simulated.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from openended.harness.core import HUMAN, digest, temporary_files, write_text
from openended.harness.rating.collect.collect import columns_of, gather, judgments, write_judgments
from openended.harness.rating.collect.quality import quality_lines
from openended.harness.rating.key import StudyKey
from openended.harness.rating.make import make_study, write_study
from openended.harness.rating.protocol import StudyProtocol, load_protocol
from openended.harness.rating.simulate import fill_all
from openended.harness.rating.texts import Material, usable
from openended.harness.storage import Rows

log = logging.getLogger(__name__)

JUDGMENTS = "judgments.csv"
# A study of an afternoon: enough for intervals that tell the systems of the example apart.
_ITEMS, _SHEET, _RATERS = 60, 30, {"pairs": 2, "ratings": 5}


def run_simulated_study(asked: str, human: Path, systems: Mapping[str, Path], folder: Path) -> Path:
    """Make a study of a grid's texts, fill its sheets by simulated raters, and collect them.

    Args:
        asked: Names of protocols, joined by `+`.
        human: Rows of the human side.
        systems: Name of a system → its rows.
        folder: Where studies are kept; one that is there, of the same texts, is used again.

    Returns:
        The file of judgments.

    Raises:
        SpecError: If a protocol is unknown.
    """
    protocols = [_small(load_protocol(name)) for name in asked.split("+")]
    rows = {HUMAN: Rows(human), **{name: Rows(path) for name, path in sorted(systems.items())}}
    texts = {name: [list(own.ids), own.texts] for name, own in rows.items()}
    place = folder / digest([texts, [p.to_json() for p in protocols]])[:12]
    if (place / JUDGMENTS).is_file():
        return place / JUDGMENTS
    temporary = place.with_name(temporary_files.temporary(place.name))
    try:
        keys = [_filled(protocol, rows, temporary / protocol.label) for protocol in protocols]
        gathered = [gather([temporary / key.protocol.label / "simulated"], key, leave_out=False) for key in keys]
        write_judgments(temporary / JUDGMENTS, [r for g in gathered for r in judgments(g)], columns_of(keys))
        write_text(temporary / "quality.md", "\n".join(line for g in gathered for line in quality_lines(g)))
        temporary.rename(place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for line in _said(keys, place):
        log.info("study      %s", line)
    return place / JUDGMENTS


def _small(protocol: StudyProtocol) -> StudyProtocol:
    """Return a protocol with as many raters as the example has; its prompts are counted when they are there."""
    return dataclasses.replace(protocol, items_a_sheet=_SHEET, raters=_RATERS[protocol.kind])


def _filled(protocol: StudyProtocol, rows: Mapping[str, Rows], folder: Path) -> StudyKey:
    prompts = dict(zip(rows[HUMAN].ids, rows[HUMAN].prompts, strict=True))
    found = {name: _first_texts(own) for name, own in rows.items()}
    lengths = {name: int(own.token_ids.lengths.max(initial=0)) for name, own in rows.items()}
    material: Material = usable(tuple(found), prompts, found, lengths, protocol)
    count = min(_ITEMS, len(material.texts))
    sized = dataclasses.replace(protocol, items=count, items_a_sheet=min(_SHEET, count))
    study = make_study(material, sized, seed=0)
    write_study(study, folder)
    fill_all(study.key, folder / "simulated")
    return study.key


def _first_texts(rows: Rows) -> dict[str, str]:
    """Return example id → the text of its first sample."""
    return {e: t for e, sample, t in zip(rows.ids, rows.samples, rows.texts, strict=True) if sample == 0}


def _said(keys: list[StudyKey], place: Path) -> Iterator[str]:
    sheets = sum(len(key.sheets) for key in keys)
    yield f"{place}: {sheets} sheets, filled in by simulated raters: nobody rated anything"
