"""Damaged texts in a run: their rows, keys and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.damaged_texts import VERSION
from openended.harness.run.pipeline.texts import make_texts
from openended.harness.run.resolve import resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.rows import RowFile
from openended.harness.storage.store import Store
from tests.harness.run.small import settings


def build(folder: Path, *words: str, plan_only: bool = False) -> Any:
    builder = ArtifactBuilder(Session(Store(folder / "out" / "store")), plan_only=plan_only)
    return make_texts(resolve_run(settings(folder, *words)), builder)


def test_undamaged_rows_are_the_human_texts_that_are_not_compared(tmp_path: Path) -> None:
    texts = build(tmp_path, "generations=damage:none")
    model, spare = (list(RowFile(rows.path)) for rows in (texts.model_rows, texts.dataset.spare_rows))
    assert [(r.prompt, r.generation.text, r.generation.token_ids) for r in model] == [
        (r.prompt, r.generation.text, r.generation.token_ids) for r in spare
    ]
    assert "human texts that are not compared, damaged" in texts.model_rows.entry.meta["notes"][0]


def test_damaged_rows_have_tokens_of_their_texts(tmp_path: Path) -> None:
    spare = list(RowFile(build(tmp_path, "generations=damage:none").dataset.spare_rows.path))
    rows = list(RowFile(build(tmp_path, "generations=damage:truncation:50").model_rows.path))
    assert [row.prompt for row in rows] == [row.prompt for row in spare]
    for before, after in zip(spare, rows, strict=True):
        assert before.generation.text.startswith(after.generation.text)
        assert 0 < len(after.generation.token_ids) < len(before.generation.token_ids)


def test_each_seed_has_its_own_texts(tmp_path: Path) -> None:
    first, second = (
        build(tmp_path, "generations=damage:random_middle:60", f"seed={s}").model_rows.entry for s in (0, 1)
    )
    assert first.name != second.name
    assert VERSION == 1  # raise it, and this number, when the texts of a seed change


def test_a_plan_makes_nothing_and_a_task_without_spare_texts_is_refused(tmp_path: Path) -> None:
    assert build(tmp_path, "generations=damage:negation:5", plan_only=True).model_rows.entry is None
    with pytest.raises(SpecError, match="set num_examples="):
        build(tmp_path, "generations=damage:negation:5", "num_examples=14")
