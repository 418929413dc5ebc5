"""Cuts a document into prompt and human continuation, so that prompt + continuation is the document's own beginning."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Literal, NamedTuple

from harness.contract import Tokenizer

PromptUnit = Literal["tokens", "words"]
_WORD = re.compile(r"\S+")
# A character of UTF-8 has at most four bytes, so at most three tokens too many hold a part of one.
_PARTIAL_TOKENS = 3
# A token rarely stands for more characters; documents are cut there before they are tokenised.
_CHARS_PER_TOKEN = 64


class Cut(NamedTuple):
    """A document in two: `prompt + human` is its beginning, character by character."""

    prompt: str
    human: str


def cut(text: str, unit: PromptUnit, length: int, max_length: int | None, tokenizer: Tokenizer | None) -> Cut | None:
    """Cut after `length` tokens or words; both parts together hold at most `max_length` of them.

    Returns:
        None if nothing is left for the continuation.
    """
    if unit == "words":
        return cut_words(text, length, max_length)
    if tokenizer is None:
        raise TypeError("prompts counted in tokens need the tokenizer of the model under test")
    return cut_tokens(text, tokenizer, length, max_length)


def cut_words(text: str, length: int, max_length: int | None) -> Cut | None:
    """Cut after the first `length` whitespace words; the continuation keeps its leading space."""
    ends = _word_ends(text)
    at = next(islice(ends, length - 1, None), None)
    if at is None:
        return None
    end = len(text) if max_length is None else next(islice(ends, max_length - length - 1, None), len(text))
    return _cut_at(text, at, end)


def cut_tokens(text: str, tokenizer: Tokenizer, length: int, max_length: int | None) -> Cut | None:
    """Cut after the first `length` tokens of `tokenizer`.

    Where that many tokens end within a character, the prompt ends before it; where the tokenizer changes the text
    (case, spaces) so that no prefix agrees, there is no cut.
    """
    bound = None if max_length is None else max_length * _CHARS_PER_TOKEN
    ids = tokenizer.encode(text if bound is None else text[:bound])
    if len(ids) <= length:
        return None
    at = _prefix(text, ids, tokenizer, length)
    if at is None:
        return None
    end = len(text)
    if max_length is not None and (len(ids) > max_length or (bound is not None and len(text) > bound)):
        cut_end = _prefix(text, ids, tokenizer, max_length)
        if cut_end is None:
            return None
        end = cut_end
    return _cut_at(text, at, end)


def _prefix(text: str, ids: list[int], tokenizer: Tokenizer, length: int) -> int | None:
    """Return how many characters of `text` the first `length` tokens stand for."""
    for drop in range(min(_PARTIAL_TOKENS + 1, length)):
        part = tokenizer.decode(ids[: length - drop])
        if part and text.startswith(part):
            return len(part)
    return None


def _word_ends(text: str) -> Iterator[int]:
    return (match.end() for match in _WORD.finditer(text))


def _cut_at(text: str, at: int, end: int) -> Cut | None:
    prompt, human = text[:at], text[at:end]
    return Cut(prompt, human) if human.strip() else None
