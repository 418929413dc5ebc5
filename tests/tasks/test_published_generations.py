"""Public files of generations by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from openended.harness.core.errors import DataError
from openended.tasks.published_generations import find_generations


def test_public_files_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path))
    monkeypatch.setenv("OPENENDED_OFFLINE", "1")
    assert find_generations("some/file.jsonl", fetch=True) == Path("some/file.jsonl")
    for name, file in [
        ("gpt2-output:xl-1542M-k40.test", "xl-1542M-k40.test.jsonl"),
        ("grover:mega-p0.94", "generator=mega~dataset=p0.94.jsonl"),
    ]:
        for fetch in (False, True):
            with pytest.raises(DataError, match=r"missing file .*; get it from https://.* put it at") as caught:
                find_generations(name, fetch=fetch)
            assert file in str(caught.value)
    place = tmp_path / "webtext" / "xl-1542M-k40.test.jsonl"
    place.parent.mkdir()
    place.write_text("{}")
    assert find_generations("gpt2-output:xl-1542M-k40.test", fetch=False) == place
