"""Texts as rows of integer ids: packed, cut, selected and joined without a copy per text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64, Ragged

CHUNK = 1 << 22  # elements of a temporary array: keeps the peak far below the size of the corpus


def pack_rows(sequences: Ragged | Iterable[Any]) -> Ragged:
    """Pack texts into one array of integer ids; equal tokens get equal ids, different tokens different ones."""
    if isinstance(sequences, Ragged):
        if len(sequences.values) and sequences.values.dtype.kind not in "iu":
            raise TypeError(f"expected integer token ids, got {sequences.values.dtype}")
        return sequences
    if isinstance(sequences, str):
        raise TypeError("expected a list of texts, got one string")
    texts = [text.split() if isinstance(text, str) else text for text in sequences]
    packed = _pack_integer_rows(texts)
    return _pack_hashable_rows(texts) if packed is None else packed


def _pack_integer_rows(texts: Sequence[Any]) -> Ragged | None:
    """Pack rows of integers, or return None if any token is something else."""
    rows = []
    for text in texts:
        if not isinstance(text, np.ndarray) and len(text) and not isinstance(text[0], (int, np.integer)):
            return None
        row = np.asarray(text)
        kind = row.dtype.kind
        if row.size and (kind not in "iu" or row.ndim != 1 or (kind == "u" and _exceeds_int64(row))):
            return None
        rows.append(row)
    return Ragged.from_rows(rows, np.int64)


def _exceeds_int64(row: NDArray[Any]) -> bool:
    """Return whether an unsigned id is too large for int64."""
    return row.itemsize == 8 and bool(row.max() > np.iinfo(np.int64).max)


def _pack_hashable_rows(texts: Sequence[Any]) -> Ragged:
    ids: dict[Hashable, int] = {}
    rows = []
    for number, text in enumerate(texts):
        try:
            rows.append([ids.setdefault(token, len(ids)) for token in text])
        except TypeError as err:
            raise TypeError(f"text {number}: expected a sequence of integers or hashable tokens ({err})") from err
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


def join_rows(rows: Ragged) -> Ragged:
    """Concatenate all rows into one, so that n-grams may cross text borders."""
    return Ragged(rows.values, np.array([rows.offsets[0], rows.offsets[-1]]))


def blocks(starts: I64, size: int) -> Iterable[tuple[int, int]]:
    """Yield ranges of groups that hold at most `size` elements together, or one group."""
    group, groups = 0, len(starts) - 1
    while group < groups:
        after = int(np.searchsorted(starts, starts[group] + size, side="right")) - 1
        after = max(after, group + 1)
        yield group, after
        group = after
