"""News in Grover's formats, made up and real."""

from pathlib import Path

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks.realnews import RealNews, render_metadata_prompt
from tests.helpers import write_jsonl
from tests.tasks.reading import read, read_counted

REAL = Path(__file__).parents[2].parent / "shared" / "data" / "realnews"


def grover(number, label="human", **more):
    return {
        "article": f"Body {number} of {label}.", "domain": "example.com", "title": f"Title {number}",
        "date": "April 5, 2019", "authors": "A. Writer", "summary": None, "label": label, "split": "test",
        "orig_split": "gen", "ind30k": number, "random_score": 0.5, "top_p": 0.94, **more,
    }  # fmt: skip


def write(tmp_path, rows):
    return str(write_jsonl(tmp_path / "generator=mega~dataset=p0.94.jsonl", rows))


def test_prompt_is_the_metadata_in_grovers_order():
    expected = "Domain: example.com\nDate: April 5, 2019\nAuthors: A. Writer\nTitle: Title 3\n\n"
    assert render_metadata_prompt(grover(3)) == expected
    row = {"publish_date": "04-05-2019", "authors": ["A", "B"], "title": " T ", "domain": ""}
    assert render_metadata_prompt(row) == "Date: 04-05-2019\nAuthors: A, B\nTitle: T\n\n"
    assert render_metadata_prompt({"authors": []}) == ""


def test_human_articles_of_the_split_are_the_examples(tmp_path):
    rows = [
        grover(1), grover(1, "machine"), grover(2, split="val"), grover(3, orig_split="train_burner"), grover(4),
        grover(None), grover(True, inst_index=8),
    ]  # fmt: skip
    task = RealNews(path=write(tmp_path, rows), order="file")
    examples = read(task)
    assert [(e.id, e.human) for e in examples] == [
        ("realnews/000001", "Body 1 of human."), ("realnews/000004", "Body 4 of human."),
        ("realnews/000005", "Body None of human."), ("realnews/000008", "Body True of human."),
    ]  # fmt: skip
    assert examples[0].meta["domain"] == "example.com"
    assert not task.needs_tokenizer()


def test_hash_order_is_the_same_set(tmp_path):
    path = write(tmp_path, [grover(i) for i in range(20)])
    by_file, by_hash = ([e.id for e in read(RealNews(path=path, order=order))] for order in ("file", "hash"))
    assert by_file != by_hash
    assert by_file == sorted(by_hash)


def test_what_cannot_be_used_is_counted(tmp_path):
    rows = [grover(1, article=None), grover(2, article=""), grover(4), {"text": "No metadata.", "split": "test"}]
    examples, skipped = read_counted(RealNews(path=write(tmp_path, rows)))
    assert len(examples) == 1
    assert skipped == {"article is null": 1, "article is empty": 1, "no title, domain, date or author": 1}
    with pytest.raises(DataError, match=r"no human article of split 'val'; set task\.split"):
        read(RealNews(path=write(tmp_path, [grover(1)]), split="val"))
    for file in ("a/b", ""):
        with pytest.raises(SpecError, match="file"):
            RealNews(file=file)


def test_its_machine_articles_are_a_ready_system(tmp_path):
    from openended.harness.core.types import Generation
    from openended.harness.imported.pairing import import_rows
    from openended.harness.storage.rows import Row, write_rows

    path = write(tmp_path, [grover(i, label) for i in range(4) for label in ("human", "machine")])
    examples = sorted(read(RealNews(path=path)), key=lambda e: e.id)
    nothing = [Row(e.prompt, (), Generation(e.id, 0, "", (), "length", float("nan"))) for e in examples]
    write_rows(tmp_path / "prompts.arrow", nothing)
    rows = import_rows(Path(path), tmp_path / "prompts.arrow", None, None)
    assert [r.generation.text for r in rows] == [f"Body {i} of machine." for i in range(4)]
