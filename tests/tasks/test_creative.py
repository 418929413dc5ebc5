"""Creative writing: draws of instructions, and one system as the other's reference."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.storage.record import RunRecord, save_record
from openended.tasks.creative import Creative
from tests.helpers import write_jsonl


def read(**options: Any) -> list[Any]:
    return list(Creative(**{"num_draws": 60, **options}).examples(None, Counter()))


def test_draws_are_of_our_instructions_and_depend_on_the_seed_alone() -> None:
    first = read()
    assert len({e.id for e in first}) == 60
    assert 10 < len({e.meta["instruction"] for e in first}) <= 32
    assert first == read()
    assert first[:20] == read(num_draws=20)
    assert first != read(seed=1)
    assert "between 100 and 500 words" in first[0].prompt
    assert not Creative().has_human()
    assert all(e.human == "" for e in first)


def test_the_instruction_is_the_users_turn() -> None:
    example = read()[0]
    assert example.prompt == f"Instruction: {example.meta['user']}\n\nText:\n\n"
    assert example.meta["assistant"] == ""


def reference(path: Path, rows: list[dict[str, Any]]) -> str:
    write_jsonl(path, rows)
    return str(path)


@pytest.mark.parametrize("key", ["id", "prompt", "number", "id and prompt"])
def test_another_systems_texts_are_the_reference(tmp_path: Path, key: str) -> None:
    draws = read(num_draws=5)
    names = {
        "id": lambda i, e: {"id": e.id}, "number": lambda i, e: {"id": i}, "prompt": lambda i, e: {"prompt": e.prompt},
        "id and prompt": lambda i, e: {"id": e.id, "prompt": e.prompt},
    }  # fmt: skip
    rows = [{**names[key](i, e), "text": f"t{i}"} for i, e in enumerate(draws)]
    path = reference(tmp_path / "ref.jsonl", rows)
    made = read(num_draws=60, reference=path)
    assert [e.human for e in made] == [f"t{i}" for i in range(5)]
    assert [e.prompt for e in made] == [e.prompt for e in draws]
    task = Creative(reference=path)
    assert task.has_human()
    assert task.fingerprint() != Creative().fingerprint()
    assert "no human text" in task.remarks()[0]
    assert not Creative().remarks()


def test_draws_without_a_text_are_counted(tmp_path: Path) -> None:
    path = reference(tmp_path / "r.jsonl", [{"id": i, "text": t} for i, t in ((0, "a"), (2, " \n"), (4, "b"))])
    skipped: Counter[str] = Counter()
    made = list(Creative(num_draws=60, reference=path).examples(None, skipped))
    assert [(e.id, e.human) for e in made] == [("creative/000000", "a"), ("creative/000004", "b")]
    assert skipped == {"the reference has no text for the draw": 2, "the reference's text is empty": 1}


def test_a_reference_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    path = reference(tmp_path / "r.jsonl", [{"id": 0, "text": "a"}, {"id": "creative/000099", "text": "a"}])
    with pytest.raises(DataError, match=r"r\.jsonl:2: answers none of the 60 draws"):
        read(reference=path)
    path = reference(tmp_path / "r.jsonl", [{"id": 0, "prompt": "Another one", "text": "a"}])
    with pytest.raises(DataError, match=r"r\.jsonl:1: not the prompt of creative/000000"):
        read(reference=path)
    path = reference(tmp_path / "r.jsonl", [{"id": 0, "text": None}])
    with pytest.raises(DataError, match=r"r\.jsonl:1: field 'text': expected text, got null"):
        read(reference=path)
    with pytest.raises(DataError, match="holds no text"):
        read(reference=reference(tmp_path / "r.jsonl", []))


def test_a_folder_must_be_that_of_a_run_with_texts(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file: .*record\.json"):
        Creative(reference=str(tmp_path)).fingerprint()
    (tmp_path / "record.json").write_text("{")
    with pytest.raises(DataError, match=r"record\.json: not JSON"):
        Creative(reference=str(tmp_path)).fingerprint()
    record = RunRecord(created="now", spec={}, axes={}, results=(), store=".")
    save_record(tmp_path, replace(record, inputs={"measure:zipf model": "measure/ab/abc"}))
    with pytest.raises(DataError, match="not the folder of a run that generated"):
        Creative(reference=str(tmp_path)).fingerprint()
    save_record(tmp_path, replace(record, inputs={"generate:x": "generate/ab/abc"}))
    with pytest.raises(DataError, match="no such file"):
        Creative(reference=str(tmp_path)).fingerprint()


def test_own_instructions(tmp_path: Path) -> None:
    path = tmp_path / "own.txt"
    path.write_text("Write X.\n\nWrite Y.\n", encoding="utf-8")
    assert {e.prompt[13:21] for e in read(path=str(path))} == {"Write X.", "Write Y."}
    assert Creative(path=str(path)).fingerprint() != Creative().fingerprint()
    assert [f.name for f in Creative(path=str(path)).files()] == ["own.txt"]
    path.write_text("\n")
    with pytest.raises(DataError, match="holds no instruction"):
        read(path=str(path))
    path.write_bytes(b"caf\xe9\n")
    with pytest.raises(DataError, match="not UTF-8"):
        read(path=str(path))
    with pytest.raises(DataError, match="no such file"):
        Creative(path=str(tmp_path / "none")).fingerprint()
    with pytest.raises(DataError, match=r"task\.reference"):
        Creative(reference=str(tmp_path / "none")).fingerprint()


@pytest.mark.parametrize("options", [{"num_draws": 0}, {"min_words": 0}, {"max_words": 50}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Creative(**options)
