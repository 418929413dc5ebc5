"""Biographies after examples in the prompt."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks.biographies import Biographies
from tests.helpers import write_jsonl


def file(tmp_path: Path, count: int = 12, words: int = 100) -> str:
    path = tmp_path / "bio.jsonl"
    rows = [{"title": f"Person {i}", "content": f"Person {i} was " + "born " * (words - 3)} for i in range(count)]
    write_jsonl(path, rows)
    return str(path)


@pytest.mark.parametrize("n", [0, 1, 5, 11])
def test_prompts_hold_n_others_and_the_beginning_of_the_next(tmp_path: Path, n: int) -> None:
    examples = list(Biographies(path=file(tmp_path), num_in_context=n).examples(None, Counter()))
    assert len(examples) == 12
    for example in examples:
        assert example.prompt.startswith("Here are biographies")
        assert example.prompt.count("Biography of Person") == n
        assert example.prompt.endswith("\n\nBiography of")
        own = f" Person {int(example.id.split('/')[1])}:\n\n"
        assert example.human.startswith(own)
        assert f"Biography of{own}" not in example.prompt
        shown = [line for line in example.prompt.splitlines() if line.startswith("Biography of Person")]
        assert len(set(shown)) == n


def test_draws_depend_on_the_seed_alone(tmp_path: Path) -> None:
    path = file(tmp_path)
    first = list(Biographies(path=path).examples(None, Counter()))
    assert first == list(Biographies(path=path).examples(None, Counter()))
    assert [e.prompt for e in first] != [e.prompt for e in Biographies(path=path, seed=1).examples(None, Counter())]


def test_the_last_line_opens_the_assistants_turn(tmp_path: Path) -> None:
    example = next(Biographies(path=file(tmp_path)).examples(None, Counter()))
    assert example.meta["assistant"] == "Biography of"
    assert example.prompt == f"{example.meta['user']}\n\n{example.meta['assistant']}"


def test_lengths_are_kept_and_the_rest_counted(tmp_path: Path) -> None:
    skipped: Counter[str] = Counter()
    with pytest.raises(DataError, match="holds 0 biographies"):
        list(Biographies(path=file(tmp_path, words=79)).examples(None, skipped))
    assert skipped == {"not of 80 to 350 words": 12}
    with pytest.raises(DataError, match="holds 3 biographies of the asked length, expected 6"):
        list(Biographies(path=file(tmp_path, count=3)).examples(None, Counter()))
    (tmp_path / "bio.jsonl").write_text('{"title": "x", "text": "y"}\n')
    with pytest.raises(DataError, match="no field 'content'"):
        list(Biographies(path=str(tmp_path / "bio.jsonl")).examples(None, Counter()))


def test_missing_file(tmp_path: Path) -> None:
    task = Biographies(path=str(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match=r"task biographies: no such file.*task\.path"):
        task.fingerprint()
    assert not task.files()[0].present
    with pytest.raises(DataError, match=r"not distributed .*set task\.path"):
        Biographies().fingerprint()
    assert Biographies().files()[0].url.startswith("https://")


@pytest.mark.parametrize(
    "options", [{"path": ""}, {"num_in_context": -1}, {"min_words": 400}, {"instruction": " "}, {"max_title_words": 0}]
)
def test_wrong_options(options: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        Biographies(**{"path": "x", **options})
