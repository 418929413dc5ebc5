"""Tokens by pieces are the tokens of the whole text, and only tokenizers for which that is so are read by pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, strategies as st
from tokenizers import Tokenizer

from openended.harness.models import piecewise_tokenization as _pieces
from openended.harness.models.piecewise_tokenization import PieceTokens, is_exact
from openended.harness.models.spec import ModelSpec, list_bundled_models
from openended.harness.models.tokenizer import load_tokenizer, tokenize_texts
from tests.metrics.text_helpers import bpe, published

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
# Letters that the tokenizer merges, every kind of whitespace, what Python alone takes for whitespace, a special token.
ALPHABET = [
    *"abe'st,.!1é",
    "the",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "\x1c",
    "\x85",
    "\xa0",
    "\u2003",
    "\u3000",
    "\u200b",
    "<|endoftext|>",
]


def described() -> tuple[Tokenizer, dict[str, Any]]:
    folder = ModelSpec(path="bundled:docs-s").folder
    assert folder is not None
    path = folder / "tokenizer.json"
    return Tokenizer.from_file(str(path)), json.loads(path.read_text(encoding="utf-8"))


INNER, DESCRIPTION = described() if "docs-s" in list_bundled_models() else (None, {})
PIECES = PieceTokens(INNER)


@given(st.lists(st.sampled_from(ALPHABET), max_size=30).map("".join))
@example("")
@example(" \n ")
@example("a \n\n  b\x1c \x1c!\x1c!")
@example("end<|endoftext|> start")
def test_pieces_give_the_tokens_of_the_text(text: str) -> None:
    assert PIECES.encode(text) == INNER.encode(text, add_special_tokens=False).ids


@given(st.text(max_size=60))
def test_of_any_text(text: str) -> None:
    assert PIECES.encode(text) == INNER.encode(text, add_special_tokens=False).ids


@pytest.mark.reference
def test_of_real_texts_under_the_real_gpt2_vocabulary() -> None:
    inner, texts = bpe(), published("webtext/gpt2-large-greedy.jsonl", "reference")
    pieces = PieceTokens(inner)
    for text in texts:
        assert pieces.encode(text) == inner.encode(text, add_special_tokens=False).ids


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pieces, "_REMEMBERED", 3)
    pieces = PieceTokens(INNER)
    text = "one two three four five " + "x" * 100
    assert pieces.encode(text) == INNER.encode(text, add_special_tokens=False).ids
    assert list(pieces) == ["one", " two", " three"]
    monkeypatch.setattr(_pieces, "_REMEMBERED", 300)
    pieces.encode(text)
    assert max(map(len, pieces)) < 10


def changed(**parts: Any) -> dict[str, Any]:
    return {**DESCRIPTION, **parts}


@pytest.mark.parametrize(
    "parts",
    [
        {"normalizer": {"type": "NFC"}},
        {"model": {**DESCRIPTION.get("model", {}), "type": "Unigram"}},
        {"model": {**DESCRIPTION.get("model", {}), "dropout": 0.1}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}},
        {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}},
        {"pre_tokenizer": {"type": "Sequence", "pretokenizers": []}},
        {"pre_tokenizer": None},
        {"added_tokens": [{"content": "<mask>", "lstrip": True}]},
        {"added_tokens": [{"content": "two words"}]},
        {"added_tokens": [{"content": "x", "single_word": True}]},
    ],
)
def test_other_tokenizers_are_not_read_by_pieces(parts: dict[str, Any]) -> None:
    assert is_exact(DESCRIPTION)
    assert not is_exact(changed(**parts))


def test_the_bundled_tokenizer_is_read_by_pieces(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-s"))
    assert tokenizer.pieces is not None
    texts = ["Return the sum.", "", " of  all\n\nelements"]
    want = [INNER.encode(text, add_special_tokens=False).ids for text in texts]
    assert [tokenizer.encode(text) for text in texts] == want
    assert [row.tolist() for row in tokenize_texts(tokenizer, texts)] == want
