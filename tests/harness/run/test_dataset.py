"""The human ceiling is of as many texts as the system has, or there is none, and the reason is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.core.signature import parse_signature
from openended.harness.models.spec import list_bundled_models
from openended.harness.report.build import build_report
from openended.harness.run.pipeline import plan, run
from openended.harness.run.session import Session
from openended.harness.storage.record import RunRecord, read_record
from openended.harness.storage.rows import RowFile
from openended.harness.storage.store import Store
from tests.harness.run.small import settings
from tests.helpers import write_jsonl

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")


def measured(folder: Path, *words: str) -> RunRecord:
    made, session = settings(folder, "metric=[frechet,zipf]", *words), Session(Store(folder / "out/store"))
    outcome = run(made, session)
    planned = {(s.stage, s.what) for s in plan(made, session).plan}  # how many texts there are is known now
    assert planned == {(s.stage, s.what) for s in outcome.plan}
    return read_record(outcome.folder)


def ceiling(record: RunRecord) -> Any:
    (row,) = [r for r in record.results if r.system == "ceiling"]
    return row


def model(record: RunRecord) -> Any:
    (row,) = [r for r in record.results if (r.system, r.metric) == ("model", "frechet")]
    return row


def test_with_as_many_spare_texts_the_ceiling_is_of_the_systems_size(tmp_path: Path) -> None:
    record = measured(tmp_path, "num_examples=8")
    assert ceiling(record).status == "ok"
    assert ceiling(record).signature == model(record).signature
    place = tmp_path / "out/store" / record.inputs["human:jsonl"]
    ours, more = (set(RowFile(place / f"{name}.arrow").ids) for name in ("human", "more"))
    assert (len(ours), len(more), ours & more) == (8, 8, set())


def test_without_there_is_none_and_the_table_says_why(tmp_path: Path) -> None:
    record = measured(tmp_path, "num_examples=9")
    row = ceiling(record)
    assert row.status == "undefined"
    assert np.isnan(row.values["frechet"])
    reason = "no human ceiling: it needs as many more human texts as a system has, 9; 7 were to spare"
    assert row.notes == (reason,)
    (folder,) = (tmp_path / "out/runs/test").iterdir()
    (table,) = build_report([folder], tmp_path / "report", figures=False, page=False).tables
    (human,) = [r for r in table.rows if r.system == "human"]
    cells = {column.metric: cell for column, cell in zip(table.columns, human.cells, strict=True)}
    assert reason in cells["frechet"].note
    assert np.isfinite(cells["zipf"].value)


def test_several_samples_need_as_many_more_human_texts(tmp_path: Path) -> None:
    record = measured(tmp_path, "num_examples=5", "samples=2", "decoder=nucleus")
    assert ceiling(record).status == "ok"
    assert parse_signature(ceiling(record).signature)["n"] == parse_signature(model(record).signature)["n"] == "5/10"
    record = measured(tmp_path, "num_examples=6", "samples=2", "decoder=nucleus")
    assert ceiling(record).notes[0].endswith("as a system has, 12; 10 were to spare")


def test_a_file_with_several_texts_a_prompt_has_no_ceiling(tmp_path: Path) -> None:
    path = tmp_path / "theirs.jsonl"
    lines = [{"id": i, "sample": s, "text": f" raise {s} of {i} errors"} for i in range(8) for s in range(2)]
    write_jsonl(path, lines)
    made = settings(tmp_path, "metric=[frechet]", f"generations={path}")
    record = read_record(run(made, Session(Store(tmp_path / "out/store"))).folder)
    assert ceiling(record).notes[0].endswith("as a system has, 16; 8 were to spare")
