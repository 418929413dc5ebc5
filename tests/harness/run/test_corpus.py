"""The corpus of novelty: a file that the user names, in the key and the signature."""

from __future__ import annotations

from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.harness.run.corpus import digest_corpus, load_corpus
from openended.harness.run.pipeline.pipeline import run
from openended.harness.run.session import Session
from openended.harness.storage.record import read_record
from openended.harness.storage.store import Store
from tests.harness.run.small import settings
from tests.helpers import write_jsonl


def test_a_file_is_read_and_a_missing_one_is_named(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "train.jsonl", [{"text": "a b"}, {"text": "c"}])
    assert load_corpus(path) == ["a b", "c"]
    first = digest_corpus(path)
    write_jsonl(path, [{"text": "a b"}])
    assert digest_corpus(path) != first
    with pytest.raises(DataError, match=r"no such file: .*; expected references, or a file of texts"):
        digest_corpus(tmp_path / "none.jsonl")


def test_a_run_compares_with_the_file(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "train.jsonl", [{"text": "raise an error if the number 8 is too large."}])
    words = [
        "metric=[novelty]",
        f"metric.novelty.corpus={path}",
        "metric.novelty.orders=[1]",
        "generations=damage:none",
    ]
    outcome = run(settings(tmp_path, *words, "intervals=0"), Session(Store(tmp_path / "out" / "store")))
    rows = {row.system: row for row in read_record(outcome.folder).results}
    assert rows["model"].values["novelty_1"] < 0.2
    assert "corpus_file:train.jsonl@" in rows["model"].signature
    assert "median length" not in " ".join(read_record(outcome.folder).notes)


def test_a_run_says_that_lengths_differ(tmp_path: Path) -> None:
    words = ["metric=[length]", "generations=damage:truncation:50", "intervals=0"]
    outcome = run(settings(tmp_path, *words), Session(Store(tmp_path / "out" / "store")))
    (note,) = [note for note in read_record(outcome.folder).notes if note.startswith("median length")]
    assert "of the human texts" in note
