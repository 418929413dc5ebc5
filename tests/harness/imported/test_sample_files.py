"""Sample files of the papers: recognized by content, with token ids where they have them."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.core.errors import DataError
from openended.harness.imported.files import HUMAN_TEXTS, choose_text_field, read_records
from openended.harness.imported.generations import read_generations, recognize_format
from openended.harness.imported.pairing import import_unpaired
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer
from tests.helpers import write_jsonl

NAME = "texts/{:06d}".format
TEXTS = ["The first text.\nIt has two lines.", "The second text."]
TOKENIZER = load_tokenizer(ModelSpec(path="bundled:docs-s"))
IDS = [TOKENIZER.encode(text) for text in TEXTS]


def write_json(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    return path


def take(path: Path, tokenizer: Any = TOKENIZER) -> tuple[list[Any], Any]:
    imported = import_unpaired(path, NAME, tokenizer, None, count=None)
    return [row.generation for row in imported], imported


@pytest.mark.parametrize("field", ["generated_seqs", "text_samples"])
def test_json_with_a_list_of_texts(tmp_path: Path, field: str) -> None:
    path = write_json(tmp_path / "samples.json", {"gen_ppl": 32.1, field: TEXTS, "entropy": 5.4})
    assert [r.cells for r in read_records(path)] == [{field: text} for text in TEXTS]
    generations, imported = take(path)
    assert [g.text for g in generations] == TEXTS
    assert imported.id_source == "retokenized"
    assert f"format: JSON, texts under {field!r}" in imported.notes
    assert choose_text_field(path, HUMAN_TEXTS, None, "task.human_field=") == field


def test_npz_of_token_ids(tmp_path: Path) -> None:
    size = min(map(len, IDS))
    rows = [ids[:size] for ids in IDS]
    np.savez(tmp_path / "a.npz", samples=np.array(rows), metadata=np.array([1.0]))
    generations, imported = take(tmp_path / "a.npz")
    assert [list(g.token_ids) for g in generations] == rows
    assert [g.text for g in generations] == [TOKENIZER.decode(ids) for ids in rows]
    assert imported.id_source == "generated"
    assert recognize_format(tmp_path / "a.npz") == "NPZ, token ids under 'samples'"


def test_npz_is_never_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", samples=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"a\.npz: not a readable \.npz of plain numbers"):
        list(read_records(tmp_path / "a.npz"))
    (tmp_path / "b.npz").write_bytes(pickle.dumps([1]))
    with pytest.raises(DataError, match="not a readable"):
        list(read_records(tmp_path / "b.npz"))
    np.savez(tmp_path / "c.npz", texts=np.zeros((1, 2)))
    with pytest.raises(DataError, match="expected an array 'samples' of token ids, got texts"):
        list(read_records(tmp_path / "c.npz"))
    np.savez(tmp_path / "d.npz", samples=np.zeros((1, 2)))
    with pytest.raises(DataError, match="expected whole numbers of shape"):
        list(read_records(tmp_path / "d.npz"))


def test_token_ids_of_another_vocabulary_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", samples=np.array([[1, 50256]]))
    with pytest.raises(DataError, match="token id 50256 is not in the scorer's vocabulary"):
        take(tmp_path / "a.npz")
    with pytest.raises(DataError, match="token ids need a GPT-2 tokenizer"):
        take(tmp_path / "a.npz", None)


def test_json_lines_keep_ids_that_are_those_of_the_text(tmp_path: Path) -> None:
    # Ids that spell the text in another way than the tokenizer would, as a model may generate it.
    spelled = [i for character in TEXTS[1] for i in TOKENIZER.encode(character)]
    assert spelled != IDS[1]
    path = write_jsonl(
        tmp_path / "a.jsonl",
        [{"text": TEXTS[0], "token_ids": [0, *IDS[0], 0]}, {"text": TEXTS[1], "token_ids": spelled}],
    )
    generations, imported = take(path)
    assert [list(g.token_ids) for g in generations] == [[0, *IDS[0], 0], spelled]
    assert [g.text for g in generations] == TEXTS
    assert imported.id_source == "generated"
    assert "token ids as generated for 2 of 2 texts, else re-tokenized text" in imported.notes


def test_ids_of_another_tokenizer_are_not_used(tmp_path: Path) -> None:
    rows = [{"text": TEXTS[0], "token_ids": IDS[0]}, {"text": TEXTS[1], "token_ids": [5, 6, 7]}]
    generations, imported = take(write_jsonl(tmp_path / "a.jsonl", rows))
    assert list(generations[1].token_ids) == IDS[1]
    assert imported.id_source == "mixed"
    with pytest.raises(DataError, match="field 'token_ids': expected a list of token ids"):
        list(read_generations(write_jsonl(tmp_path / "b.jsonl", [{"text": "t", "token_ids": ["a"]}])))


def test_plain_text_in_blocks(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("=" * 10 + f"\n{TEXTS[0]}\n\n" + "=" * 10 + f"\n{TEXTS[1]}\n")
    assert [(r.where, r.cells["text"]) for r in read_records(path)] == [
        (f"{path}:2", TEXTS[0]),
        (f"{path}:6", TEXTS[1]),
    ]
    assert recognize_format(path) == "plain text in blocks"
    path.write_text("one\n---\ntwo\n")
    assert [r.cells["text"] for r in read_records(path)] == ["one", "---", "two"]
    assert recognize_format(path) is None


def test_other_json_is_read_as_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"text": "one"}\n{"text": "two"}\n')
    assert [r.cells["text"] for r in read_records(path)] == ["one", "two"]
    assert recognize_format(path) is None
    with pytest.raises(DataError, match="field 'generated_seqs': expected a list of texts"):
        list(read_records(write_json(path, {"generated_seqs": "text"})))
