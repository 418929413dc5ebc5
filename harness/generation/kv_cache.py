"""Stepwise generation: a model on a fixed number of rows, each with its own length, and their keys and values.

On CPU in float32 a row's result does not depend on the other rows, bit for bit. Packed layers treat every row alike
(see `openended.harness.models.onednn`). Where a layer is not packed, the BLAS sees the tokens of all rows as one tall
matrix, at least 16 of them, filled up to a multiple of 4. Attention runs on rows of one length, without padding; that
of a single token needs no matrix product. On a GPU shorter rows are masked, and last bits may depend on the others.
"""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from openended.harness.core import I64, copy_to_device
from openended.harness.models import LanguageModel, check_logits, get_body, rescale_logits

TILE = 4
"""Rows are filled up to a multiple of it on CPU."""
FLOOR = 16
"""Tokens that models of transformers run with at least on CPU: below, BLAS kernels for few rows round otherwise."""
_WHOLE = 16  # positions: steps on a CPU see a multiple of it, so that the end of a sum is the same for every row
_CACHED = 1 << 18  # products of keys or values that a step makes at once on a CPU
_GROUPED = 1 << 22  # keys that a step reads at once where heads share them
_BLOCK = 128  # positions of one product where heads share keys
PREFILL = {"cpu": 1024}
"""Prompt tokens of one pass, if there is more than one prompt: what a layer makes of them stays in a CPU's cache."""
PREFILL_ELSEWHERE = 16384


class CacheRunner(ABC):
    """A model with a cache for a fixed number of rows and positions."""

    ragged = True
    """True where rows may have different lengths; else all rows are started together, with prompts of one length."""

    def __init__(self, lm: LanguageModel, rows: int, length: int, *, once: bool = False) -> None:  # noqa: ARG002
        self._lm, self._device, self._body = lm, lm.device, get_body(lm.model)
        self.lengths = np.zeros(rows, dtype=np.int64)
        """Positions that each row holds."""

    @abstractmethod
    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        """Run prompts of at least one token in rows; earlier content of the rows is discarded."""

    @abstractmethod
    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        """Run one token more, ids (n,), in each of the rows, which ascend; returns hidden states (n, d)."""

    def copy(self, source: Sequence[int], target: Sequence[int], since: int = 0, length: int | None = None) -> None:
        """Copy rows `source` to rows `target`, up to `length` positions; they already agree before `since`."""
        self.lengths[list(target)] = self.lengths[list(source)] if length is None else length
        if moved := [rows for rows in zip(source, target, strict=True) if rows[0] != rows[1]]:
            self._copy_rows([origin for origin, _ in moved], [to for _, to in moved], since)

    @abstractmethod
    def _copy_rows(self, source: list[int], target: list[int], since: int) -> None:
        """Copy what is kept of rows; `lengths` are those after it."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits (…, V), float32, of hidden states (…, d); raises if they are not finite."""
        return check_logits(self.compute_logits(hidden), self._lm)

    def compute_logits(self, hidden: Tensor) -> Tensor:
        """Return logits (…, V), float32, of hidden states (…, d), by the model's own output layer."""
        flat = hidden.reshape(-1, hidden.shape[-1])
        size = len(flat)
        missing = self._round_up_count(size) - size
        if missing:
            flat = torch.cat([flat, flat[:1].expand(missing, -1)])
        with torch.inference_mode():
            logits = rescale_logits(self._lm.model.config, self._lm.model.get_output_embeddings()(flat)[:size].float())
        return logits.view(*hidden.shape[:-1], logits.shape[-1])

    def _round_up_count(self, count: int) -> int:
        """Return the number of tokens or rows to run for a requested number."""
        return max(round_up_to_tiles(count, TILE), FLOOR) if self._device.type == "cpu" else count


def round_up_to_tiles(rows: int, tile: int) -> int:
    """Round up to whole tiles."""
    return -(-rows // tile) * tile


def split_prompts(prompts: Sequence[Sequence[int]], device: str) -> Iterator[list[int]]:
    """Yield groups of prompts for one pass: longest first, at most `PREFILL` tokens or one prompt."""
    limit = PREFILL.get(device, PREFILL_ELSEWHERE)
    part: list[int] = []
    size = 0
    for i in sorted(range(len(prompts)), key=lambda i: -len(prompts[i])):
        if part and size + len(prompts[i]) > limit:
            yield part
            part, size = [], 0
        part.append(i)
        size += len(prompts[i])
    if part:
        yield part


@dataclass(frozen=True, slots=True)
class StepPart:
    """Rows that stand side by side and take part in a step together."""

    tokens: slice  # their tokens in the pass
    rows: slice
    end: int  # positions of the longest, rounded up
    mask: Tensor | None  # positions that each row sees, (rows, 1, 1, end); None: all


@dataclass
class ForwardPass:
    """The tokens of one forward pass, row after row, filled up to whole tiles with copies."""

    ids: Tensor  # shape (T,)
    positions: Tensor  # shape (T,)
    rows: list[int]  # those that take part, in the order of their tokens
    lengths: I64  # positions of each of them after the pass
    steps: bool  # true: one token more for rows that run; False: prompts
    parts: dict[tuple[int, int | None], list[StepPart]] = field(default_factory=dict)
    """Arguments of `split_step` → what it returned."""

    @cached_property
    def size(self) -> int:
        """Tokens without the filling."""
        return len(self.rows) if self.steps else int(self.lengths.sum())

    @cached_property
    def index(self) -> Tensor:
        """The rows as a tensor."""
        return copy_to_device(self.rows, self.ids.device)

    def split_step(self, most: int, window: int | None) -> list[StepPart]:
        """Split a step into parts of at most `most` positions, or one row."""
        if (most, window) not in self.parts:
            self.parts[most, window] = list(self._iterate_parts(most, window))
        return self.parts[most, window]

    def _iterate_parts(self, most: int, window: int | None) -> Iterator[StepPart]:
        rows, lengths, first = self.rows, self.lengths, 0
        while first < len(rows):
            last, end = first + 1, int(lengths[first])
            while last < len(rows) and rows[last] == rows[last - 1] + 1:
                longest = max(end, int(lengths[last]))
                if (last + 1 - first) * longest > most:
                    break
                last, end = last + 1, longest
            ends, mask, end = lengths[first:last, None], None, round_up_to_tiles(end, _WHOLE)
            if ends.min() < end or (window is not None and end > window):
                at = np.arange(end)
                seen = (at < ends) & (at >= ends - (end if window is None else window))
                mask = copy_to_device(seen[:, None, None], self.ids.device)
            yield StepPart(slice(first, last), slice(rows[first], rows[first] + last - first), end, mask)
            first = last


Buffers = tuple[Tensor, Tensor]
Kernel = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""(query (n, H, t, s), keys and values (n, K, T, s), mask or None) → (n, H, t, s).

Without a mask: causal where t > 1 (then T = t), and all T positions where t = 1.
"""


class KeyValues:
    """Keys and values of all layers, of rows of any lengths, and attention over them."""

    def __init__(self, layers: int, rows: int, length: int, *, padded: bool, once: bool = False) -> None:
        self.shape, self.padded, self.once = (rows, length), padded, once
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def attend(
        self, layer: int, tokens: Sequence[Tensor], batch: ForwardPass, kernel: Kernel, window: int | None
    ) -> Tensor:
        """Store the keys and values of new tokens and attend by their queries, each of shape (T, heads, size)."""
        query, key, value = tokens
        out = query.new_empty((len(query), query.shape[1] * value.shape[2]))
        out[batch.size :] = 0
        inner = out[: batch.size].view(batch.size, query.shape[1], value.shape[2])
        buffers = None if self.once else self._get_buffers(layer, key, value)
        if not batch.steps:
            _attend_prompts(tokens, batch, kernel, window, inner, buffers)
            return out
        rows, at = batch.index.to(key.device), batch.positions[: batch.size].to(key.device)
        for buffer, new in zip(buffers or (), (key, value), strict=True):
            buffer[rows, :, at] = new[: batch.size]
        keys, values = buffers or (key, value)
        # A few rows at a time, as many as a CPU's cache holds, each masked beyond its length.
        heads, shared, size = query.shape[1], keys.shape[1], max(keys.shape[3], values.shape[3])
        is_batch_invariant = self.padded or has_batch_invariant_products(
            shared, heads // shared, keys.shape[3], values.shape[3], torch.get_num_threads()
        )
        most = _GROUPED // (shared * size) if is_batch_invariant else _CACHED // (heads * size)
        for part in batch.split_step(sys.maxsize if self.padded else most, window):
            seen = keys[part.rows, :, : part.end], values[part.rows, :, : part.end]
            mask = None if part.mask is None else part.mask.to(query.device)
            inner[part.tokens] = kernel(query[part.tokens, :, None], *seen, mask)[:, :, 0]
        return out

    def copy(self, source: Sequence[int], target: Sequence[int], since: int, end: int) -> None:
        """Copy the positions from `since` to `end` of rows `source` to rows `target`."""
        buffers = [buffer for pair in self._layers for buffer in pair or ()]
        devices = {buffer.device for buffer in buffers}
        rows = {device: [copy_to_device(part, device) for part in (target, source)] for device in devices}
        with torch.inference_mode():
            for buffer in buffers:
                to, origin = rows[buffer.device]
                part = buffer[:, :, since:end]
                part.index_copy_(0, to, part.index_select(0, origin))

    def _get_buffers(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer's buffers; untouched memory is never allocated by the system."""
        pair = self._layers[layer]
        if pair is None:
            rows, length = self.shape
            # Masked positions count nothing, if they are numbers.
            room = round_up_to_tiles(length, _WHOLE)
            key_buffer, value_buffer = (_make_zeros(x, (rows, x.shape[1], room, x.shape[2])) for x in (key, value))
            pair = self._layers[layer] = key_buffer, value_buffer
        return pair


def _make_zeros(like: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return zeros of a tensor's type and device; those on a CPU take no memory before they are written."""
    if like.device.type != "cpu":
        return like.new_zeros(shape)
    return torch.from_numpy(np.zeros(math.prod(shape) * like.element_size(), np.uint8)).view(like.dtype).view(shape)


def _attend_prompts(
    new: Sequence[Tensor], batch: ForwardPass, kernel: Kernel, window: int | None, out: Tensor, buffers: Buffers | None
) -> None:
    """Attend by the queries, keys and values of whole prompts, which are stored; those of one length together."""
    first, start = 0, 0
    for t, same in groupby(batch.lengths.tolist()):
        n = len(list(same))
        inside, rows = slice(start, start + n * t), batch.index[first : first + n].to(new[1].device)
        q, k, v = (x[inside].view(n, t, *x.shape[1:]).transpose(1, 2) for x in new)
        k, v = k.contiguous(), v.contiguous()
        for buffer, stored in zip(buffers or (), (k, v), strict=False):
            buffer[rows, :, :t] = stored
        mask = None
        if window is not None and t >= window:  # true where a position of a prompt sees another
            at = torch.arange(t, device=k.device)
            mask = ((at <= at[:, None]) & (at > at[:, None] - window))[None, None].expand(n, 1, -1, -1)
        out[inside].view(n, t, *out.shape[1:]).copy_(kernel(q, k, v, mask).transpose(1, 2))
        first, start = first + n, start + n * t


def attend_one_token(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float | None = None
) -> Tensor:
    """Attend from one token of each row: see `Kernel`; `scale` of the scores is 1 / sqrt(s) by default.

    Works in float32. The result of a row depends neither on addresses nor on other rows: products are summed one by
    one, or by a matrix product where heads share keys and a trial shows that it is batch-invariant too. Masked
    positions after the last change no bit, if there are as many as make a multiple of 16.
    """
    n, heads, _, size = query.shape
    shared = keys.shape[1]
    grouped = query.float().view(n, shared, -1, size)
    scale = size**-0.5 if scale is None else scale
    if has_batch_invariant_products(shared, heads // shared, size, values.shape[3], torch.get_num_threads()):
        attention_output = _attend_by_products(grouped, keys, values, mask, scale)
    else:
        scores = (grouped[:, :, :, None] * keys[:, :, None]).sum(-1)
        attention_output = (_weigh(scores, mask, scale)[..., None] * values[:, :, None]).sum(-2)
    return attention_output.view(n, heads, 1, -1).to(query.dtype)


def _attend_by_products(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Attend from queries (n, K, g, s) by matrix products of at most `_BLOCK` positions, (n, K, g, s)."""
    pairs = list(zip(torch.split(keys, _BLOCK, 2), torch.split(values, _BLOCK, 2), strict=True))
    scores = torch.cat([torch.matmul(query, block.float().transpose(2, 3)) for block, _ in pairs], -1)
    weights = torch.split(_weigh(scores, mask, scale), _BLOCK, 3)
    parts = [torch.matmul(part.contiguous(), block.float()) for part, (_, block) in zip(weights, pairs, strict=True)]
    for part in parts[1:]:
        parts[0] += part
    return parts[0]


def _weigh(scores: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Return the softmax of scores (n, K, g, T), which are overwritten."""
    scores *= scale
    if mask is not None:
        scores.masked_fill_(~mask, -torch.inf)
    return torch.softmax(scores, -1)


@cache
def has_batch_invariant_products(shared: int, group: int, key_size: int, value_size: int, threads: int) -> bool:  # noqa: ARG001
    """Return whether `_attend_by_products` gives a row of K heads the same bits with any other rows, by a trial.

    Rows of all lengths attend together, then in twos and alone, with keys and values at other addresses.
    """
    if group == 1:  # a product with one row
        return False
    generator = torch.Generator().manual_seed(0)
    ends = torch.arange(_WHOLE, _BLOCK + 1, _WHOLE)
    query, keys, values = (
        torch.randn(len(ends), shared, length, size, generator=generator, dtype=torch.float32)
        for length, size in ((group, key_size), (_BLOCK, key_size), (_BLOCK, value_size))
    )
    mask = (torch.arange(_BLOCK) < ends[:, None] - 3)[:, None, None]

    def attend(rows: slice) -> Tensor:
        end = int(ends[rows].max())
        moved = [torch.cat([x.new_zeros(4), x[rows].flatten()])[4:].view(x[rows].shape) for x in (keys, values)]
        some_keys, some_values = (x[:, :, :end] for x in moved)
        return _attend_by_products(query[rows], some_keys, some_values, mask[rows, ..., :end], 1.0)

    together = _attend_by_products(query, keys, values, mask, 1.0)
    some = [slice(i, i + count) for count in (1, 2) for i in range(len(ends) + 1 - count)]
    return all(torch.equal(attend(rows), together[rows]) for rows in some)
