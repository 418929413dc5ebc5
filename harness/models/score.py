"""Token losses, vectors and gradients of texts, losses and vectors in one pass where one model gives both.

Rows keep their order; both sides go through the same functions with the same options. Texts are cut on
the right for vectors, and how many were is returned.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Advance, DataError, Ragged, SpecError
from openended.harness.models.embedder import EmbedderSpec
from openended.harness.models.failures import check_finite
from openended.harness.models.forward import ForwardRequest, ForwardRow, Integers, Pool, as_ids
from openended.harness.models.requests import EmbeddingRequest, GradientRequest, ScoringRequest, TextVectors

if TYPE_CHECKING:
    import torch

    from openended.harness.models.backend import Backend
    from openended.harness.models.transformers import LanguageModel

log = logging.getLogger(__name__)
_CHUNK = 1 << 22  # parameters hashed at once


def compute_token_nll(lm: Backend, request: ScoringRequest, advance: Advance | None = None) -> Ragged:
    """Score texts: -log p(token | preceding tokens), in nats.

    The continuation is conditioned on the prompt; its tokens are scored and counted, the end of text is not. A first
    token with nothing before it has no prediction and no score, unless the model reads a beginning-of-text token first
    or `request.bos` puts the start token there. Texts longer than the context are read in windows that overlap by half,
    every token scored once.

    Returns:
        Float64 rows, one value per scored token; with `request.ranks` of shape (tokens, 2): loss and rank.
    """
    jobs, out = plan_scoring(lm, request)
    lm.forward(ForwardRequest(jobs, request.batch_size, nll=out.values), advance)
    check_finite(out.values, f"token losses of {lm.spec.title}")
    return out


def embed_and_score(
    lm: Backend, request: EmbeddingRequest, advance: Advance | None = None
) -> tuple[TextVectors, Ragged]:
    """Do what `embed_rows` and `token_nll` do in one pass, where scorer and embedder are one causal model."""
    spec = request.embedder
    if (kind := spec.traits.kind) != "causal":
        raise SpecError(f"embedder.kind: one pass for both needs a causal model, got {kind!r}")
    limit = spec.limit(lm.context_length)

    lengths = join_rows(request.prompts, request.continuations, lm.tokenizer.find_prefix).lengths
    jobs, out = plan_scoring(lm, request)
    pool = make_pool(spec, limit or int(lengths.max(initial=1)), len(lengths))
    lm.forward(ForwardRequest(jobs, request.batch_size, pool, out.values), advance)
    check_finite(out.values, f"token losses of {lm.spec.title}")
    return collect_vectors(lm.spec.title, pool, lengths, limit), out


def plan_scoring(lm: Backend, request: ScoringRequest) -> tuple[list[ForwardRow], Ragged]:
    """Return the sequences to run and the array that their scores fill."""
    prompts, continuations = request.prompts, request.continuations
    tokenizer, context, stride = lm.tokenizer, lm.context_length, None
    start = (tokenizer.start_id,) if request.bos else ()
    rows = join_rows(prompts, continuations, lambda row: tokenizer.find_prefix(row) or start)
    first = rows.lengths - continuations.lengths - (prompts.lengths if request.include_prompt else 0)
    first = np.maximum(first, 1)
    offsets = np.concatenate([[0], np.cumsum(np.maximum(rows.lengths - first, 0))]).astype(np.int64)
    if request.window is not None:
        if context is not None and request.window > context:
            raise DataError(f"window: expected at most {context}, the scorer's context, got {request.window}")
        context, stride = request.window, request.stride
    jobs: list[ForwardRow] = []
    for i, ids in enumerate(rows):
        read = ids if len(ids) else np.array([tokenizer.start_id])
        jobs += _split_into_windows(i, read, int(first[i]), int(offsets[i]), context, stride, tokenizer.bos_prefix)
    total = int(offsets[-1])
    values: F64 = np.full((total, 2) if request.ranks else total, np.nan)
    return jobs, Ragged(values, offsets)


def split_columns(scores: Ragged) -> tuple[Ragged, Ragged]:
    """Return losses and ranks (int64) of scores; the ranks are empty where they were not asked for."""
    if scores.values.ndim == 1:
        return scores, Ragged(np.zeros(0, dtype=np.int64), np.zeros_like(scores.offsets))
    nll, rank = np.ascontiguousarray(scores.values.T)
    return Ragged(nll, scores.offsets), Ragged(rank.astype(np.int64), scores.offsets)


def _split_into_windows(
    row: int, ids: Integers, first: int, out: int, context: int | None, stride: int | None, prefix: Sequence[int]
) -> list[ForwardRow]:
    """Cut a sequence into windows of the context; each later window scores what the ones before have not.

    A later window starts with the beginning-of-text token of a model that reads one: without, such a model is lost.
    """
    if context is None or len(ids) <= context:
        return [ForwardRow(row, ids, min(first, len(ids)), out)]
    if context <= max(1, len(prefix)):
        raise DataError(f"a scorer with a context of {context} cannot score texts")
    jobs = [ForwardRow(row, ids[:context], min(first, context), out)]
    done = max(first, context)
    if first < context:
        out += context - first
    step = min(stride or max(1, context // 2), context - len(prefix))
    while done < len(ids):
        end = min(len(ids), done + step)
        start = end - context + len(prefix)
        read = as_ids(np.concatenate([prefix, ids[start:end]]))
        jobs.append(ForwardRow(-1, read, done - start + len(prefix), out))
        out += end - done
        done = end
    return jobs


def embed_rows(lm: Backend, request: EmbeddingRequest, advance: Advance | None = None) -> TextVectors:
    """Embed prompt + continuation, cut on the right at the embedder's maximum length."""
    spec = request.embedder
    limit = spec.limit(lm.context_length)
    causal = spec.traits.kind == "causal"
    before, after = ((), ()) if causal else cast("LanguageModel", lm).added_ids
    special = len(before) + len(after)

    rows = join_rows(request.prompts, request.continuations, lm.tokenizer.find_prefix if causal else lambda _: ())
    lengths = rows.lengths + special
    most = int(lengths.max(initial=special)) if limit is None else limit
    if (room := most - special) < 1:
        raise SpecError(f"embedder.max_length: expected more than the {special} special tokens, got {most}")
    if special:
        rows = Ragged.from_rows((np.concatenate([before, row[:room], after]) for row in rows), rows.values.dtype)
    cut = (row[: room + special] if len(row) else np.array([lm.tokenizer.start_id]) for row in rows)
    jobs = [ForwardRow(i, ids, len(ids)) for i, ids in enumerate(cut)]
    pool = make_pool(spec, most, len(lengths))
    lm.forward(ForwardRequest(jobs, request.batch_size, pool), advance)
    return collect_vectors(lm.spec.title, pool, lengths, limit)


def embed_texts(encoder: Any, spec: EmbedderSpec, texts: Sequence[str], *, batch_size: int) -> TextVectors:  # noqa: ANN401
    """Embed with a sentence-transformers model (kind `sentence`), which tokenizes and pools itself."""
    if spec.traits.kind != "sentence":
        raise SpecError("embedder.kind: embed_texts is for sentence models; use embed")
    vectors = np.asarray(encoder.encode(list(texts), batch_size=batch_size, show_progress_bar=False), np.float32)
    limit = encoder.max_seq_length
    lengths = [len(encoder.tokenizer(text, truncation=False)["input_ids"]) for text in texts]
    truncated = sum(length > limit for length in lengths) if limit else 0
    return TextVectors(vectors, truncated)


def make_pool(spec: EmbedderSpec, length: int, rows: int) -> Pool:
    """Return an empty pool for `rows` texts of at most `length` tokens."""
    kind, pooling, normalize, _ = spec.traits
    return Pool(spec.layer, pooling, length, rows, causal=kind == "causal", normalize=normalize)


def collect_vectors(title: str, pool: Pool, lengths: I64, limit: int | None) -> TextVectors:
    """Check and return the vectors of a pass; `lengths` are those of the texts before truncation."""
    if empty := int((lengths == 0).sum()):
        log.warning("%d of %d texts have no token; the start token stands for each", empty, len(lengths))
    vectors = pool.vectors[0] if pool.vectors else np.zeros((0, 0), dtype=np.float32)
    check_finite(vectors, f"embeddings of {title}")
    return TextVectors(vectors, 0 if limit is None else int((lengths > limit).sum()))


def join_rows(prompts: Ragged, continuations: Ragged, find_prefix: Callable[[I64], Sequence[int]]) -> Ragged:
    """Concatenate prefix, prompt and continuation, row by row.

    All rows lie in one array: as arrays of their own those of a million texts would leave gigabytes in small pieces.
    """
    if len(prompts) != len(continuations):
        raise ValueError(
            f"{len(prompts)} prompts, {len(continuations)} continuations; expected one continuation per prompt"
        )
    whole = (as_ids(np.concatenate(pair)) for pair in zip(prompts, continuations, strict=True))
    dtype = np.result_type(prompts.values, continuations.values)
    return Ragged.from_rows((np.concatenate([find_prefix(row), row]) for row in whole), dtype)


def sketch_gradients(
    lm: LanguageModel, request: GradientRequest, advance: Advance | None = None
) -> NDArray[np.float32]:
    """Sketch the gradient of the mean token loss of each text, one text at a time: a random projection.

    Parameter i is added to number h(i) of the sketch with sign s(i), both by a fixed hash of i (a CountSketch), so that
    the expectation of the inner product of two sketches is that of the gradients; its relative error is about
    sqrt(2 / size). Source: Charikar, Chen and Farach-Colton 2002; Weinberger et al. 2009.

    Returns:
        Shape (texts, size); zero for a text without a scored token.
    """
    import torch

    rows = join_rows(request.prompts, request.continuations, lm.tokenizer.find_prefix)
    firsts = np.maximum(rows.lengths - request.continuations.lengths, 1)
    out = np.zeros((len(rows), request.size), dtype=np.float32)
    parameters = [p for p in lm.model.parameters() if p.is_floating_point()]
    had = [p.requires_grad for p in parameters]
    try:
        for p in parameters:
            p.requires_grad_(True)
        for i, ids in enumerate(rows):
            read_ids = ids[: lm.context_length]
            if firsts[i] < len(read_ids):
                row = torch.from_numpy(np.asarray(read_ids, dtype=np.int64)).to(lm.device)
                with torch.enable_grad():
                    mask = torch.ones_like(row)[None]
                    logits = lm.model(input_ids=row[None], attention_mask=mask, use_cache=False).logits[0]
                    scored = logits[int(firsts[i]) - 1 : -1].float()
                    loss = torch.nn.functional.cross_entropy(scored, row[int(firsts[i]) :])
                gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
                out[i] = _sketch(gradients, parameters, request.size).cpu().numpy()
            if advance is not None:
                advance(1)
    finally:
        for p, flag in zip(parameters, had, strict=True):
            p.requires_grad_(flag)
    if not np.isfinite(out).all():
        raise DataError(f"gradients of {lm.spec.title}: NaN or infinity; try dtype float32")
    return out


def _sketch(gradients: tuple[torch.Tensor | None, ...], parameters: list[torch.Tensor], size: int) -> torch.Tensor:
    """Add each entry of the gradients, with its sign, to its position in the sketch."""
    import torch

    out = torch.zeros(size, dtype=torch.float32, device=parameters[0].device)
    start = 0
    for gradient, parameter in zip(gradients, parameters, strict=True):
        if gradient is not None:
            flat = gradient.reshape(-1).float().to(out.device)
            for low in range(0, len(flat), _CHUNK):
                part = flat[low : low + _CHUNK]
                hashed = _hash(torch.arange(start + low, start + low + len(part), device=out.device))
                sign = ((hashed >> 40) & 1).float() * 2 - 1
                out.index_add_(0, (hashed & 0xFFFFFFFFFF) % size, part * sign)
        start += parameter.numel()
    return out


def _hash(numbers: torch.Tensor) -> torch.Tensor:
    """Mix whole numbers to 41 bits that look random; the same on every device (splitmix64 by shifts and products)."""
    state = numbers * 0x5851F42D4C957F2D + 0x14057B7EF767814F
    state = (state ^ ((state >> 33) & 0x7FFFFFFF)) * 0x2545F4914F6CDD1D
    state = (state ^ ((state >> 29) & 0x7FFFFFFFF)) * 0x5851F42D4C957F2D
    return (state >> 20) & 0x1FFFFFFFFFF
