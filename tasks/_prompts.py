"""Split a document into prompt and human continuation; together they are the beginning of the document."""

from __future__ import annotations

import re
from itertools import islice
from typing import Literal, NamedTuple

from openended.harness.core import Spec, Tokenizer

PromptUnit = Literal["tokens", "words"]
_WORD = re.compile(r"\S+")
# Whitespace and the word after it; tokenizers do not merge across the end of a piece.
_PIECE = re.compile(r"\s*\S+|\s+$")
# A UTF-8 character has at most four bytes, so at most three trailing tokens can hold an incomplete character.
_PARTIAL_TOKENS = 3
# English tokens have about four characters; this much of a document is tokenized first, then more if needed.
_CHARS_PER_TOKEN = 6
# Maximum number of pieces whose token counts are cached, which limits memory.
_MAX_CACHED_PIECES = 300_000


def check_lengths(task: Spec, prompt_length: int, max_length: int | None) -> None:
    """Refuse lengths that leave no room for a prompt or a continuation."""
    task.require(prompt_length >= 1, "prompt_length", "at least 1")
    leaves_room = max_length is None or max_length > prompt_length
    task.require(leaves_room, "max_length", f"more than prompt_length ({prompt_length}), or null")


class CutDocument(NamedTuple):
    """A split document: `prompt + human` is exactly its beginning."""

    prompt: str
    human: str


class Cutter:
    """Cuts documents after `length` tokens or words; both parts together hold at most `max_length` of them.

    Tokenizing whole documents only to check their length would dominate loading time. Instead, cached token counts of
    their pieces are added up, and only documents that may be too long are tokenized.
    """

    def __init__(
        self, unit: PromptUnit, length: int, max_length: int | None, tokenizer: Tokenizer | None = None
    ) -> None:
        if unit == "tokens" and tokenizer is None:
            raise TypeError("prompts counted in tokens need the tokenizer of the model under test")
        self._length, self._max_length = length, max_length
        self._tokenizer = tokenizer if unit == "tokens" else None
        self._counts = _Counts(self._tokenizer)

    def cut(self, text: str) -> CutDocument | None:
        """Return prompt and continuation, or None if the continuation would be empty.

        If the prompt's last token ends within a character, the prompt ends before that character. If the tokenizer
        changes the text (case, spaces) so that no prefix matches, None is returned.
        """
        if self._tokenizer is None:
            return cut_words(text, self._length, self._max_length)
        ids = _tokenize_beyond(text, self._tokenizer, self._length)
        prompt_end = None if ids is None else _find_end(text, ids, self._tokenizer, self._length)
        if prompt_end is None:
            return None
        end: int | None = len(text)
        limit = self._max_length
        if limit is not None and self._may_exceed(text, limit):
            ids = _tokenize_beyond(text, self._tokenizer, limit)
            end = len(text) if ids is None else _find_end(text, ids, self._tokenizer, limit)
        return None if end is None else _split_at(text, prompt_end, end)

    def _may_exceed(self, text: str, limit: int) -> bool:
        return sum(map(self._counts.__getitem__, _PIECE.findall(text))) > limit


class _Counts(dict[str, int]):
    """Cache of token counts per piece."""

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, piece: str) -> int:
        count = len(self._tokenizer.encode(piece)) if self._tokenizer is not None else 1
        if len(self) < _MAX_CACHED_PIECES:
            self[piece] = count
        return count


def cut_words(text: str, length: int, max_length: int | None) -> CutDocument | None:
    """Cut after the first `length` whitespace words; the continuation keeps its leading space."""
    ends = (match.end() for match in _WORD.finditer(text))
    prompt_end = next(islice(ends, length - 1, None), None)
    if prompt_end is None:
        return None
    end = len(text) if max_length is None else next(islice(ends, max_length - length - 1, None), len(text))
    return _split_at(text, prompt_end, end)


def _tokenize_beyond(text: str, tokenizer: Tokenizer, length: int) -> list[int] | None:
    """Tokenize just enough of `text` for more than `length` tokens; None if the text is not that long."""
    size = length * _CHARS_PER_TOKEN
    while True:
        match = _WORD.search(text, size)
        part = text[: match.end()] if match else text
        ids = tokenizer.encode(part)
        if len(ids) > length:
            return ids
        if len(part) == len(text):
            return None
        size *= 2


def _find_end(text: str, ids: list[int], tokenizer: Tokenizer, length: int) -> int | None:
    """Return the number of characters in the first `length` tokens of `text`; None if no prefix matches."""
    for drop in range(min(_PARTIAL_TOKENS + 1, length)):
        part = tokenizer.decode(ids[: length - drop])
        if part and text.startswith(part):
            return len(part)
    return None


def _split_at(text: str, prompt_end: int, end: int) -> CutDocument | None:
    prompt, human = text[:prompt_end], text[prompt_end:end]
    return CutDocument(prompt, human) if human.strip() else None
