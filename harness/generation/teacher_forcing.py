"""Statistics of Q on human text: one forward pass serves many decoders.

Positions are processed in chunks that fit the processor's cache, so memory never holds tokens × vocabulary. A
chunk's rows are sorted once for all truncations; an untruncated Q needs no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import I64, Advance, DataError, NextToken, Ragged
from openended.harness.decoders import LogitChunk, QDecoder, QTable, TextPosition, read_q

if TYPE_CHECKING:
    from openended.harness.core import CausalModel
    from openended.harness.models import QStatisticsRequest

CHUNK_CPU, CHUNK_GPU = 2**18, 2**26
"""Logits held at a time: 1 MiB of float32 stays in a core's cache."""
BATCH_TOKENS = 16384
"""Positions of one forward pass at most."""
HEAD = 4096
"""Best tokens looked at first where few decoders share the order."""
SHARED = 3
"""From this number of truncations on, whole rows are ordered at once for all."""


def compute_q_statistics(
    lm: CausalModel, request: QStatisticsRequest, advance: Advance | None = None
) -> list[NextToken]:
    """Score human continuations token by token under each decoder's Q, in one pass.

    Args:
        lm: The model.
        request: The texts and the decoders; a decoder's state (mirostat) runs along the human text.
        advance: Gets the number of positions just scored.

    Returns:
        One `NextToken` a decoder, rows as in the continuations.

    Raises:
        DataError: If the rows do not match or one is longer than the model's context.
    """
    import torch

    continuations = request.continuations
    read = Ragged.from_rows(([*lm.bos_prefix(row), *row] for row in request.prompts), np.int64)
    check_rows(lm.context_length, read.lengths, continuations)
    tables = [QTable.empty(len(continuations.values)) for _ in request.decoders]
    led = replace(request, prompts=read)
    with torch.inference_mode():
        for rows in iterate_batches(read.lengths, continuations.lengths, request.batch_size):
            _score_batch(lm, led, tables, rows)
            if advance is not None:
                advance(int(continuations.lengths[rows].sum()))
    gold = np.asarray(continuations.values, dtype=np.int64)
    return [
        NextToken(
            continuations.offsets, t.gold_prob, t.sum_sq, t.support, t.argmax, gold, request.prompts,
            vocab_size=lm.vocab_size,
        )
        for t in tables
    ]  # fmt: skip


def check_rows(context_length: int | None, before: I64, continuations: Ragged) -> None:
    """Refuse rows that do not pair, and texts that are longer than the context.

    Args:
        context_length: Positions of the model; None where there is no limit.
        before: Tokens that the model reads before each continuation.
        continuations: Token ids to score.

    Raises:
        DataError: Says which.
    """
    if len(before) != len(continuations):
        raise DataError(f"expected a prompt for each continuation, got {len(before)} for {len(continuations)}")
    longest = int(np.max(np.maximum(before, 1) + continuations.lengths - 1, initial=0))
    if context_length is not None and longest > context_length:
        raise DataError(
            f"a human text has {longest + 1} tokens with its prompt, the model {context_length} positions; "
            "cut it with max_new_tokens"
        )


def iterate_batches(before: I64, scored: I64, batch_size: int) -> Iterator[list[int]]:
    """Yield batches of rows of similar lengths, at most `BATCH_TOKENS` padded positions each; skip rows without tokens.

    The rows of some of these batches, in their order, fall into the same batches again.
    """
    lengths = before + scored
    order = np.argsort(-lengths, kind="stable")
    batch: list[int] = []
    for row in order[scored[order] > 0].tolist():
        if batch and (len(batch) >= batch_size or (len(batch) + 1) * int(lengths[batch[0]]) > BATCH_TOKENS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _score_batch(lm: CausalModel, request: QStatisticsRequest, tables: Sequence[QTable], rows: Sequence[int]) -> None:
    """Score rows in one forward pass, without padding where the model allows it, then chunk by chunk."""
    import torch

    from openended.harness.decoders import forbid_end
    from openended.harness.generation.kv_cache.choose import make_runner

    heads = [_read_prompt(request, r, lm.start_id) for r in rows]
    tails = [request.continuations[r] for r in rows]
    positions = [TextPosition(row, t) for row, tail in zip(rows, tails, strict=True) for t in range(len(tail))]
    both = [np.concatenate([head, tail[:-1]]) for head, tail in zip(heads, tails, strict=True)]
    run = make_runner(lm, len(rows), max(map(len, both)), once=True)
    states = run.start(range(len(rows)), [ids.tolist() for ids in both])
    hidden = torch.cat([state[len(head) - 1 :] for state, head in zip(states, heads, strict=True)])
    gold = torch.from_numpy(np.concatenate(tails).astype(np.int64)).to(lm.device)
    offsets = request.continuations.offsets
    out = np.concatenate([np.arange(offsets[r], offsets[r + 1]) for r in rows])
    size = max(1, (CHUNK_CPU if lm.device.type == "cpu" else CHUNK_GPU) // lm.vocab_size)
    for start in range(0, len(positions), size):
        part = slice(start, start + size)
        early = [i for i, position in enumerate(positions[part]) if position.step < request.min_new_tokens]
        logits = run.logits(hidden[part])
        if early:
            logits = forbid_end(logits, lm.eos_ids, early)
        chunk = LogitChunk(logits, gold[part], positions[part], banned=bool(early))
        _score_all(request, tables, chunk, out[part], lm.start_id)


def _read_prompt(request: QStatisticsRequest, row: int, start_id: int) -> I64:
    """Return what the model reads before a continuation: an empty prompt becomes the model's start token."""
    return request.prompts[row] if len(request.prompts[row]) else np.array([start_id])


def _score_all(
    request: QStatisticsRequest, tables: Sequence[QTable], chunk: LogitChunk, out: I64, start_id: int
) -> None:
    """Score a chunk under every decoder."""
    truncating = sum(not (d.one_hot or d.untruncated or d.penalizes) for d in request.decoders)
    vocab_size = chunk.logits.shape[1]
    head = vocab_size if truncating >= SHARED or vocab_size <= 2 * HEAD else HEAD
    for decoder, table in zip(request.decoders, tables, strict=True):
        seen = _apply_penalties(decoder, chunk, request, start_id) if decoder.penalizes else chunk
        gold_prob, sum_sq, support, argmax = read_q(decoder, table, seen, head)
        table.gold_prob[out], table.sum_sq[out] = gold_prob.cpu(), sum_sq.cpu()
        table.support[out], table.argmax[out] = support.cpu(), argmax.cpu()


def _apply_penalties(decoder: QDecoder, chunk: LogitChunk, request: QStatisticsRequest, start_id: int) -> LogitChunk:
    """Apply penalties to each position by its own history, which starts with the prompt as in generation."""
    import torch

    from openended.harness.decoders import apply_penalties

    rows = []
    for i, position in enumerate(chunk.positions):
        before = _read_prompt(request, position.row, start_id)
        history = np.concatenate([before, request.continuations[position.row][: position.step]]).astype(np.int64)
        row = chunk.logits[i : i + 1]
        rows.append(apply_penalties(decoder, row, torch.from_numpy(history).to(row.device)[None]))
    return LogitChunk(torch.cat(rows), chunk.gold, chunk.positions, banned=True)
