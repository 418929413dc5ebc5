"""Packages as topics: no text on both sides, and only of the packages that are asked for."""

import pytest

from openended.harness.core.errors import SpecError
from openended.tasks import docs_topics
from openended.tasks._docstrings import Passage
from openended.tasks.docs_topics import DocsTopics
from tests.tasks.reading import read


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
