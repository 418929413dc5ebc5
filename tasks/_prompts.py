"""Cuts a document into prompt and human continuation, so that prompt + continuation is the document's own beginning."""

from __future__ import annotations

import re
from itertools import islice
from typing import Literal, NamedTuple

from harness.contract import Tokenizer

PromptUnit = Literal["tokens", "words"]
_WORD = re.compile(r"\S+")
# A run of whitespace and the word after it; tokenizers do not merge across such a border.
_PIECE = re.compile(r"\s*\S+|\s+$")
# A character of UTF-8 has at most four bytes, so at most three tokens too many hold a part of one.
_PARTIAL_TOKENS = 3
# English tokens stand for about four characters: documents are tokenised up to here first, then further if needed.
_CHARS_PER_TOKEN = 6
# Pieces whose number of tokens is remembered: bounds the memory of a long file.
_REMEMBERED = 300_000


class Cut(NamedTuple):
    """A document in two: `prompt + human` is its beginning, character by character."""

    prompt: str
    human: str


class Cutter:
    """Cuts documents after `length` tokens or words; both parts together hold at most `max_length` of them.

    Tokenising whole documents only to see that they are short enough would take most of the time of loading them, so
    the tokens of pieces are counted, each piece once, and only what may be too long is tokenised as a whole.
    """

    def __init__(
        self, unit: PromptUnit, length: int, max_length: int | None, tokenizer: Tokenizer | None = None
    ) -> None:
        if unit == "tokens" and tokenizer is None:
            raise TypeError("prompts counted in tokens need the tokenizer of the model under test")
        self._length, self._max_length = length, max_length
        self._tokenizer = tokenizer if unit == "tokens" else None
        self._counts: dict[str, int] = {}

    def cut(self, text: str) -> Cut | None:
        """Return prompt and continuation, or None if nothing is left for the continuation.

        Where the tokens of the prompt end within a character, the prompt ends before it; where the tokenizer changes
        the text (case, spaces) so that no prefix agrees, there is no cut.
        """
        if self._tokenizer is None:
            return cut_words(text, self._length, self._max_length)
        at = _end_of(text, self._tokenizer, self._length)
        if at is None:
            return None
        end: int | None = len(text)
        if self._max_length is not None and self._may_exceed(text, self._tokenizer, self._max_length):
            whole = len(self._tokenizer.encode(text)) <= self._max_length
            end = len(text) if whole else _end_of(text, self._tokenizer, self._max_length)
        return None if end is None else _cut_at(text, at, end)

    def _may_exceed(self, text: str, tokenizer: Tokenizer, limit: int) -> bool:
        total = 0
        for piece in _PIECE.findall(text):
            count = self._counts.get(piece)
            if count is None:
                count = len(tokenizer.encode(piece))
                if len(self._counts) < _REMEMBERED:
                    self._counts[piece] = count
            total += count
            if total > limit:
                return True
        return False


def cut_words(text: str, length: int, max_length: int | None) -> Cut | None:
    """Cut after the first `length` whitespace words; the continuation keeps its leading space."""
    ends = (match.end() for match in _WORD.finditer(text))
    at = next(islice(ends, length - 1, None), None)
    if at is None:
        return None
    end = len(text) if max_length is None else next(islice(ends, max_length - length - 1, None), len(text))
    return _cut_at(text, at, end)


def _end_of(text: str, tokenizer: Tokenizer, length: int) -> int | None:
    """Return how many characters of `text` its first `length` tokens stand for; None if it has no more tokens."""
    ids: list[int] = []
    size = length * _CHARS_PER_TOKEN
    while len(ids) <= length:
        match = _WORD.search(text, size)
        part = text[: match.end()] if match else text
        ids = tokenizer.encode(part)
        if len(part) == len(text):
            break
        size *= 2
    if len(ids) <= length:
        return None
    for drop in range(min(_PARTIAL_TOKENS + 1, length)):
        part = tokenizer.decode(ids[: length - drop])
        if part and text.startswith(part):
            return len(part)
    return None


def _cut_at(text: str, at: int, end: int) -> Cut | None:
    prompt, human = text[:at], text[at:end]
    return Cut(prompt, human) if human.strip() else None
