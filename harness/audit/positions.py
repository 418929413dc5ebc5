"""What the checks of an audit read of each token, from one pass of a reference model over the texts."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from openended.harness.audit.checks import BIG, GRID, MOST_GROUPS, TokenFacts, Totals, hash_ids
from openended.harness.core import F64, I64, Advance, copy_to_host
from openended.harness.decoders import QDecoder, QTable, read_dense_q
from openended.harness.generation import iterate_logits, penalize_chunk
from openended.harness.models import LanguageModel, TextRequest

SPACINGS = {"float32": 0.0, "float16": 2.0**-10, "bfloat16": 2.0**-7}
"""dtype → relative distance of neighboring numbers: the logits of two engines differ by about so much."""
ROUNDED = {
    "int8 weights": (127, 0),
    "int8 weights, one scale per channel": (127, -1),
    "4-bit weights, blocks of 32": (7, 32),
}
"""Rounded weights that an audit compares with: levels to each side of zero, and the numbers of an output that share a
scale; -1: all of an output, 0: the whole matrix. The last is the layout of GGUF's Q4_0 and of most 4-bit formats."""


class Rounding(NamedTuple):
    """By how much the logits of an honest engine may depart from the reference's."""

    nats: float  # also a probability, for draws with known random numbers, which half precision leaves undecided
    relative: float  # of the logit

    @classmethod
    def from_dtypes(cls, *dtypes: str) -> Self:
        """Return the rounding between an engine and a reference; an unknown precision counts as bfloat16."""
        spacing = max(SPACINGS.get(dtype, SPACINGS["bfloat16"]) for dtype in dtypes)
        return cls(0.1 if spacing else 1e-3, 2 * spacing)


def measure_positions(
    lms: Mapping[str, LanguageModel], decoder: QDecoder, request: TextRequest, streams: Sequence[F64] | None,
    rounding: Rounding, *, min_new_tokens: int, batch_size: int, advance: Advance,
) -> tuple[TokenFacts, Totals]:  # fmt: skip
    """Read the facts of every token of the texts.

    Args:
        lms: The reference model, then models with known faults, by name.
        decoder: The requested decoder.
        request: What the model read before each text, and the tokens of the text, a drawn end token included.
        streams: The uniforms that the tokens were drawn with, one array for each text; None: unknown.
        rounding: Departures that are no fault.
        min_new_tokens: The end of text is forbidden before this many tokens.
        batch_size: Texts of one forward pass.
        advance: Gets the number of finished tokens.
    """
    import torch

    offsets, lengths = request.continuations.offsets, request.continuations.lengths
    n = int(offsets[-1])
    texts = int(np.flatnonzero(lengths).max(initial=0)) + 1  # without empty ones at the end, as `checks` counts them
    lm = next(iter(lms.values()))
    names = [name for name in TokenFacts.__dataclass_fields__ if name != "suspects"]
    columns: dict[str, np.ndarray] = {name: np.zeros(n) for name in names}
    columns["phase_mean"] = np.zeros(n, dtype=np.complex128)
    columns["row"] = np.repeat(np.arange(len(lengths)), lengths)
    columns["step"] = np.arange(n) - np.repeat(offsets[:-1], lengths)
    columns["token"] = np.asarray(request.continuations.values, dtype=np.int64)
    columns["stream"] = np.full(n, np.nan) if streams is None else np.concatenate(list(streams))
    suspects = {name: (np.zeros(n), np.zeros(n), np.zeros(n)) for name in list(lms)[1:]}
    size = lm.vocab_size
    totals = Totals(np.zeros((min(MOST_GROUPS, texts), size)), np.zeros(size), np.zeros(len(GRID)))
    phases = np.exp(2j * np.pi * hash_ids(np.arange(size)))
    uniforms = np.random.default_rng(texts).random((2, n))  # spreads each token over its part of [0, 1)
    tables = [QTable.empty(0) for _ in lms]
    with torch.inference_mode():
        for out, chunks in iterate_logits(list(lms.values()), request, batch_size, min_new_tokens):
            first, penalized = chunks[0], [penalize_chunk(decoder, chunk) for chunk in chunks]
            q, *others = (copy_to_host(read_dense_q(decoder, *pair))[0] for pair in zip(tables, penalized, strict=True))
            logits = copy_to_host(penalized[0].logits)[0].astype(np.float64)
            located = locate_tokens(
                q, logits, columns["token"][out], uniforms[:, out], columns["stream"][out], rounding
            )
            located["phase_mean"] = q @ phases
            for i, position in enumerate(first.positions):
                seen = np.unique(first.read_history(position))
                located["repeats"][i], located["repeats_mean"][i] = located["token"][i] in seen, q[i, seen].sum()
            for name, values in located.items():
                columns[name][out] = values
            for targets, other in zip(suspects.values(), others, strict=True):
                for target, values in zip(targets, compare_rows(q, other, located["token"]), strict=True):
                    target[out] = values
            groups = columns["row"][out] * len(totals.expected) // texts
            for group in np.unique(groups):
                totals.expected[group] += q[groups == group].sum(0)
            totals.variance += (q * (1 - q)).sum(0)
            totals.log_within += sum_log_mass_within_ranks(q)
            advance(len(out))
    columns["phase"] = hash_ids(columns["token"])
    return TokenFacts(**columns, suspects=suspects), totals


def locate_tokens(
    q: F64, logits: F64, tokens: I64, uniforms: F64, stream: F64, rounding: Rounding
) -> dict[str, np.ndarray]:
    """Return where tokens (m,) are in Q (m, V): columns of `TokenFacts`.

    A token outside the support is replaced by the kept one with the nearest logit, after its distance was noted as far
    as it exceeds the rounding.
    `uniforms` (2, m) spread tokens over their parts of [0, 1); `stream` (m,) are the uniforms of the draws or NaN.
    """
    at = np.arange(len(tokens))
    distance = np.where(q > 0, np.abs(logits - logits[at, tokens][:, None]), np.inf)
    nearest = distance.argmin(1)
    slack = rounding.nats + rounding.relative * np.abs(logits[at, tokens])
    missing = distance[at, nearest]
    if rounding.relative:  # a cut by cumulative mass, as of nucleus, may fall one token further
        missing = np.minimum(missing, np.where(q > 0, -np.inf, logits).max(1) - logits[at, tokens])
    outside = np.where(q[at, tokens] > 0, 0.0, np.maximum(missing - slack, 0.0))
    tokens = np.where(q[at, tokens] > 0, tokens, nearest)
    log_q = np.log(q, out=np.zeros_like(q), where=q > 0)
    mean = (q * log_q).sum(1)
    mass, own_logit, ids = q[at, tokens], logits[at, tokens][:, None], np.arange(q.shape[1])
    better = logits > own_logit
    tied_before = (logits == own_logit) & (ids < tokens[:, None])
    above = (q * (better | tied_before)).sum(1)
    before = (q * (ids < tokens[:, None])).sum(1)
    missed = np.maximum(0.0, np.maximum(above - stream, stream - above - mass) - slack)
    variance, rank = np.maximum((q * log_q**2).sum(1) - mean**2, 0.0), (better | tied_before).sum(1)
    columns = {"token": tokens, "outside": outside, "rank": rank, "stream": missed}
    columns |= {"log_q": log_q[at, tokens], "log_q_mean": mean, "log_q_var": variance}
    columns |= {"by_rank": above + uniforms[0] * mass, "by_id": before + uniforms[1] * mass}
    return columns | {name: np.zeros(len(tokens)) for name in ("repeats", "repeats_mean")}


def compare_rows(q: F64, other: F64, tokens: I64) -> tuple[F64, F64, F64]:
    """Return the log ratio of another Q to this one at tokens (m,), its expectation and variance under this one."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(q > 0, np.clip(np.log(other) - np.log(q), -BIG, BIG), 0.0)
    mean = (q * ratio).sum(1)
    return ratio[np.arange(len(tokens)), tokens], mean, np.maximum((q * ratio**2).sum(1) - mean**2, 0.0)


def sum_log_mass_within_ranks(q: F64) -> F64:
    """Return the log of the probability that no token of these rows (m, V) is beyond each rank of `GRID`."""
    within = np.sort(q, axis=1)[:, ::-1].cumsum(1)
    ranks = np.minimum(GRID, q.shape[1]) - 1
    with np.errstate(divide="ignore"):
        total: F64 = np.log(np.minimum(within[:, ranks] / within[:, -1:], 1.0)).sum(0)
    return total


def round_weights(lm: LanguageModel, name: str) -> LanguageModel:
    """Return a copy of a model whose matrices are rounded as `ROUNDED` says under a name."""
    model, done = copy.deepcopy(lm.model), set[int]()
    levels, block = ROUNDED[name]
    embeddings = {id(p) for m in (model.get_input_embeddings(), model.get_output_embeddings()) for p in m.parameters()}
    transposed = {id(m.weight) for m in model.modules() if type(m).__name__ == "Conv1D"}
    for parameter in model.parameters():
        if parameter.dim() == 2 and id(parameter) not in done:
            done.add(id(parameter))
            # of shape (outputs, inputs)
            matrix = parameter.data.T if id(parameter) in transposed - embeddings else parameter.data
            for part in matrix.split(block, dim=1) if block > 0 else [matrix]:
                largest = part.abs().amax(1, keepdim=True) if block else part.abs().amax()
                scale = (largest / levels).clamp_min(1e-12)
                part.copy_((part / scale).round().mul(scale))
    return replace(lm, model=model)
