"""Cutting a document into prompt and continuation: always the document's own beginning."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks._prompts import cut, cut_tokens, cut_words


class Bytes:
    """One token a UTF-8 byte: characters beyond ASCII are split between tokens."""

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, ids: Any) -> str:
        return bytes(ids).decode(errors="replace")


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
    assert cut("abcdef", "tokens", 2, 4, Bytes()) == ("ab", "cd")


def test_a_character_is_never_split() -> None:
    # "é" is two bytes: two tokens would end within it, so the prompt is "a".
    assert cut_tokens("aébc", Bytes(), 2, None) == ("a", "ébc")
    assert cut_tokens("a𝄞bc", Bytes(), 4, None) == ("a", "𝄞bc")
    assert cut_tokens("abcé", Bytes(), 1, 4) == ("a", "bc")


def test_a_tokenizer_that_changes_the_text_gives_no_cut() -> None:
    assert cut_tokens("ABCDEF", Lower(), 2, None) is None


def test_a_long_document_is_not_tokenised_whole() -> None:
    seen: list[int] = []

    class Counting(Bytes):
        def encode(self, text: str) -> list[int]:
            seen.append(len(text))
            return super().encode(text)

    assert cut_tokens("x" * 1_000_000, Counting(), 2, 10) == ("xx", "x" * 8)
    assert seen == [640]


def test_tokens_need_a_tokenizer() -> None:
    with pytest.raises(TypeError, match="tokenizer"):
        cut("a b", "tokens", 1, None, None)


@given(st.text(max_size=40), st.integers(1, 8), st.one_of(st.none(), st.integers(9, 20)), st.booleans())
def test_prompt_and_human_begin_the_text(text: str, length: int, maximum: int | None, words: bool) -> None:
    made = cut(text, "words" if words else "tokens", length, maximum, Bytes())
    if made is not None:
        assert text.startswith(made.prompt + made.human)
        assert made.human.strip()
        if maximum is None:
            assert text == made.prompt + made.human
