"""Human texts without prompts: pieces, documents, boundaries, sources."""

import zipfile
from collections import Counter
from itertools import islice

import pytest

from openended.harness.core.errors import DataError
from openended.tasks import unconditional
from openended.tasks.hub import Hub
from openended.tasks.unconditional import Unconditional, wrap
from openended.tasks.writing_prompts import detokenize_lm1b
from tests.helpers import write_jsonl
from tests.tasks.reading import read

END = "<|endoftext|>"


class Characters:
    """A token per character; 0 is the end token, written as `#`."""

    eos_ids = (0,)
    bos_prefix = ()

    def encode(self, text):
        return [0 if c == "#" else ord(c) for c in text]

    def decode(self, ids):
        return "".join("#" if i == 0 else chr(i) for i in ids)


class NoEnd(Characters):
    eos_ids = ()


class WithStart(Characters):
    bos_prefix = (ord("^"),)


@pytest.fixture
def path(tmp_path):
    return str(write_jsonl(tmp_path / "texts.jsonl", [{"text": "abcd"}, {"text": "efghi"}, {"text": "j"}]))


def read_texts(tokenizer=None, **options):
    examples = read(Unconditional(**{"text": "file", "length": 5, **options}), tokenizer)
    assert all(not e.prompt for e in examples)
    assert [e.id for e in examples] == [f"unconditional/{i:06d}" for i in range(len(examples))]
    return [e.human for e in examples]


@pytest.mark.parametrize(
    ("boundaries", "tokenizer", "pieces"),
    [
        # abcd#efghi#j# in pieces of five; the last three are dropped.
        ("eos", Characters(), ["abcd#", "efghi"]),
        # Three tokens of text between a start and an end token; the last one is dropped.
        ("bos_eos", Characters(), ["#abc#", "#d#e#", "#fgh#", "#i#j#"]),
        ("bos_eos", WithStart(), ["^abc#", "^d#e#", "^fgh#", "^i#j#"]),
        # abcd, a blank line, efghi, a blank line, j, a blank line.
        ("none", NoEnd(), ["abcd\n", "\nefgh", "i\n\nj\n"]),
    ],
)
def test_documents_are_wrapped_into_pieces_of_one_length(path, boundaries, tokenizer, pieces):
    assert read_texts(tokenizer, path=path, boundaries=boundaries) == pieces


def test_documents_stay_whole_and_need_no_tokenizer(path):
    assert read_texts(path=path, layout="documents") == ["abcd", "efghi", "j"]
    assert not Unconditional(text="file", path=path, layout="documents").needs_tokenizer()
    assert Unconditional(text="file", path=path).needs_tokenizer()
    with pytest.raises(DataError, match=r"no end token; set task\.boundaries=none"):
        list(wrap(iter(["abc"]), NoEnd(), 3, "eos"))


def test_pieces_of_the_bundled_docs_have_the_length_and_are_tokenized_back_to_the_same_tokens():
    from openended.harness.models.spec import ModelSpec
    from openended.harness.models.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    texts = [e.human for e in islice(Unconditional(length=64).examples(tokenizer, Counter()), 20)]
    lengths = [len(tokenizer.encode(text)) for text in texts]
    assert lengths == pytest.approx([64] * 20, abs=2)  # a word that is cut in two can have other tokens
    assert sum(END in text for text in texts) > 5
    assert Unconditional().has_docs_prose()
    assert not Unconditional(text="openwebtext").has_docs_prose()


def test_a_folder_of_the_hubs_format(tmp_path, monkeypatch):
    import datasets

    (tmp_path / "set").mkdir()
    write_jsonl(tmp_path / "set" / "test.jsonl", [{"body": f"text {i}"} for i in range(4)])
    cache = str(tmp_path / "cache")
    monkeypatch.setenv("HF_DATASETS_CACHE", cache)
    monkeypatch.setattr(
        Hub, "_load", lambda self, commit: datasets.load_dataset(self.path, split=self.split, cache_dir=cache)
    )
    texts = read_texts(text="hub", path=str(tmp_path / "set"), field="body", layout="documents")
    assert sorted(texts) == [f"text {i}" for i in range(4)]


def test_the_splits_are_those_of_the_papers(monkeypatch):
    corpus = Unconditional(text="openwebtext", field="ignored").corpus()
    assert (corpus.path, corpus.split, corpus.text_field) == ("Skylion007/openwebtext", "train[-100000:]", "text")
    assert Unconditional(text="openwebtext", split="train").corpus().split == "train[:-100000]"
    monkeypatch.setattr(Hub, "documents", lambda self, skipped: iter([("0", "Yes , it 's so .")]))
    assert read_texts(text="lm1b", layout="documents") == ["Yes, it's so."]
    assert read_texts(text="openwebtext", layout="documents") == ["Yes , it 's so ."]


def test_text8_is_cut_by_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(unconditional, "TEXT8", {"train": (0, 6), "valid": (6, 8), "test": (8, 20)})
    path = tmp_path / "text8.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text8", "aaaaaabb" + "one two nine")
    assert read_texts(text="text8", path=str(path)) == ["one t", "wo ni"]
    assert not Unconditional(text="text8", path=str(path)).needs_tokenizer()
    path.write_bytes(b"no archive")
    with pytest.raises(DataError, match=r"text8\.zip: not the archive"):
        read_texts(text="text8", path=str(path))


def test_a_sentence_of_lm1b_is_detokenized():
    text = 'He said , " It \'s $ 5 ( or so ) . " Really ?'
    assert detokenize_lm1b(text) == 'He said, "It\'s $5 (or so)." Really?'
