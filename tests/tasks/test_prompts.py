"""Cutting a document into prompt and continuation (always the document's own beginning), and the order of examples."""

import hashlib

from hypothesis import given, strategies as st

from openended.harness.core import sort_by_hash
from openended.tasks._prompts import Cutter
from tests.helpers import cases, check_error


class Bytes:
    """One token per UTF-8 byte: characters beyond ASCII are split between tokens."""

    def __init__(self):
        self.seen = []

    def encode(self, text):
        self.seen.append(len(text))
        return list(text.encode())

    def decode(self, ids):
        return bytes(ids).decode(errors="replace")


class Lower(Bytes):
    def encode(self, text):
        return list(text.lower().encode())


def cut(text, unit, length, max_length=None, tokenizer=None):
    return Cutter(unit, length, max_length, tokenizer or Bytes()).cut(text)


@cases(
    "text, unit, length, max_length, expected",
    ("One two  three\nfour", "words", 2, None, ("One two", "  three\nfour")),
    ("  One two three four", "words", 1, 3, ("  One", " two three")),
    ("One two three", "words", 1, 3, ("One", " two three")),
    ("One two", "words", 2, None, None),
    ("One two \n", "words", 2, None, None),
    ("", "words", 1, None, None),
    ("abcdef", "tokens", 2, None, ("ab", "cdef")),
    ("abcdef", "tokens", 2, 5, ("ab", "cde")),
    ("abcdef", "tokens", 2, 6, ("ab", "cdef")),
    ("abc", "tokens", 3, None, None),
    # "é" is two bytes: two tokens would end within it, so the prompt is "a".
    ("aébc", "tokens", 2, None, ("a", "ébc")),
    ("a𝄞bc", "tokens", 4, None, ("a", "𝄞bc")),
    ("abcé", "tokens", 1, 4, ("a", "bc")),
    ("x" * 100_000, "tokens", 2, 10, ("xx", "x" * 8)),
)
def test_cuts(text, unit, length, max_length, expected):
    assert cut(text, unit, length, max_length) == expected


def test_tokenizers_that_change_the_text_or_are_missing():
    assert cut("ABCDEF", "tokens", 2, None, Lower()) is None
    check_error(TypeError, "tokenizer", Cutter, "tokens", 1, None)


def test_documents_are_not_tokenized_whole_to_see_that_they_are_short():
    tokenizer, text = Bytes(), "word " * 1000
    cutter = Cutter("tokens", 2, 9000, tokenizer)
    assert cutter.cut(text) == ("wo", text[2:])
    assert max(tokenizer.seen) < 50
    assert tokenizer.seen.count(5) == 1
    # A longer document is cut exactly where the whole document's tokens end.
    assert cut(text, "tokens", 2, 1000) == ("wo", text[2:1000])


@given(st.text(max_size=40), st.integers(1, 8), st.one_of(st.none(), st.integers(9, 20)), st.booleans())
def test_prompt_and_human_begin_the_text(text, length, maximum, words):
    document = cut(text, "words" if words else "tokens", length, maximum)
    if document is not None:
        whole = document.prompt + document.human
        assert text.startswith(whole)
        assert document.human.strip()
        if maximum is None:
            assert text == whole
        elif not words:
            assert len(whole.encode()) <= maximum


def test_the_order_is_that_of_the_hash_of_the_key_and_of_nothing_else():
    names = [f"t/{i:06d}" for i in range(50)]
    expected = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    assert sort_by_hash(names, str) == sort_by_hash(reversed(names), str) == expected
    part = names[::3]
    assert sort_by_hash(part, str) == [name for name in expected if name in part]
