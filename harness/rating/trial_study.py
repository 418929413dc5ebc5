"""A complete human study with simulated raters at the end of a grid: make sheets, fill them, collect the answers.

`judgments=simulated:mauve+typicality` asks for it. The folder is kept: its sheets are what people would get, its
answers what a form saves, and the file of judgments says of every rater that it is simulated.
"""

from __future__ import annotations

import dataclasses
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from openended.harness.core import HUMAN, digest, temporary_files, write_text
from openended.harness.rating.answers import build_judgment_rows, gather_answers, list_judgment_columns, write_judgments
from openended.harness.rating.key import StudyKey
from openended.harness.rating.protocol import StudyProtocol, load_protocol
from openended.harness.rating.quality import format_quality_sheet
from openended.harness.rating.rater_model import fill_all_sheets
from openended.harness.rating.study import make_study, write_study
from openended.harness.rating.texts import StudyTexts, select_usable_texts
from openended.harness.storage import RowFile

log = logging.getLogger(__name__)

JUDGMENTS = "judgments.csv"
# Sizes of a small study whose intervals still separate the example's systems.
_ITEMS, _SHEET, _RATERS = 60, 30, {"pairs": 2, "ratings": 5}


def run_simulated_study(protocol_names: str, human: Path, systems: Mapping[str, Path], folder: Path) -> Path:
    """Make a study of a grid's texts, fill its sheets by simulated raters, and collect them.

    Args:
        protocol_names: Names of protocols, joined by `+`.
        human: Rows of the human side.
        systems: Name of a system → its rows.
        folder: Parent folder of studies; an existing study of the same texts is reused.

    Returns:
        The file of judgments.

    Raises:
        SpecError: If a protocol is unknown.
    """
    named = [load_protocol(name) for name in protocol_names.split("+")]
    # Few raters and short sheets; prompts are counted when the texts are known.
    protocols = [dataclasses.replace(p, items_a_sheet=_SHEET, raters=_RATERS[p.kind]) for p in named]
    rows = {HUMAN: RowFile(human), **{name: RowFile(path) for name, path in sorted(systems.items())}}
    texts = {name: [list(source.ids), source.texts] for name, source in rows.items()}
    study_folder = folder / digest([texts, [p.to_json() for p in protocols]])[:12]
    if (study_folder / JUDGMENTS).is_file():
        return study_folder / JUDGMENTS
    temporary = study_folder.with_name(temporary_files.create_temporary_name(study_folder.name))
    try:
        keys = [_fill_sheets(protocol, rows, temporary / protocol.label) for protocol in protocols]
        gathered = [
            gather_answers([temporary / key.protocol.label / "simulated"], key, leave_out=False) for key in keys
        ]
        write_judgments(
            temporary / JUDGMENTS, [r for g in gathered for r in build_judgment_rows(g)], list_judgment_columns(keys)
        )
        write_text(temporary / "quality.md", "\n".join(line for g in gathered for line in format_quality_sheet(g)))
        temporary.rename(study_folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sheets = sum(len(key.sheets) for key in keys)
    log.info("study      %s: %s sheets, filled in by simulated raters; no person rated anything", study_folder, sheets)
    return study_folder / JUDGMENTS


def _fill_sheets(protocol: StudyProtocol, rows: Mapping[str, RowFile], folder: Path) -> StudyKey:
    prompts = dict(zip(rows[HUMAN].ids, rows[HUMAN].prompts, strict=True))
    texts = {}
    for name, source in rows.items():
        samples = zip(source.ids, source.samples, source.texts, strict=True)
        texts[name] = {example: text for example, sample, text in samples if sample == 0}
    lengths = {name: int(source.token_ids.lengths.max(initial=0)) for name, source in rows.items()}
    material: StudyTexts = select_usable_texts(tuple(texts), prompts, texts, lengths, protocol)
    count = min(_ITEMS, len(material.texts))
    sized = dataclasses.replace(protocol, items=count, items_a_sheet=min(_SHEET, count))
    study = make_study(material, sized, seed=0)
    write_study(study, folder)
    fill_all_sheets(study.key, folder / "simulated")
    return study.key
