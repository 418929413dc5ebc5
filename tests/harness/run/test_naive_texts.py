"""Naive systems in a run: their rows, keys and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.naive_texts import VERSION
from openended.harness.run.pipeline.texts import make_texts
from openended.harness.run.resolve import resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.rows import RowFile
from openended.harness.storage.store import Store
from tests.harness.run.small import settings


def build(folder: Path, *words: str, plan_only: bool = False) -> Any:
    builder = ArtifactBuilder(Session(Store(folder / "out" / "store")), plan_only=plan_only)
    return make_texts(resolve_run(settings(folder, *words)), builder)


def test_rows_are_made_of_human_texts_that_are_not_compared(tmp_path: Path) -> None:
    texts = build(tmp_path, "generations=naive:memorizer")
    model, human = list(RowFile(texts.model_rows.path)), list(RowFile(texts.human_rows.path))
    spare = {row.generation.text for row in RowFile(texts.dataset.spare_rows.path)}
    assert [row.generation.example_id for row in model] == [row.generation.example_id for row in human]
    assert [row.prompt for row in model] == [row.prompt for row in human]
    assert all(any(text.startswith(row.generation.text) for text in spare) for row in model)
    assert "learned from 8 human texts" in texts.model_rows.entry.meta["notes"][0]


def test_each_seed_and_number_has_its_own_texts(tmp_path: Path) -> None:
    keys = {
        build(tmp_path, f"generations=naive:{kind}", f"seed={seed}").model_rows.entry.name
        for kind in ("unigram", "unigram:3")
        for seed in (0, 1)
    }
    assert len(keys) == 4
    assert VERSION == 1  # raise it, and this number, when the texts of a seed change
    assert build(tmp_path, "generations=naive:unigram:64").model_rows.entry.name in keys


def test_a_plan_makes_nothing_and_a_task_without_spare_texts_is_refused(tmp_path: Path) -> None:
    assert build(tmp_path, "generations=naive:unigram", plan_only=True).model_rows.entry is None
    with pytest.raises(SpecError, match="has none left; set a smaller num_examples"):
        build(tmp_path, "generations=naive:unigram", "num_examples=16")
