"""Cutting a document into prompt and continuation: always the document's own beginning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from openended.tasks._prompts import CutDocument, Cutter


class Bytes:
    """One token a UTF-8 byte: characters beyond ASCII are split between tokens."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Any) -> str:
        return bytes(ids).decode(errors="replace")


def cut_words(text: str, length: int, max_length: int | None) -> CutDocument | None:
    return Cutter("words", length, max_length).cut(text)


def cut_tokens(text: str, tokenizer: Any, length: int, max_length: int | None) -> CutDocument | None:
    return Cutter("tokens", length, max_length, tokenizer).cut(text)


class Lower(Bytes):
    def encode(self, text: str) -> list[int]:
        return list(text.lower().encode())


def test_words_keep_the_space() -> None:
    assert cut_words("One two  three\nfour", 2, None) == ("One two", "  three\nfour")
    assert cut_words("  One two three four", 1, 3) == ("  One", " two three")


def test_nothing_left_is_no_cut() -> None:
    assert cut_words("One two", 2, None) is None
    assert cut_words("One two \n", 2, None) is None
    assert cut_words("", 1, None) is None
    assert cut_tokens("abc", Bytes(), 3, None) is None


def test_tokens() -> None:
    assert cut_tokens("abcdef", Bytes(), 2, None) == ("ab", "cdef")
    assert cut_tokens("abcdef", Bytes(), 2, 5) == ("ab", "cde")
    assert cut_tokens("abcdef", Bytes(), 2, 4) == ("ab", "cd")


def test_a_character_is_never_split() -> None:
    # "é" is two bytes: two tokens would end within it, so the prompt is "a".
    assert cut_tokens("aébc", Bytes(), 2, None) == ("a", "ébc")
    assert cut_tokens("a𝄞bc", Bytes(), 4, None) == ("a", "𝄞bc")
    assert cut_tokens("abcé", Bytes(), 1, 4) == ("a", "bc")


def test_a_tokenizer_that_changes_the_text_gives_no_cut() -> None:
    assert cut_tokens("ABCDEF", Lower(), 2, None) is None


def test_documents_are_not_tokenised_whole_to_see_that_they_are_short() -> None:
    seen: list[int] = []

    class Counting(Bytes):
        def encode(self, text: str) -> list[int]:
            seen.append(len(text))
            return super().encode(text)

    cutter = Cutter("tokens", 2, 9000, Counting())
    text = "word " * 1000
    assert cutter.cut(text) == ("wo", text[2:])
    assert max(seen) < 50
    assert seen.count(5) == 1
    # What is longer is cut exactly where the whole document's tokens end.
    assert Cutter("tokens", 2, 1000, Counting()).cut(text) == ("wo", text[2:1000])


def test_a_document_without_a_space() -> None:
    assert cut_tokens("x" * 100_000, Bytes(), 2, 10) == ("xx", "x" * 8)


def test_tokens_need_a_tokenizer() -> None:
    with pytest.raises(TypeError, match="tokenizer"):
        Cutter("tokens", 1, None)


@given(st.text(max_size=40), st.integers(1, 8), st.one_of(st.none(), st.integers(9, 20)), st.booleans())
def test_prompt_and_human_begin_the_text(text: str, length: int, maximum: int | None, words: bool) -> None:
    made = Cutter("words" if words else "tokens", length, maximum, Bytes()).cut(text)
    if made is not None:
        assert text.startswith(made.prompt + made.human)
        assert made.human.strip()
        whole = made.prompt + made.human
        if maximum is None:
            assert text == whole
        elif not words:
            assert len(Bytes().encode(whole)) <= maximum
