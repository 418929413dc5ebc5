"""A complete human study with simulated raters at the end of a grid: `judgments=simulated:mauve+typicality`."""

import dataclasses
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from openended.harness.core import HUMAN, digest, temporary_files, to_json
from openended.harness.rating import answers
from openended.harness.rating.design import count_prompts, select_usable_texts
from openended.harness.rating.protocol import load_protocol
from openended.harness.rating.study import fill_all_sheets, make_study, write_study
from openended.harness.storage import RowFile

log = logging.getLogger(__name__)

JUDGMENTS = "judgments.csv"
# Sizes of a small study whose intervals still separate the example's systems.
_ITEMS, _SHEET, _RATERS = 60, 30, {"pairs": 2, "ratings": 5}


def run_simulated_study(protocol_names: str, human: Path, systems: Mapping[str, Path], folder: Path) -> Path:
    """Make a study of a grid's texts, fill its sheets by simulated raters, and return the file of judgments.

    Args:
        protocol_names: Names of protocols, joined by `+`.
        human: Rows of the human side.
        systems: Name of a system → its rows.
        folder: Parent folder of studies; an existing study of the same texts is reused.
    """
    # Few raters and short sheets; prompts are counted when the texts are known.
    protocols = [
        dataclasses.replace(p, items_a_sheet=_SHEET, raters=_RATERS[p.kind])
        for p in map(load_protocol, protocol_names.split("+"))
    ]
    rows = {HUMAN: RowFile(human), **{name: RowFile(path) for name, path in sorted(systems.items())}}
    contents = {name: [list(source.ids), source.texts] for name, source in rows.items()}
    study_folder = folder / digest([contents, to_json(protocols)])[:12]
    if (study_folder / JUDGMENTS).is_file():
        return study_folder / JUDGMENTS
    prompts = dict(zip(rows[HUMAN].ids, rows[HUMAN].prompts, strict=True))
    texts = {
        name: {e: text for e, sample, text in zip(r.ids, r.samples, r.texts, strict=True) if sample == 0}
        for name, r in rows.items()
    }
    lengths = {name: int(source.token_ids.lengths.max(initial=0)) for name, source in rows.items()}
    temporary = study_folder.with_name(temporary_files.create_temporary_name(study_folder.name))
    try:
        studies = []
        for protocol in protocols:
            material = select_usable_texts(tuple(texts), prompts, texts, lengths, protocol)
            count = min(_ITEMS, count_prompts(material, protocol))
            sized = dataclasses.replace(protocol, items=count, items_a_sheet=min(_SHEET, count))
            study = make_study(material, sized, seed=0)
            write_study(study, temporary / protocol.label)
            filled = temporary / protocol.label / "simulated"
            fill_all_sheets(study.key, filled)
            studies.append(answers.gather_answers([filled], study.key, leave_out=False))
        answers.write_study_files(temporary / JUDGMENTS, studies)
        temporary.rename(study_folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sheets = sum(len(study.key.sheets) for study in studies)
    log.info("study      %s: %s sheets, filled in by simulated raters; no person rated anything", study_folder, sheets)
    return study_folder / JUDGMENTS
