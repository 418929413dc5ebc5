"""Human texts without prompts: pieces, documents, boundaries, sources."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import DataError, SpecError
from openended.harness.models.spec import ModelSpec
from openended.harness.models.tokenizer import load_tokenizer
from openended.tasks._detokenize import detokenize_lm1b
from openended.tasks.unconditional import Text8, Unconditional, wrap
from tests.helpers import write_jsonl

END = "<|endoftext|>"


class Characters:
    """A token per character; 0 is the end token, written as `#`."""

    eos_ids = (0,)
    bos_prefix: tuple[int, ...] = ()

    def encode(self, text: str) -> list[int]:
        return [0 if c == "#" else ord(c) for c in text]

    def decode(self, ids: Any) -> str:
        return "".join("#" if i == 0 else chr(i) for i in ids)


class NoEnd(Characters):
    eos_ids = ()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "texts.jsonl", [{"text": "abcd"}, {"text": "efghi"}, {"text": "j"}])


def read(tokenizer: Any = None, **options: Any) -> list[str]:
    task = Unconditional(**{"text": "file", "length": 5, **options})
    examples = list(task.examples(tokenizer, Counter()))
    assert all(not e.prompt for e in examples)
    assert [e.id for e in examples] == [f"unconditional/{i:06d}" for i in range(len(examples))]
    return [e.human for e in examples]


@pytest.mark.parametrize(
    ("boundaries", "pieces"),
    [
        # abcd#efghi#j# in pieces of five; the last three are dropped.
        ("eos", ["abcd#", "efghi"]),
        # Three tokens of text between a start and an end token; the last one is dropped.
        ("bos_eos", ["#abc#", "#d#e#", "#fgh#", "#i#j#"]),
        # abcd, a blank line, efghi, a blank line, j, a blank line.
        ("none", ["abcd\n", "\nefgh", "i\n\nj\n"]),
    ],
)
def test_documents_are_wrapped_into_pieces_of_one_length(path: Path, boundaries: str, pieces: list[str]) -> None:
    assert read(Characters(), path=str(path), boundaries=boundaries) == pieces


def test_documents_stay_whole_and_need_no_tokenizer(path: Path) -> None:
    assert read(path=str(path), layout="documents") == ["abcd", "efghi", "j"]
    assert not Unconditional(text="file", path=str(path), layout="documents").needs_tokenizer()
    assert Unconditional(text="file", path=str(path)).needs_tokenizer()


def test_a_tokenizer_without_an_end_token_is_refused_where_one_is_needed() -> None:
    with pytest.raises(DataError, match=r"no end token; set task\.boundaries=none"):
        list(wrap(iter(["abc"]), NoEnd(), 3, "eos"))
    assert list(wrap(iter(["abcd"]), NoEnd(), 3, "none")) == ["abc", "d\n\n"]


def test_pieces_of_the_bundled_docs_have_the_length_and_are_tokenized_back_to_the_same_tokens() -> None:
    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    texts = [e.human for e, _ in zip(Unconditional(length=64).examples(tokenizer, Counter()), range(20), strict=False)]
    lengths = [len(tokenizer.encode(text)) for text in texts]
    assert lengths == pytest.approx([64] * 20, abs=2)  # a word that is cut in two can have other tokens
    assert sum(END in text for text in texts) > 5
    assert Unconditional().has_docs_prose()
    assert not Unconditional(text="openwebtext").has_docs_prose()


def test_a_folder_of_the_hubs_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "set").mkdir()
    write_jsonl(tmp_path / "set" / "test.jsonl", [{"body": f"text {i}"} for i in range(4)])
    task = Unconditional(text="hub", path=str(tmp_path / "set"), field="body", layout="documents")
    skipped: Counter[str] = Counter()
    monkeypatch.setattr("openended.tasks.hub.Hub._load", lambda self, commit: _load(self, str(tmp_path / "cache")))
    assert sorted(e.human for e in task.examples(None, skipped)) == [f"text {i}" for i in range(4)]


def _load(hub: Any, cache: str) -> Any:
    import datasets

    return datasets.load_dataset(hub.path, split=hub.split, cache_dir=cache)


def test_the_splits_are_those_of_the_papers() -> None:
    task: Any = Unconditional(text="openwebtext").corpus()
    assert (task.path, task.split) == ("Skylion007/openwebtext", "train[-100000:]")
    assert Unconditional(text="openwebtext", split="train").corpus().split == "train[:-100000]"  # type: ignore[union-attr]
    with pytest.raises(SpecError, match="expected one of train, test of lm1b, got 'valid'"):
        Unconditional(text="lm1b", split="valid")


def test_text8_is_cut_by_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openended.tasks.unconditional.TEXT8", {"train": (0, 6), "valid": (6, 8), "test": (8, 20)})
    with zipfile.ZipFile(tmp_path / "text8.zip", "w") as archive:
        archive.writestr("text8", "aaaaaabb" + "one two nine")
    path = str(tmp_path / "text8.zip")
    assert read(text="text8", path=path) == ["one t", "wo ni"]
    assert not Unconditional(text="text8", path=path).needs_tokenizer()
    (tmp_path / "text8.zip").write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"text8\.zip: not the archive"):
        Text8(path=path).read_split()


def test_wrong_options() -> None:
    with pytest.raises(SpecError, match=r"task\.path: expected a file of texts with task\.text=file"):
        Unconditional(text="file")
    with pytest.raises(SpecError, match="hub id, or a folder"):
        Unconditional(text="hub")
    with pytest.raises(SpecError, match="length"):
        Unconditional(length=2)


def test_a_sentence_of_lm1b_is_detokenized() -> None:
    text = 'He said , " It \'s $ 5 ( or so ) . " Really ?'
    assert detokenize_lm1b(text) == 'He said, "It\'s $5 (or so)." Really?'
