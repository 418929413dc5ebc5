"""Creative writing: draws of instructions, and one system as the other's reference."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness.errors import DataError, SpecError
from tasks.creative import Creative


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


def test_chat_prompts_are_the_users_turn() -> None:
    example = read(template="chat")[0]
    assert example.prompt == example.meta["user"]


def test_another_systems_texts_are_the_reference(tmp_path: Path) -> None:
    draws = read(num_draws=5)
    path = tmp_path / "ref.jsonl"
    for key in ("id", "prompt", "number"):
        rows = [
            {"id": e.id} if key == "id" else {"id": i} if key == "number" else {"prompt": e.prompt}
            for i, e in enumerate(draws)
        ]
        path.write_text("".join(json.dumps({**r, "text": f"t{i}"}) + "\n" for i, r in enumerate(rows)))
        made = read(num_draws=5, reference=str(path))
        assert sorted(e.human for e in made) == [f"t{i}" for i in range(5)]
        assert [e.human for e in made] == [f"t{i}" for i in range(5)]
    assert Creative(reference=str(path)).has_human()
    with pytest.raises(DataError, match="no text for creative/000005"):
        read(num_draws=6, reference=str(path))
    path.write_text('{"id": 0, "text": " "}\n')
    with pytest.raises(DataError, match=r"ref\.jsonl:1: an empty text"):
        read(reference=str(path))


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


@pytest.mark.parametrize("options", [{"num_draws": 0}, {"min_words": 0}, {"max_words": 50}, {"template": "x"}])
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Creative(**options)
