"""Split a document into prompt and human continuation; together they are the beginning of the document."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from openended.harness.core import Example, Json, Task, Tokenizer

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


class Document(NamedTuple):
    """A text before it is cut, with the example id and the facts that its example gets."""

    id: str
    text: str
    meta: dict[str, Json]


class CutTask(Task):
    """A task whose prompts are the first `prompt_length` tokens or words of documents; None: they are not cut."""

    prompt_unit: PromptUnit
    prompt_length: int | None
    max_length: int | None

    def check(self) -> None:
        length = self.prompt_length
        self.require(length is None or length >= 1, "prompt_length", "at least 1")
        leaves_room = self.max_length is None or (length is not None and self.max_length > length)
        self.require(leaves_room, "max_length", f"more than prompt_length ({length}), or null")

    def needs_tokenizer(self) -> bool:
        return self.prompt_length is not None and self.prompt_unit == "tokens"

    def cut_documents(
        self, documents: Iterable[Document], tokenizer: Tokenizer | None, skipped: Counter[str]
    ) -> Iterator[Example]:
        """Yield the documents as examples; those that are no longer than a prompt are counted."""
        if self.prompt_length is None:
            raise TypeError("prompt_length: expected a number, got None")
        cutter = Cutter(self.prompt_unit, self.prompt_length, self.max_length, tokenizer)
        for document in documents:
            parts = cutter.cut(document.text)
            if parts is None:
                skipped[f"no longer than {self.prompt_length} {self.prompt_unit}"] += 1
            else:
                yield Example(document.id, parts.prompt, parts.human, document.meta)


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
        self._count_tokens = lru_cache(_MAX_CACHED_PIECES)(
            lambda piece: len(tokenizer.encode(piece)) if tokenizer else 1
        )

    def cut(self, text: str) -> CutDocument | None:
        """Return prompt and continuation, or None if the continuation would be empty.

        If the prompt's last token ends within a character, the prompt ends before that character. If the tokenizer
        changes the text (case, spaces) so that no prefix matches, None is returned.
        """
        limit = self._max_length
        end: int | None = len(text)
        if self._tokenizer is None:
            ends = (match.end() for match in _WORD.finditer(text))
            prompt_end = next(islice(ends, self._length - 1, None), None)
            if limit is not None:
                end = next(islice(ends, limit - self._length - 1, None), len(text))
        else:
            prompt_end = _find_end(text, self._tokenizer, self._length, None)
            if limit is not None and sum(map(self._count_tokens, _PIECE.findall(text))) > limit:
                end = _find_end(text, self._tokenizer, limit, len(text))
        if prompt_end is None or end is None:
            return None
        human = text[prompt_end:end]
        return CutDocument(text[:prompt_end], human) if human.strip() else None


def _find_end(text: str, tokenizer: Tokenizer, length: int, short: int | None) -> int | None:
    """Return the number of characters in the first tokens; `short` if there are no more, None if no prefix matches."""
    size = length * _CHARS_PER_TOKEN
    while True:
        match = _WORD.search(text, size)
        part = text[: match.end()] if match else text
        ids = tokenizer.encode(part)
        if len(ids) > length:
            break
        if len(part) == len(text):
            return short
        size *= 2
    for drop in range(min(_PARTIAL_TOKENS + 1, length)):
        prefix = tokenizer.decode(ids[: length - drop])
        if prefix and text.startswith(prefix):
            return len(prefix)
    return None
