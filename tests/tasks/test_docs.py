"""The docs task on made-up passages; the extraction itself is tested in test_docstrings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.tasks import _docstrings
from openended.tasks.docs import Docs

LONG = " ".join(f"w{i}" for i in range(70)) + "."


def passage(identity: str, text: str, split: Any = "test") -> _docstrings.Passage:
    return _docstrings.Passage(identity, "numpy", "numpy.linalg", text, split)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENENDED_CACHE", str(tmp_path))
    return tmp_path / "docs"


def words(**change: Any) -> Docs:
    return Docs(**{"prompt_unit": "words", "prompt_length": 12} | change)


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    passages = [passage(f"docs/m/f{i}/0", f"P{i} {LONG}") for i in range(9)]
    passages += [passage("docs/m/short/0", "Too short."), passage("docs/m/train/0", LONG, "train")]
    monkeypatch.setattr(_docstrings, "load_passages", lambda **_: passages)


@pytest.mark.usefixtures("corpus")
def test_prompt_and_human_are_the_passage() -> None:
    skipped: Counter[str] = Counter()
    examples = list(words().examples(None, skipped))
    assert len(examples) == 9
    assert skipped == {"shorter than 60 words": 1}
    for example in examples:
        assert len(example.prompt.split()) == 12
        assert example.human.startswith(" w11")
        assert (example.prompt + example.human).endswith(LONG)
        assert example.meta["package"] == "numpy"


@pytest.mark.usefixtures("corpus")
def test_order_depends_on_ids_alone() -> None:
    ids = [e.id for e in words().examples(None, Counter())]
    assert ids != sorted(ids)
    assert ids == [e.id for e in words(prompt_length=3).examples(None, Counter())]
    fewer = [e.id for e in words(min_words=71).examples(None, Counter())]
    assert fewer == ids


@pytest.mark.usefixtures("corpus")
def test_splits_are_kept_apart() -> None:
    assert [e.id for e in words(split="train").examples(None, Counter())] == ["docs/m/train/0"]


@pytest.mark.usefixtures("corpus")
def test_the_passages_are_kept_and_verified(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = list(words().examples(None, Counter()))
    (kept,) = cache.iterdir()
    parsed = _docstrings.load_passages()
    calls: list[int] = []

    def load(**_: Any) -> list[_docstrings.Passage]:
        calls.append(1)
        return parsed

    monkeypatch.setattr(_docstrings, "load_passages", load)
    assert list(words().examples(None, Counter())) == first
    assert not calls
    for broken in (kept.read_text().replace("w1 ", "x1 ", 1), "", "no json", "[1]\n[2]\n"):
        kept.write_text(broken)
        assert list(words().examples(None, Counter())) == first
    assert len(calls) == 4


@pytest.mark.usefixtures("corpus")
def test_a_cache_that_cannot_be_written_does_no_harm(cache: Path) -> None:
    cache.write_text("a file where a folder should be")
    assert len(list(words().examples(None, Counter()))) == 9


def test_fingerprint_is_cheap_and_moves_with_the_installed_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: Any) -> Any:
        raise AssertionError("planning must not parse the corpus")

    monkeypatch.setattr(_docstrings, "load_passages", refuse)
    first = Docs().fingerprint()
    assert first == Docs(min_words=80).fingerprint()
    assert len(first) == 64
    from openended.tasks import docs

    monkeypatch.setattr(docs, "_describe_installed", lambda package: f"{package} 0.0.0")
    assert Docs().fingerprint() != first


def test_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_docstrings, "DEFAULT_PACKAGES", ("no_such_package_here",))
    with pytest.raises(DataError, match="no_such_package_here is not installed"):
        Docs().fingerprint()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_length": 0}, "prompt_length"),
        ({"min_words": 12}, "more than prompt_length"),
        ({"split": "dev"}, "split"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Docs(**options)


class Letters:
    """A tokenizer of four letters a token."""

    def encode(self, text: str) -> list[int]:
        return [int.from_bytes(text[i : i + 4].encode(), "big") for i in range(0, len(text), 4)]

    def decode(self, ids: Any) -> str:
        return b"".join(i.to_bytes(4, "big").lstrip(b"\0") for i in ids).decode()


@pytest.mark.usefixtures("corpus")
def test_prompts_of_the_models_tokens_have_one_length() -> None:
    assert Docs().needs_tokenizer()
    examples = list(Docs().examples(Letters(), Counter()))
    assert {len(Letters().encode(e.prompt)) for e in examples} == {20}
    assert all((e.prompt + e.human).endswith(LONG) for e in examples)


# A small package whose passages are written out, so that a change of the extraction shows.
SOURCE = '''"""Tools for the weather in the north.

The measured values are read line by line, and ``nan`` stands for a missing value.

Parameters
----------
path : str
    Where the file is.

Notes
-----
Every value is *rounded* to two digits before it is stored.
The rest of the paragraph follows on the next line::

    code here
"""


class Station:
    """A place where values are measured every hour."""

    def read(self, day):
        """Return the values of one day.

        >>> Station().read(1)
        """

    def write(self, day):
        """A place where values are measured every hour."""
'''
PASSAGES = [
    (
        "docs/made_up/__doc__/0",
        (
            "Tools for the weather in the north. The measured values are read line by line, and nan stands for a "
            "missing value. Every value is rounded to two digits before it is stored."
        ),
    ),
    ("docs/made_up/Station/0", "A place where values are measured every hour."),
    ("docs/made_up/Station.read/0", "Return the values of one day."),
]


def test_the_extraction_of_this_version_gives_these_passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it gives others, `docs.EXTRACTION` must change, and with it the keys of all runs on the task."""
    package = tmp_path / "made_up"
    package.mkdir()
    (package / "__init__.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    passages = _docstrings.load_passages(packages=("made_up",))
    assert [(p.id, p.text) for p in passages] == PASSAGES
    assert {p.split for p in passages} == {"test"}
    assert _docstrings.fingerprint(passages)[:16] == "7fd026503a77a120"
