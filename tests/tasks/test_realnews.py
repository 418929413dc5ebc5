"""News in Grover's formats, made up and real."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks.realnews import RealNews, render_metadata_prompt
from tests.helpers import write_jsonl

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "realnews"


def grover(number: int, label: str = "human", **more: Any) -> dict[str, Any]:
    return {
        "article": f"Body {number} of {label}.", "domain": "example.com", "title": f"Title {number}",
        "date": "April 5, 2019", "authors": "A. Writer", "summary": None, "label": label, "split": "test",
        "orig_split": "gen", "ind30k": number, "random_score": 0.5, "top_p": 0.94, **more,
    }  # fmt: skip


def file(tmp_path: Path, rows: list[Any], name: str = "generator=mega~dataset=p0.94.jsonl") -> Path:
    path = tmp_path / name
    return write_jsonl(path, rows)


def test_prompt_is_the_metadata_in_grovers_order() -> None:
    want = "Domain: example.com\nDate: April 5, 2019\nAuthors: A. Writer\nTitle: Title 3\n\n"
    assert render_metadata_prompt(grover(3)) == want
    row = {"publish_date": "04-05-2019", "authors": ["A", "B"], "title": " T ", "domain": ""}
    assert render_metadata_prompt(row) == "Date: 04-05-2019\nAuthors: A, B\nTitle: T\n\n"
    assert render_metadata_prompt({"authors": []}) == ""


def test_human_articles_of_the_split_are_the_examples(tmp_path: Path) -> None:
    rows = [
        grover(1), grover(1, "machine"), grover(2, split="val"), grover(3, orig_split="train_burner"), grover(4),
    ]  # fmt: skip
    task = RealNews(path=str(file(tmp_path, rows)), order="file")
    made = list(task.examples(None, Counter()))
    assert [(e.id, e.human) for e in made] == [
        ("realnews/000001", "Body 1 of human."), ("realnews/000004", "Body 4 of human."),
    ]  # fmt: skip
    assert made[0].meta["domain"] == "example.com"
    assert not task.needs_tokenizer()


def test_hash_order_is_the_same_set(tmp_path: Path) -> None:
    path = str(file(tmp_path, [grover(i) for i in range(20)]))
    by_file = [e.id for e in RealNews(path=path, order="file").examples(None, Counter())]
    by_hash = [e.id for e in RealNews(path=path).examples(None, Counter())]
    assert by_file != by_hash
    assert by_file == sorted(by_hash)


def test_what_cannot_be_used_is_counted(tmp_path: Path) -> None:
    rows = [grover(1, article=None), grover(2, article=""), grover(4)]
    rows.append({"text": "No metadata.", "split": "test"})
    skipped: Counter[str] = Counter()
    assert len(list(RealNews(path=str(file(tmp_path, rows))).examples(None, skipped))) == 1
    assert skipped == {"article is null": 1, "article is empty": 1, "no title, domain, date or author": 1}


def test_a_split_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no human article of split 'val'; set task\.split"):
        list(RealNews(path=str(file(tmp_path, [grover(1)])), split="val").examples(None, Counter()))
    with pytest.raises(SpecError, match="file"):
        RealNews(file="a/b")


def test_its_machine_articles_are_a_ready_system(tmp_path: Path) -> None:
    from openended.harness.core.types import Generation
    from openended.harness.imported.pairing import import_rows
    from openended.harness.storage.rows import Row, write_rows

    path = file(tmp_path, [grover(i, label) for i in range(4) for label in ("human", "machine")])
    examples = sorted(RealNews(path=str(path)).examples(None, Counter()), key=lambda e: e.id)
    nothing = [Row(e.prompt, (), Generation(e.id, 0, "", (), "length", float("nan"))) for e in examples]
    write_rows(tmp_path / "prompts.arrow", nothing)
    rows = import_rows(path, tmp_path / "prompts.arrow", None, None)
    assert [r.generation.text for r in rows] == [f"Body {i} of machine." for i in range(4)]


def test_the_official_file_is_planned_offline(tmp_path: Path) -> None:
    task = RealNews(cache_dir=str(tmp_path), offline=True)
    (planned,) = task.files()
    want = "https://storage.googleapis.com/grover-models/generation_examples/generator=mega~dataset=p0.94.jsonl"
    assert planned.url == want
    with pytest.raises(DataError, match="offline"):
        task.fetch()


@pytest.mark.reference
@pytest.mark.parametrize(("name", "split"), [("april2019_set_mini", "gen"), ("realnews_tiny", "train")])
def test_real_records(name: str, split: Any) -> None:
    path = REAL / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    skipped: Counter[str] = Counter()
    made = {e.id: e for e in RealNews(path=str(path), split=split).examples(None, skipped)}
    assert not skipped
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(made) == sum(r["split"] == split for r in rows)
    if name == "april2019_set_mini":
        prompt = made["realnews/024030"].prompt
        assert prompt.startswith("Domain: techcrunch.com\nDate: 04-19-2019\nTitle: Malware researcher")
        assert prompt.endswith("TechCrunch\n\n")
