"""Pairs of a context and a response, from one file or two."""

import pytest

from openended.harness.core.errors import DataError
from openended.harness.storage import RowFile
from openended.tasks.pairs import Pairs
from tests.helpers import openended
from tests.tasks.reading import read, read_counted

FIELDS = [f"sentence{number}" for number in range(1, 6)]


def write_stories(tmp_path, count=5):
    rows = [",".join(f"Story {i} has sentence {n}." for n in range(1, 6)) for i in range(count)]
    path = tmp_path / "roc.csv"
    path.write_text("\n".join([",".join(FIELDS), *rows, ",,,,nothing before it"]) + "\n")
    return path


def test_sentences_are_joined_and_the_last_is_the_human_text(tmp_path):
    task = Pairs(path=str(write_stories(tmp_path)), prompt_fields=tuple(FIELDS[:4]), human_field="sentence5")
    examples, skipped = read_counted(task)
    assert len(examples) == 5
    first = next(e for e in examples if "Story 0" in e.prompt)
    assert first.prompt == " ".join(f"Story 0 has sentence {n}." for n in range(1, 5))
    assert first.human == " Story 0 has sentence 5."
    assert sum(skipped.values()) >= 1


def test_two_files_of_lines(tmp_path):
    (tmp_path / "article.txt").write_text("one\ntwo\n\nfour\n")
    (tmp_path / "title.txt").write_text("1\n2\n3\n4\n")
    paths = {"path": str(tmp_path / "article.txt"), "human_path": str(tmp_path / "title.txt")}
    examples, skipped = read_counted(Pairs(**paths, template="{prompt}\nHeadline:"))
    assert {(e.prompt, e.human) for e in examples} == {
        ("one\nHeadline:", " 1"), ("two\nHeadline:", " 2"), ("four\nHeadline:", " 4"),
    }  # fmt: skip
    assert skipped == {"one side is empty": 1}
    before = Pairs(**paths).fingerprint()
    (tmp_path / "title.txt").write_text("1\n2\n")
    assert Pairs(**paths).fingerprint() != before
    with pytest.raises(DataError, match=r"article.txt:3: only one of it and .*title.txt has this line"):
        read(Pairs(**paths))


@pytest.mark.slow
def test_a_retrieved_response_is_that_of_the_most_similar_context(tmp_path):
    pytest.importorskip("bm25s")
    animals = ["cat", "dog", "owl", "fox", "bee", "elk"]
    lines = [f'{{"comment": "a {a} came by on {day}", "reply": "the {a} again"}}' for a in animals for day in "xyzuvw"]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(lines) + "\n")
    words = ["task=reddit", f"task.path={path}", "generations=naive:retrieval", "num_examples=12", "metric=[length]"]
    openended(*words, cwd=tmp_path, code=0)
    (stored,) = tmp_path.glob("outputs/store/import/*/*/data.arrow")
    rows = RowFile(stored)
    assert len(rows) == 12
    for prompt, text in zip(rows.prompts, rows.texts, strict=True):
        assert prompt.split()[1] in text
