"""N-grams of a corpus: built exactly once, linear in the number of tokens, shared by every n-gram metric.

All tokens lie in one array with a separator around the texts. Order n is made from order n - 1: positions that share an
(n - 1)-gram stand together, and a sort by the next token inside each such group puts positions that share an n-gram
together. An n-gram seen once can only be extended to n-grams seen once: such positions are counted and left out of all
higher orders. Groups are sorted in blocks that fit the cache, by digits of 16 bits, which NumPy sorts by counting.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64, Ragged

CHUNK = 1 << 22  # elements of a temporary array: keeps the peak far below the size of the corpus
BLOCK = 1 << 17  # positions that are sorted at once; groups have two or more, so that 16 bits number those of a block

Positions: TypeAlias = NDArray[np.signedinteger[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """The n-grams of one order that occur more than once; the others are only counted."""

    positions: Positions  # where each occurrence starts in the padded tokens, grouped by n-gram, rising inside a group
    starts: I64  # group g is `positions[starts[g]:starts[g + 1]]`
    total: int  # all n-grams of this order, those that occur once included
    types: int  # different n-grams of this order, those that occur once included

    @property
    def counts(self) -> I64:
        """How often each n-gram with more than one occurrence occurs."""
        return np.diff(self.starts)

    @property
    def hapaxes(self) -> int:
        return self.total - len(self.positions)


@dataclass(frozen=True, slots=True, eq=False)
class RunLengths:
    """Occurrences of repeated n-grams by text: one run for each (n-gram, text) pair, sorted by both."""

    text: NDArray[np.int32]
    count: NDArray[np.int32]
    first: I64  # index of the first run of each n-gram
    group: NDArray[np.int32]  # index of the n-gram of each run


class NgramIndex:
    """The n-grams of a corpus; each order is built on first use."""

    def __init__(self, rows: Ragged) -> None:
        self._rows = rows
        self.lengths: I64 = np.asarray(rows.lengths, dtype=np.int64)
        self.tokens, self.vocab = _pad(rows)
        self._levels: list[Level] = []
        self._runs: dict[int, RunLengths] = {}
        self._repeats: dict[int, I64] = {}

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def without_last(self) -> "NgramIndex":
        """The index of the texts without their last token."""
        return NgramIndex(trim_rows(self._rows, np.maximum(self._rows.lengths - 1, 0)))

    @cached_property
    def as_one_text(self) -> "NgramIndex":
        """The index of all texts joined to one, so that n-grams cross texts."""
        return NgramIndex(Ragged(self._rows.values, self._rows.offsets[[0, -1]]))

    @cached_property
    def text_of(self) -> NDArray[np.int32]:
        """The text of each position of the padded tokens."""
        text = np.zeros(len(self.tokens), dtype=np.int32)
        text[1:] = np.repeat(np.arange(len(self), dtype=np.int32), self.lengths + 1)
        return text

    @cached_property
    def frequencies(self) -> I64:
        """Occurrences of each token id (after renumbering), in no useful order; zeros are possible."""
        counts = np.zeros(self.vocab + 1, dtype=np.int64)
        for low in range(0, len(self.tokens), CHUNK):
            counts += np.bincount(self.tokens[low : low + CHUNK], minlength=self.vocab + 1)
        return counts[1:]

    def sizes(self, order: int) -> I64:
        """Number of n-grams in each text, shape (n,)."""
        return np.maximum(self.lengths - order + 1, 0)

    def level(self, order: int) -> Level:
        """Return the n-grams of an order."""
        if order < 1:
            raise ValueError(f"expected an order of at least 1, got {order}")
        while len(self._levels) < order:
            level_ = _refine(self, self._levels[-1], len(self._levels) + 1) if self._levels else _sort_unigrams(self)
            self._levels.append(level_)
        return self._levels[order - 1]

    def repeats(self, order: int) -> I64:
        """Occurrences in each text of n-grams already seen in the same text: all minus unique, shape (n,)."""
        if order in self._repeats:
            return self._repeats[order]
        level = self.level(order)
        out = np.zeros(len(self), dtype=np.int64)
        for low, high in blocks(level.starts, CHUNK):
            first, last = level.starts[low], level.starts[high]
            text = self.text_of[level.positions[first:last]]
            same = text[1:] == text[:-1]
            same[level.starts[low + 1 : high] - first - 1] = False
            out += np.bincount(text[1:][same], minlength=len(self))
        self._repeats[order] = out
        return out

    def run_blocks(self, order: int) -> Iterator[RunLengths]:
        """Yield `runs` in parts of neighboring n-grams, numbered from 0 in each; of a large corpus nothing is kept."""
        starts = self.level(order).starts
        if order in self._runs or starts[-1] <= CHUNK:
            yield self.runs(order)
            return
        for low, high in blocks(starts, CHUNK):
            yield self._find_runs(order, low, high)

    def runs(self, order: int) -> RunLengths:
        """Return the occurrences of an order by (n-gram, text); kept for the next metric that asks."""
        if order not in self._runs:
            self._runs[order] = self._find_runs(order, 0, len(self.level(order).starts) - 1)
        return self._runs[order]

    def match_lengths(self, split: int) -> Ragged:
        """Return for each token of the first `split` texts how long the sequence from it on is that another text has.

        Groups of equal n-grams of the texts before and from `split` on are refined order by order until none is left.
        """
        offsets = self._rows.offsets[: split + 1] - self._rows.offsets[0]
        end = int(offsets[-1]) + split  # the separator after the last of the first texts
        lengths, level, order = np.zeros(end + 1, dtype=np.int64), _sort_unigrams(self), 1
        while len(level.positions):
            is_first, group = level.positions < end, level.starts[:-1]
            shared = np.logical_or.reduceat(is_first, group) & np.logical_or.reduceat(~is_first, group)
            keep = np.repeat(shared, level.counts)
            positions = level.positions[keep]
            lengths[positions[is_first[keep]]] = order
            starts = np.concatenate([[0], np.cumsum(level.counts[shared])])
            order += 1
            level = _refine(self, Level(positions, starts, 0, 0), order)
        return Ragged(lengths[self.tokens[: end + 1] > 0], offsets)

    def _find_runs(self, order: int, low: int, high: int) -> RunLengths:
        level = self.level(order)
        starts = level.starts[low:high] - level.starts[low]
        text = self.text_of[level.positions[level.starts[low] : level.starts[high]]]
        new = np.ones(len(text), dtype=np.bool_)
        new[1:] = text[1:] != text[:-1]
        new[starts] = True
        begin = np.flatnonzero(new)
        count = np.diff(begin, append=len(text)).astype(np.int32)
        first = np.searchsorted(begin, starts)
        group = np.repeat(np.arange(high - low, dtype=np.int32), np.diff(first, append=len(begin)))
        return RunLengths(text[begin], count, first, group)


Texts: TypeAlias = Ragged | Sequence[str] | Sequence[Sequence[Hashable]] | Sequence[NDArray[Any]]
Sequences: TypeAlias = NgramIndex | Texts
"""Texts: lists of token ids (or of strings), or texts as one string each, which are split at white space."""


def index_of(sequences: Sequences) -> NgramIndex:
    """Return the index of `sequences`; an index is handed back as it is."""
    return sequences if isinstance(sequences, NgramIndex) else NgramIndex(pack_rows(sequences))


def _pad(rows: Ragged) -> tuple[NDArray[np.int32], int]:
    """Return tokens numbered from 1 with the separator 0 around every text, and the largest number."""
    begin, end = int(rows.offsets[0]), int(rows.offsets[-1])
    values = rows.values[begin:end]
    out = np.zeros(len(values) + len(rows) + 1, dtype=np.int32)
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, -1)
    names: NDArray[Any] | None = None
    if high - low > max(4 * len(values), 1 << 20):  # a sparse id space: renumber
        names = np.unique(values)
    offsets = rows.offsets - begin
    for first, last in blocks(offsets, CHUNK):
        a, b = int(offsets[first]), int(offsets[last])
        is_token = np.ones(b - a + last - first, dtype=np.bool_)
        is_token[offsets[first + 1 : last + 1] - a + np.arange(last - first)] = False
        if names is not None:
            piece = np.searchsorted(names, values[a:b])
        elif values.dtype.kind == "u":  # a uint64 id may not fit in int64, so the lowest id is subtracted first
            piece = (values[a:b] - values.dtype.type(low)).astype(np.int64)
        else:
            piece = values[a:b].astype(np.int64) - low
        out[a + first + 1 : b + last + 1][is_token] = piece + 1
    return out, (len(names) if names is not None else high - low + 1)


def _sort_unigrams(index: NgramIndex) -> Level:
    """Counting sort of all tokens that occur more than once, chunk by chunk."""
    tokens, counts = index.tokens, np.concatenate([[0], index.frequencies])
    repeated = counts > 1
    bounds = np.concatenate([[0], np.cumsum(np.where(repeated, counts, 0))])
    free = bounds[:-1].copy()  # the next free position of each token
    positions = np.empty(bounds[-1], dtype=np.int32 if len(tokens) < 1 << 31 else np.int64)
    for low in range(0, len(tokens), CHUNK):
        chunk = tokens[low : low + CHUNK]
        here = np.flatnonzero(repeated[chunk])
        here = here[np.lexsort(_split_digits(chunk[here], index.vocab))]
        token = chunk[here]
        new = np.flatnonzero(np.diff(token, prepend=-1))
        sizes = np.diff(new, append=len(token))
        slots = np.arange(len(token)) + np.repeat(free[token[new]] - new, sizes)
        positions[slots] = here + low
        free[token[new]] += sizes
    starts = np.concatenate([[0], np.cumsum(counts[repeated])])
    return Level(positions, starts, int(counts.sum()), int(np.count_nonzero(counts)))


def _refine(index: NgramIndex, below: Level, order: int) -> Level:
    """Make order n from order n - 1: sort each group by the next token."""
    positions: list[Positions] = [np.empty(0, dtype=below.positions.dtype)]
    sizes: list[I64] = [np.empty(0, dtype=np.int64)]
    types = followed = 0
    for low, high in blocks(below.starts, BLOCK):
        here = below.positions[below.starts[low] : below.starts[high]]
        token = index.tokens[here + (order - 1)]
        group = np.repeat(np.arange(high - low, dtype=np.uint16), np.diff(below.starts[low : high + 1]))
        inside = token > 0  # the others reached the end of their text
        here, token, group = here[inside], token[inside], group[inside]
        by_token = np.lexsort((*_split_digits(token, index.vocab), group))
        token, group = token[by_token], group[by_token]
        is_new = np.ones(len(here), dtype=np.bool_)
        is_new[1:] = (token[1:] != token[:-1]) | (group[1:] != group[:-1])
        size = np.diff(np.flatnonzero(is_new), append=len(here))
        types += len(size)
        followed += len(here)
        repeated = size > 1
        positions.append(here[by_token[np.repeat(repeated, size)]])
        sizes.append(size[repeated])
    total = int(index.sizes(order).sum())
    # the (n - 1)-grams seen once that do not end their text are n-grams seen once
    types += total - followed
    starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    return Level(np.concatenate(positions), starts, total, types)


def _split_digits(values: NDArray[np.int32], largest: int) -> list[NDArray[np.uint16]]:
    """Return the digits of 16 bits of values, the lowest first."""
    return [(values >> shift).astype(np.uint16) for shift in range(0, max(largest.bit_length(), 1), 16)]


# Texts as rows of integer ids: packed, cut and selected without a copy per text.


def pack_rows(sequences: Texts) -> Ragged:
    """Pack texts into one array of integer ids; equal tokens get equal ids, different tokens different ones."""
    if isinstance(sequences, Ragged):
        if len(sequences.values) and sequences.values.dtype.kind not in "iu":
            raise TypeError(f"expected integer token ids, got {sequences.values.dtype}")
        return sequences
    if isinstance(sequences, str):
        raise TypeError("expected a list of texts, got one string")
    texts = [text.split() if isinstance(text, str) else text for text in sequences]
    if (packed := _pack_integer_rows(texts)) is not None:
        return packed
    ids: dict[Hashable, int] = {}
    rows = []
    for number, text in enumerate(texts):
        try:
            rows.append([ids.setdefault(token, len(ids)) for token in text])
        except TypeError as err:
            raise TypeError(f"text {number}: expected a sequence of integers or hashable tokens ({err})") from err
    return Ragged.from_rows(rows, np.int64)


def _pack_integer_rows(texts: Sequence[Any]) -> Ragged | None:
    """Pack rows of integers, or return None if any token is something else."""
    rows = []
    for text in texts:
        if not isinstance(text, np.ndarray) and len(text) and not isinstance(text[0], (int, np.integer)):
            return None
        row = np.asarray(text)
        is_large = row.dtype == np.uint64 and row.size and row.max() > np.iinfo(np.int64).max
        if row.size and (row.dtype.kind not in "iu" or row.ndim != 1 or is_large):
            return None
        rows.append(row)
    return Ragged.from_rows(rows, np.int64)


def trim_rows(rows: Ragged, lengths: I64) -> Ragged:
    """Keep the first `lengths[i]` values of row i."""
    if np.array_equal(lengths, rows.lengths):
        return rows
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    values = np.empty(offsets[-1], dtype=rows.values.dtype)
    shift = rows.offsets[:-1] - offsets[:-1]
    for low, high in blocks(offsets, CHUNK):
        first, last = offsets[low], offsets[high]
        source = np.arange(first, last) + np.repeat(shift[low:high], lengths[low:high])
        values[first:last] = rows.values[source]
    return Ragged(values, offsets)


def select_rows(rows: Ragged, keep: NDArray[np.bool_]) -> Ragged:
    """Keep the rows where `keep` is true."""
    if keep.all():
        return rows
    emptied = trim_rows(rows, np.where(keep, rows.lengths, 0))
    return Ragged(emptied.values, np.concatenate([[0], emptied.offsets[1:][keep]]))


def blocks(starts: I64, size: int) -> Iterable[tuple[int, int]]:
    """Yield ranges of groups that hold at most `size` elements together, or one group."""
    group, groups = 0, len(starts) - 1
    while group < groups:
        after = int(np.searchsorted(starts, starts[group] + size, side="right")) - 1
        after = max(after, group + 1)
        yield group, after
        group = after
