"""Naive systems: texts without a model, which show what a metric does not see (docs/unconditional.md lists them).

Source: the trivial samplers of França and Tong 2026 (arXiv 2606.08417); `retrieval` is the baseline of Hashimoto et al.
2019 (HUSE), with the library bm25s in place of Solr; the others are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from openended.harness import core
from openended.harness.core import DataError, SpecError, suggest
from openended.harness.models import decode_continuation
from openended.harness.storage import Row

PREFIX = "naive:"
# Kind → its default number; None: it takes none.
KINDS: dict[str, int | None] = {
    "unigram": 64, "periodic": 64, "mirror": 5000, "phrases": 1000,
    "shuffled": None, "memorizer": None, "repeated": None, "retrieval": None,
}  # fmt: skip
_PHRASE = 5  # tokens
_BLOCK_TOKENS = 5000  # most frequent tokens from which a periodic block is drawn
_SENTENCE = re.compile(r"(?<=[.!?])(?=\s)")


@dataclass(frozen=True, slots=True)
class NaiveSystem:
    """A naive system and its number."""

    kind: str
    number: int | None
    """How many tokens or phrases; None where the kind takes no number."""


def parse_naive_system(name: str) -> NaiveSystem | None:
    """Return the naive system of the option `generations`; None if it names something else."""
    if not name.startswith(PREFIX):
        return None
    kind, _, number = name.removeprefix(PREFIX).partition(":")
    if kind not in KINDS:
        raise SpecError(f"generations={name}: no naive system {kind!r}{suggest(kind, KINDS)}")
    if not number:
        return NaiveSystem(kind, KINDS[kind])
    if KINDS[kind] is None or not number.isdecimal() or int(number) < 1:
        expected = "no number" if KINDS[kind] is None else "a whole number from 1"
        raise SpecError(f"generations={name}: expected {expected} after naive:{kind}, got {number!r}")
    return NaiveSystem(kind, int(number))


def find_nearest_prompts(queries: Sequence[str], prompts: Sequence[str]) -> list[int]:
    """Return for each query the position of the most similar prompt by BM25 (Robertson and Zaragoza 2009)."""
    core.require_package("bm25s", "retrieval")
    import bm25s

    index = bm25s.BM25()
    split: Callable[[Sequence[str]], Any] = partial(bm25s.tokenize, stopwords=None, show_progress=False)
    index.index(split(list(prompts)), show_progress=False)
    matches = index.retrieve(split(list(queries)), k=1, show_progress=False)
    return [int(row[0]) for row in matches.documents]


@dataclass(frozen=True)
class NaiveTexts:
    """The texts of a naive system; without a tokenizer, ids are those of `words`."""

    system: NaiveSystem
    training: Sequence[Sequence[int]]
    seed: int
    tokenizer: core.Tokenizer | None
    words: Sequence[str] = ()

    def rows(self, human: Sequence[Row], lengths: Sequence[int]) -> Iterator[Row]:
        """Yield one text for each example of the human side, with as many tokens as `lengths` says."""
        for index, (row, length) in enumerate(zip(human, lengths, strict=True)):
            example = row.generation.example_id
            ids = tuple(int(i) for i in self._draw(index, example, length))
            text = self._decode(row.prompt_ids, ids)
            ids = ids if self.tokenizer is not None else ()
            yield Row(row.prompt, row.prompt_ids, core.Generation(example, 0, text, ids, "length", float("nan")))

    def make_text(self, index: int, example: str, length: int) -> str:
        """Return the text of one example, of `length` tokens."""
        return self._decode((), [int(i) for i in self._draw(index, example, length)])

    def _draw(self, index: int, example: str, length: int) -> Sequence[int] | core.I64:
        """Return the token ids of a text."""
        rng = core.make_random_stream(self.seed, "naive", self.system.kind, example)
        match self.system.kind:
            case "memorizer":
                return self.training[int(self._order[index % len(self.training)])][:length]
            case "repeated":
                return self.training[int(self._order[0])][:length]
            case "shuffled" | "phrases":
                parts = self._sentences if self.system.kind == "shuffled" else self._phrases
                out: list[int] = []
                while len(out) < length:
                    out += parts[int(rng.integers(len(parts)))]
                return out[:length]
            case "mirror":
                return np.resize(self._draw_tokens(rng, (length + 1) // 2), length)
            case "periodic":
                return np.resize(self._draw_tokens(rng, self.system.number or length), length)
        return self._draw_tokens(rng, length)

    def _draw_tokens(self, rng: np.random.Generator, count: int) -> core.I64:
        """Draw tokens independently by their frequency."""
        ids, cumulative = self._unigrams
        tokens: core.I64 = ids[np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")]
        return tokens

    @cached_property
    def _order(self) -> core.I64:
        """The training texts in random order."""
        return core.make_random_stream(self.seed, "naive", "order").permutation(len(self.training))

    @cached_property
    def _unigrams(self) -> tuple[core.I64, core.I64]:
        """The most frequent tokens and their cumulative counts; equal counts in order of the ids."""
        tokens = np.concatenate([np.asarray(text, dtype=np.int64) for text in self.training])
        ids, counts = np.unique(tokens, return_counts=True)
        most = (_BLOCK_TOKENS if self.system.kind == "periodic" else self.system.number) or len(ids)
        order = np.argsort(-counts, kind="stable")[:most]
        return ids[order], np.cumsum(counts[order])

    @cached_property
    def _phrases(self) -> list[list[int]]:
        """The most frequent sequences of five tokens."""
        long = [np.asarray(text, dtype=np.int64) for text in self.training if len(text) >= _PHRASE]
        if not long:
            raise DataError(f"generations=naive:phrases: expected training texts of {_PHRASE} tokens, got shorter ones")
        windows = np.concatenate([np.lib.stride_tricks.sliding_window_view(text, _PHRASE) for text in long])
        phrases, counts = np.unique(windows, axis=0, return_counts=True)
        order = np.argsort(-counts, kind="stable")[: self.system.number]
        return [[int(i) for i in phrases[row]] for row in order]

    @cached_property
    def _sentences(self) -> list[list[int]]:
        """The sentences of the training texts, each after a space."""
        numbers = {word: i for i, word in enumerate(self.words)}
        sentences = []
        for text in self.training:
            for part in _SENTENCE.split(self._decode((), text)):
                words = part.strip()
                if self.tokenizer is not None:
                    sentences.append(self.tokenizer.encode(f" {words}") if words else [])
                else:
                    sentences.append([numbers[word] for word in words.split()])
        return [ids for ids in sentences if ids]

    def _decode(self, before: Sequence[int], ids: Sequence[int]) -> str:
        if self.tokenizer is not None:
            return decode_continuation(self.tokenizer, before, ids)
        return " ".join(self.words[i] for i in ids)
