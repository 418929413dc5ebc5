"""Split the rows of a stage into chunks for workers, and merge their results.

No cut moves a byte: a generated text does not depend on its neighbors; a pass of a model over given texts rounds by
the batch that a text stands in, so it is cut between whole batches of the order that it would have in one piece.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from openended.harness.core import I64, NextToken, Ragged
from openended.harness.decoders import Prompt
from openended.harness.models import ForwardRow

ROUNDS = 4  # chunks per worker if there are enough rows: small chunks shorten the wait for the last worker


def cut_chunks(count: int, *, unit: int, workers: int, most: int) -> list[slice]:
    """Cut `count` rows into contiguous chunks."""
    units = -(-count // unit)
    size = unit * min(max(units // (workers * ROUNDS), 1), most)
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def sort_for_batching(prompts: Sequence[Prompt]) -> list[Prompt]:
    """Sort prompts as batches take them: longest first, the samples of one prompt side by side.

    Neighbors then have one length, so that a chunk fills its batches, and the chunks that take longest come first.
    """
    seen: dict[tuple[int, ...], int] = {}
    for i, prompt in enumerate(prompts):
        seen.setdefault(prompt.token_ids, i)
    return sorted(prompts, key=lambda p: (-len(p.token_ids), seen[p.token_ids]))


def renumber_rows(jobs: Sequence[ForwardRow]) -> tuple[list[ForwardRow], I64, I64]:
    """Renumber the sequences of a chunk so that they form a separate pass."""
    renumbered, rows, score_positions = list[ForwardRow](), list[int](), list[I64]()
    out = 0
    for job in jobs:
        scored = max(len(job.ids) - job.first, 0)
        renumbered.append(dataclasses.replace(job, row=len(rows) if job.row >= 0 else -1, out=out))
        if job.row >= 0:
            rows.append(job.row)
        score_positions.append(np.arange(job.out, job.out + scored, dtype=np.int64))
        out += scored
    return renumbered, np.array(rows, dtype=np.int64), np.concatenate([np.zeros(0, dtype=np.int64), *score_positions])


def select_rows(ragged: Ragged, rows: Sequence[int]) -> Ragged:
    """Return selected rows in the given order."""
    return Ragged.from_rows((ragged[i] for i in rows), ragged.values.dtype)


_FLAT = ("gold_prob", "sum_sq", "support", "argmax", "gold")


def gather_statistics(
    parts: Sequence[tuple[Sequence[int], NextToken]], prompts: Ragged, continuations: Ragged
) -> NextToken:
    """Merge the statistics of chunks of rows."""
    first = parts[0][1]
    total = len(continuations.values)
    flat = {name: np.zeros(total, dtype=getattr(first, name).dtype) for name in _FLAT}
    offsets = continuations.offsets
    for rows, statistics in parts:
        ranges = (np.arange(offsets[row], offsets[row + 1]) for row in rows)
        positions = np.concatenate([np.zeros(0, dtype=np.int64), *ranges])
        for name, array in flat.items():
            array[positions] = getattr(statistics, name)
    return NextToken(offsets=offsets, context=prompts, vocab_size=first.vocab_size, **flat)
