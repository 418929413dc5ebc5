"""Topics as systems: which texts are on which side, and what precision and recall say of them."""

import csv

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks import docs_topics
from openended.tasks._docstrings import Passage
from openended.tasks.ag_news import AgNews
from openended.tasks.docs_topics import DocsTopics
from tests.tasks.reading import read, read_counted


def write(tmp_path, rows):
    path = tmp_path / "train.csv"
    with path.open("w", encoding="utf-8", newline="") as handle:
        csv.writer(handle, quoting=csv.QUOTE_ALL).writerows(rows)
    return str(path)


def news(count):
    return [[str(1 + i % 4), f"Title {i}", f"Text {i} of topic {i % 4}, with quotes."] for i in range(count)]


def read_system(task, topics):
    return task.open_bundled_system(f"topics:{topics}")()


def test_reference_and_systems_hold_their_topics_and_share_no_text(tmp_path):
    task = AgNews(path=write(tmp_path, news(400)))
    reference = [e.human for e in read(task)]
    subset, same, superset = (read_system(task, t) for t in ("world", "world+sports", "world+sports+science"))
    assert all("topic 0" in t or "topic 1" in t for t in reference)
    assert all("topic 0" in t for t in subset)
    assert len(subset) < len(same) < len(superset)
    assert not set(reference) & set(superset)
    assert len(reference) + len(same) == 200
    assert task.open_bundled_system("somebody.jsonl") is None
    for wrong in ("", "world+weather", "world+world"):
        with pytest.raises(SpecError, match="topics"):
            task.open_bundled_system(f"topics:{wrong}")


def test_texts_are_title_and_description_without_markup(tmp_path):
    rows = [["1", "A &amp; B", r"First\nline"], ["2", " ", " "], *news(40)]
    task = AgNews(path=write(tmp_path, rows), topics=("world",))
    examples, skipped = read_counted(task)
    assert "A & B\nFirst line" in [e.human for e in examples] + read_system(task, "world")
    assert skipped == {"text is empty": 1}
    assert all(e.prompt == "" and e.id.startswith("ag_news/") for e in examples)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["5", "a", "b"]], r"train\.csv:1: expected a class from 1 to 4"),
        ([["1", "a"]], r"train\.csv:1: expected a class"),
        ([["3", "a", "b"]], r"holds no text of world, sports"),
    ],
)
def test_wrong_files(tmp_path, rows, message):
    with pytest.raises(DataError, match=message):
        read(AgNews(path=write(tmp_path, rows)))
    with pytest.raises(DataError, match=r"missing file: .*; get it from https"):
        read(AgNews(path=str(tmp_path / "none.csv")))


@pytest.fixture
def task(monkeypatch):
    words = " ".join(["word"] * 70)
    packages = ("torch", "sklearn", "scipy")
    passages = [Passage(f"docs/{p}/{i}", p, p, f"{p} {i} {words}", "test") for p in packages for i in range(40)]
    monkeypatch.setattr(docs_topics, "load_corpus", lambda fingerprint: passages)
    return DocsTopics()


def test_systems_share_no_text_with_the_reference(task):
    reference = {example.human for example in read(task)}
    assert {text.split()[0] for text in reference} == {"torch", "sklearn"}
    system = set(task.open_bundled_system("topics:torch+sklearn")())
    assert {text.split()[0] for text in system} == {"torch", "sklearn"}
    assert not reference & system
    assert len(reference | system) == 80
    assert {text.split()[0] for text in task.open_bundled_system("topics:scipy")()} == {"scipy"}
    assert task.open_bundled_system("file.jsonl") is None


def test_a_topic_is_a_package():
    with pytest.raises(SpecError, match="topics: expected some of python, numpy"):
        DocsTopics(topics=("tensorflow",))
