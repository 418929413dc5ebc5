"""One forward pass over many texts: embeddings and token losses, in right-padded batches of similar length.

On a CPU, where all layers of a model are packed, a sequence is padded to a multiple of 16 tokens, and its result
depends on nothing but itself: batches are as small as is fast, and results of other passes are as good as new ones.
A causal model never attends to the right, so padding needs no mask: with a mask of ones, attention takes the fast path.
A bidirectional model gets the true mask.
"""

from __future__ import annotations

import tempfile
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Advance, DataError, SpecError, copy_to_device
from openended.harness.models.failures import run_in_batches
from openended.harness.models.families import get_body, rescale_logits

if TYPE_CHECKING:
    import torch

    from openended.harness.models.transformers import LanguageModel


Pooling = Literal["last", "first", "mean"]
Integers = NDArray[np.signedinteger[Any]]
# Logits held at once, in numbers: 64 MiB of float32.
_LOGITS = 1 << 24
_MEMORY_LIMIT = 1 << 30  # bytes of vectors
_PADDED = 16  # tokens: sequences of a batch-invariant model are padded to a multiple of it
_TOKENS = 1024  # of a batch of a batch-invariant model, so that what a layer makes of them stays in a CPU's cache


@dataclass(frozen=True, slots=True, eq=False)
class ForwardRow:
    """One sequence for the model."""

    row: int  # the row of the vectors that the sequence begins; -1 where it is a later window of a long text
    ids: Integers
    first: int  # tokens from here on are scored, from the ones before them; `len(ids)`: none is
    out: int = 0  # index of the first score in the output


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The vectors that a pass keeps."""

    layer: int
    pooling: Pooling
    length: int  # at which texts are truncated
    rows: int  # number of texts
    causal: bool = True
    normalize: bool = False  # scale vectors to length 1
    vectors: list[NDArray[np.float32]] = field(default_factory=list)  # one array (n, d), filled by the pass


@dataclass(frozen=True, slots=True, eq=False)
class ForwardRequest:
    """Sequences that a model reads, and what the pass fills."""

    rows: Sequence[ForwardRow]
    batch_size: int
    pool: Pool | None = None  # gets vectors
    nll: F64 | None = None  # gets -log p of the scored tokens in nats, under the full softmax; two columns: and ranks


def run_forward(lm: LanguageModel, request: ForwardRequest, advance: Advance | None = None) -> None:
    """Run the model over all rows; fills `pool.vectors` and `nll` in place."""
    import torch

    jobs, pool, nll = request.rows, request.pool, request.nll
    causal = pool is None or pool.causal
    if nll is not None:
        check_output_layer(lm)

    lengths = np.array([len(job.ids) for job in jobs], dtype=np.int64)
    most_tokens = None
    if is_batch_invariant(lm):
        longest = lm.context_length or int(lengths.max(initial=0)) + _PADDED
        lengths, most_tokens = np.minimum(-(-lengths // _PADDED) * _PADDED, longest), _TOKENS

    def step(part: I64) -> None:
        batch = [jobs[i] for i in part]
        ids, mask = _pad(lm, batch, int(lengths[part[0]]), causal=causal)
        states = _forward(lm, ids, mask, pool.layer if pool else -1, causal=causal)
        if pool is not None:
            _keep_vectors(pool, states[1], batch)
        if nll is not None:
            _score(lm, states[0], batch, nll)

    with torch.inference_mode():
        run_in_batches(lengths, request.batch_size, step, advance, most_tokens)


def is_batch_invariant(lm: LanguageModel) -> bool:
    """Return whether the result of a sequence does not depend on its batch, bit for bit."""
    from openended.harness.models.onednn import is_packed

    return lm.device.type == "cpu" and is_packed(lm.model)


def _pad(
    lm: LanguageModel, batch: Sequence[ForwardRow], width: int, *, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    filler = max(getattr(lm.model.config, "pad_token_id", None) or 0, 0)  # -1 in some configs: none
    shape = (len(batch), width)
    ids = np.full(shape, filler, dtype=np.int64)
    mask = np.full(shape, int(causal), dtype=np.int64)
    for i, job in enumerate(batch):
        ids[i, : len(job.ids)] = job.ids
        mask[i, : len(job.ids)] = 1
    return copy_to_device(ids, lm.device), copy_to_device(mask, lm.device)


def _forward(
    lm: LanguageModel, ids: torch.Tensor, mask: torch.Tensor, layer: int, *, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the last states, and the states of `layer`."""
    model = get_body(lm.model) if causal else lm.model.base_model
    options = {"use_cache": False} if causal else {}
    out = model(input_ids=ids, attention_mask=mask, output_hidden_states=layer != -1, **options)
    if layer == -1:
        return out.last_hidden_state, out.last_hidden_state
    states = out.hidden_states
    if not -len(states) <= layer < len(states):
        raise SpecError(f"embedder.layer: expected {-len(states)} … {len(states) - 1}, got {layer}")
    return states[-1], states[layer]


def allocate_vectors(rows: int, dim: int) -> NDArray[np.float32]:
    """Return zeros of shape (rows, dim), in a temporary file (`TMPDIR`) if they are very large."""
    if 4 * rows * dim <= _MEMORY_LIMIT:
        return np.zeros((rows, dim), dtype=np.float32)
    with tempfile.TemporaryFile() as handle:
        mapped: NDArray[np.float32] = np.memmap(handle, np.float32, "w+", shape=(rows, dim))
    return mapped


def _keep_vectors(pool: Pool, states: torch.Tensor, batch: Sequence[ForwardRow]) -> None:
    import torch

    if not pool.vectors:
        pool.vectors.append(allocate_vectors(pool.rows, states.shape[-1]))
    rows_kept = [i for i, job in enumerate(batch) if job.row >= 0]
    if not rows_kept:
        return
    targets = np.array([batch[i].row for i in rows_kept])
    index = copy_to_device(rows_kept, states.device)
    ends = copy_to_device([min(len(batch[i].ids), pool.length) for i in rows_kept], states.device)
    if pool.pooling == "first":
        pooled = states[index, 0].float()
    elif pool.pooling == "last":
        pooled = states[index, ends - 1].float()
    else:
        inside = torch.arange(states.shape[1], device=states.device)[None, :] < ends[:, None]
        pooled = (states[index].float() * inside[:, :, None]).sum(dim=1) / ends[:, None]
    if pool.normalize:
        pooled = torch.nn.functional.normalize(pooled, dim=1)
    pool.vectors[0][targets] = pooled.cpu().numpy()


def _score(lm: LanguageModel, states: torch.Tensor, batch: Sequence[ForwardRow], nll: F64) -> None:
    """Write -log p of the scored tokens; logits are made for them alone, a bounded number at a time."""
    import torch

    scored = [(i, job) for i, job in enumerate(batch) if job.first < len(job.ids)]
    if not scored:
        return
    rows = np.concatenate([np.full(len(job.ids) - job.first, i) for i, job in scored])
    positions = np.concatenate([np.arange(job.first - 1, len(job.ids) - 1) for _, job in scored])
    golds = as_ids(np.concatenate([job.ids[job.first :] for _, job in scored]))
    where = np.concatenate([np.arange(job.out, job.out + len(job.ids) - job.first) for _, job in scored])
    at = (copy_to_device(rows, lm.device), copy_to_device(positions, lm.device))
    gold = copy_to_device(golds, lm.device)
    head = lm.model.get_output_embeddings()
    chunk = max(1, _LOGITS // lm.vocab_size)
    values = []
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        scores = rescale_logits(lm.model.config, head(states[at[0][part], at[1][part]]).float())
        losses = torch.nn.functional.cross_entropy(scores, gold[part], reduction="none")
        if nll.ndim == 2:  # equal scores share the best rank
            ranks = 1 + (scores > scores.gather(1, gold[part][:, None])).sum(dim=1)
            losses = torch.stack([losses.double(), ranks.double()], dim=1)
        values.append(losses)
    nll[where] = torch.cat(values).cpu().numpy()


_CHECKED: MutableMapping[Any, bool] = WeakKeyDictionary()  # model → whether its logits are those that are scored


def check_output_layer(lm: LanguageModel) -> None:
    """Refuse a model whose logits are not its output layer on the last states, scaled and capped as is known here."""
    import torch

    if lm.model not in _CHECKED:
        ids = torch.arange(min(4, lm.vocab_size), device=lm.device)[None, :]
        options = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "use_cache": False}
        with torch.inference_mode():
            full = lm.model(**options).logits.float()
            states = get_body(lm.model)(**options).last_hidden_state
            rescaled = rescale_logits(lm.model.config, lm.model.get_output_embeddings()(states).float())
        tolerance = 1e-4 if lm.dtype == torch.float32 else 1e-2
        _CHECKED[lm.model] = bool((full - rescaled).abs().max() <= tolerance * max(1.0, float(full.abs().max())))
    if not _CHECKED[lm.model]:
        kind = lm.model.config.model_type
        raise DataError(f"model {lm.spec.title}: the family {kind} changes its logits in a way that is not known here")


def as_ids(row: Any) -> I64:  # noqa: ANN401 - any sequence of ints
    """Return a row of token ids as int64."""
    return np.asarray(row, dtype=np.int64)
