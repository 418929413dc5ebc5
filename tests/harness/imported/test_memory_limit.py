"""How many texts a file may hold is a matter of memory, not of legitimacy."""

from __future__ import annotations

from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.harness.imported import pairing as module
from openended.harness.imported.generations import ImportedText
from openended.harness.imported.pairing import load_within_memory, measure_free_memory


def texts(count: int):
    return (ImportedText(f"x:{i}", i, "a text") for i in range(count))


def test_a_large_file_passes():
    assert len(load_within_memory(texts(600_000), Path("x.jsonl"))) == 600_000


def test_what_the_memory_does_not_hold_is_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(module, "measure_free_memory", lambda: 1 << 20)
    with pytest.raises(DataError, match=r"x\.jsonl: its texts are more than the memory .* holds \(stopped after \d+\)"):
        load_within_memory(texts(10_000), Path("x.jsonl"))


def test_some_memory_is_free():
    assert measure_free_memory() > 1 << 20
