"""Statistics of Q on human text: one forward pass serves many decoders.

Positions go in chunks that fit the processor's cache; a chunk's rows are sorted once for all truncations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from openended.harness.core import I64, Advance, DataError, NextToken, Ragged, copy_to_device, copy_to_host
from openended.harness.decoders import LogitChunk, QDecoder, QStatistics, QTable, TextPosition, read_dense_q, read_q
from openended.harness.models import LanguageModel, QStatisticsRequest, TextRequest

CHUNK_CPU, CHUNK_GPU = 2**18, 2**26  # logits held at a time: 1 MiB of float32 stays in a core's cache
BATCH_TOKENS = 16384  # positions of one forward pass at most
HEAD = 4096  # best tokens looked at first where few decoders share the order
SHARED = 3  # from this number of truncations on, whole rows are ordered at once for all


def compute_q_statistics(
    lm: LanguageModel, request: QStatisticsRequest, advance: Advance | None = None
) -> list[NextToken]:
    """Score human continuations token by token under each decoder's Q, in one pass.

    Returns:
        One `NextToken` a decoder, rows as in the continuations.
    """
    import torch

    continuations = request.continuations
    read = Ragged.from_rows(map(lm.tokenizer.complete_prompt, request.prompts), np.int64)
    tables = [QTable.empty(len(continuations.values)) for _ in request.decoders]
    entropies = [np.zeros(len(continuations.values)) for _ in request.decoders if request.entropy]
    states = [QTable.empty(0) for _ in entropies]
    with torch.inference_mode():
        for out, (chunk,) in iterate_logits(
            [lm], replace(request, prompts=read), request.batch_size, request.min_new_tokens
        ):
            for table, statistics in zip(tables, score_chunk(request.decoders, tables, chunk), strict=True):
                table.write(out, statistics)
            for decoder, state, entropy in zip(request.decoders, states, entropies, strict=False):
                q = read_dense_q(decoder, state, penalize_chunk(decoder, chunk))
                entropy[out] = copy_to_host(torch.special.entr(q).sum(-1))[0]
            if advance is not None:
                advance(len(out))
    statistics_of = [build_next_token(table, request, lm.vocab_size) for table in tables]
    if request.entropy:
        return [replace(each, entropy=entropy) for each, entropy in zip(statistics_of, entropies, strict=True)]
    return statistics_of


def build_next_token(table: QTable, request: QStatisticsRequest, vocab_size: int) -> NextToken:
    """Return the finished statistics of a decoder, rows as in the request's continuations."""
    offsets, gold = request.continuations.offsets, np.asarray(request.continuations.values, dtype=np.int64)
    columns = table.gold_prob, table.sum_sq, table.support, table.argmax
    return NextToken(offsets, *columns, gold, request.prompts, vocab_size=vocab_size)


def check_rows(context_length: int | None, before: I64, continuations: Ragged) -> None:
    """Refuse texts that are longer than the context."""
    longest = int(np.max(before + continuations.lengths - 1, initial=0))
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


def iterate_logits(
    lms: Sequence[LanguageModel], request: TextRequest, batch_size: int, min_new_tokens: int = 0
) -> Iterator[tuple[I64, list[LogitChunk]]]:
    """Yield the logits that continuations are drawn from, chunk by chunk, a chunk for each of the models.

    The request's prompts are what the models read, never empty. Each item starts with the indices of the chunk's
    positions in the values of the continuations.
    """
    before, continuations = request.prompts.lengths, request.continuations
    for lm in lms:
        check_rows(lm.context_length, before, continuations)
    for rows in iterate_batches(before, continuations.lengths, batch_size):
        passes = [_run_pass(lm, request, rows, min_new_tokens) for lm in lms]
        for chunks in zip(*passes, strict=True):
            yield chunks[0][0], [chunk for _, chunk in chunks]


def _run_pass(
    lm: LanguageModel, request: TextRequest, rows: Sequence[int], min_new_tokens: int
) -> Iterator[tuple[I64, LogitChunk]]:
    """Yield the chunks of one forward pass over some rows; rows are not padded where the model allows it."""
    import torch

    from openended.harness.decoders import forbid_end
    from openended.harness.generation.runners import make_runner

    heads = [request.prompts[r] for r in rows]
    tails = [request.continuations[r] for r in rows]
    positions = [TextPosition(row, t) for row, tail in zip(rows, tails, strict=True) for t in range(len(tail))]
    both = [np.concatenate([head, tail[:-1]]) for head, tail in zip(heads, tails, strict=True)]
    run = make_runner(lm, len(rows), max(map(len, both)), once=True)
    states = run.start(range(len(rows)), [ids.tolist() for ids in both])
    hidden = torch.cat([state[len(head) - 1 :] for state, head in zip(states, heads, strict=True)])
    gold = copy_to_device(np.concatenate(tails), lm.device, np.int64)
    offsets = request.continuations.offsets
    out = np.concatenate([np.arange(offsets[r], offsets[r + 1]) for r in rows])
    read_history = partial(_read_history, request)
    size = count_chunk_rows(lm.device.type, lm.vocab_size)
    for start in range(0, len(positions), size):
        part = slice(start, start + size)
        logits = forbid_end(run.logits(hidden[part]), lm.eos_ids, [p.step for p in positions[part]], min_new_tokens)
        yield out[part], LogitChunk(logits, gold[part], positions[part], min_new_tokens > 0, read_history)


def count_chunk_rows(device_type: str, vocab_size: int) -> int:
    """Return how many rows of logits are processed together."""
    return max(1, (CHUNK_CPU if device_type == "cpu" else CHUNK_GPU) // vocab_size)


def _read_history(request: TextRequest, position: TextPosition) -> I64:
    """Return the tokens before a position, which start with the prompt as in generation."""
    before = request.prompts[position.row]
    return np.concatenate([before, request.continuations[position.row][: position.step]]).astype(np.int64)


def score_chunk(decoders: Sequence[QDecoder], tables: Sequence[QTable], chunk: LogitChunk) -> Iterator[QStatistics]:
    """Yield the statistics of a chunk under each decoder; penalties apply to each position by its own history."""
    truncating = sum(not (d.one_hot or d.untruncated or d.penalizes) for d in decoders)
    vocab_size = chunk.logits.shape[1]
    head = vocab_size if truncating >= SHARED or vocab_size <= 2 * HEAD else HEAD
    for decoder, table in zip(decoders, tables, strict=True):
        yield read_q(decoder, table, penalize_chunk(decoder, chunk), head)


def penalize_chunk(decoder: QDecoder, chunk: LogitChunk) -> LogitChunk:
    """Apply a decoder's penalties to each position of a chunk, by what precedes it."""
    from openended.harness.decoders import apply_penalties

    if not decoder.penalizes:
        return chunk
    histories = [chunk.read_history(position) for position in chunk.positions]
    lengths = np.array([len(history) for history in histories])
    padded = np.zeros((len(lengths), lengths.max()), dtype=np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(histories)
    past, counts = (copy_to_device(values, chunk.logits.device) for values in (padded, lengths))
    return LogitChunk(apply_penalties(decoder, chunk.logits, past, counts), chunk.gold, chunk.positions, banned=True)
