"""Keys and values of rows of any lengths, and attention over them.

Each layer has one buffer, allocated once: (rows, heads, positions, size). A `ForwardPass` lists the tokens to run now;
its groups are adjacent rows of equal length. On a CPU each group is one call of the kernel, so that a row sees only its
own positions. On a GPU one call serves all rows: shorter rows are masked, and a row's last bits may depend on the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.generation.kv_cache.base import ForwardPass

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Kernel = Callable[["Tensor", "Tensor", "Tensor", "Tensor | None"], "Tensor"]
"""(query (n, H, t, s), keys and values (n, K, T, s), mask or None) → (n, H, t, s).

Without a mask: causal where t > 1 (then T = t), and all T positions where t = 1.
"""


class KeyValues:
    """Keys and values of all layers."""

    def __init__(self, layers: int, rows: int, length: int, *, padded: bool, once: bool = False) -> None:
        self.shape, self.padded, self.once = (rows, length), padded, once
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * layers

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, batch: ForwardPass, kernel: Kernel,
        window: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Store the new keys and values and attend."""
        out = query.new_empty((len(query), query.shape[1] * value.shape[2]))
        out[batch.size :] = 0
        inner = out[: batch.size].view(batch.size, query.shape[1], value.shape[2])
        buffers = None if self.once else self._get_buffers(layer, key, value)
        attention = _LayerAttention(query, key, value, batch, kernel, window, inner, buffers)
        if batch.steps:
            attention.store_step()
            (attention.attend_step_padded if self.padded else attention.attend_step)()
        elif self.padded and len(batch.groups) > 1:
            attention.attend_prompts_padded()
        else:
            attention.attend_prompts()
        return out

    def copy(self, source: Sequence[int], target: Sequence[int], since: int, end: int) -> None:
        """Copy the positions from `since` to `end` of rows `source` to rows `target`."""
        import torch

        if not len(source):
            return
        with torch.inference_mode():
            for pair in self._layers:
                for buffer in pair or ():
                    buffer[list(target), :, since:end] = buffer[list(source), :, since:end]

    def _get_buffers(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer's buffers; untouched memory is never allocated by the system."""
        pair = self._layers[layer]
        if pair is None:
            rows, length = self.shape
            # Masked positions of padded rows count nothing, if they are numbers.
            new = "new_zeros" if self.padded else "new_empty"
            key_buffer, value_buffer = (getattr(x, new)((rows, x.shape[1], length, x.shape[2])) for x in (key, value))
            pair = self._layers[layer] = key_buffer, value_buffer
        return pair


@dataclass(slots=True)
class _LayerAttention:
    """Attention of one layer in one pass, over tokens (T, heads, size)."""

    query: Tensor
    key: Tensor
    value: Tensor
    batch: ForwardPass
    kernel: Kernel
    window: int | None
    out: Tensor
    buffers: tuple[Tensor, Tensor] | None
    """Where keys and values are kept; None: nowhere."""

    def store_step(self) -> None:
        """Store one key and value more for each row."""
        import torch

        batch = self.batch
        rows: torch.Tensor | slice | list[int]
        at: torch.Tensor | int
        if len(batch.groups) == 1:
            rows, at = batch.groups[0].index, batch.groups[0].length - 1
        else:
            if "rows" not in batch.memo:
                batch.memo["rows"] = torch.tensor(batch.rows, device=self.key.device)
            rows = batch.memo["rows"].to(self.key.device)
            at = batch.positions[: batch.size].to(self.key.device)
        for buffer, new in zip(self.buffers or (), (self.key, self.value), strict=True):
            buffer[rows, :, at] = new[: batch.size]

    def attend_step(self) -> None:
        """Attend group by group: a row sees only its own positions."""
        keys, values = self.buffers or (self.key, self.value)
        for group in self.batch.groups:
            a, end = group.first, group.length
            b = a + len(group.rows)
            mask = None
            if self.window is not None and end >= self.window:
                mask = _build_window_mask(1, end, self.window, b - a, self.query.device)
            seen = keys[group.index, :, :end], values[group.index, :, :end]
            self.out[a:b] = self.kernel(self.query[a:b, :, None], *seen, mask)[:, :, 0]

    def attend_step_padded(self) -> None:
        """Attend for all rows at once, each masked beyond its length."""
        import torch

        batch, device = self.batch, self.query.device
        keys, values = self.buffers or (self.key, self.value)
        rows = batch.rows
        many, end = rows[-1] + 1, max(group.length for group in batch.groups)
        if "index" not in batch.memo:
            batch.memo["index"] = torch.tensor(rows, device=device)
        index = batch.memo["index"]
        name = f"mask {self.window}"
        if name not in batch.memo:
            last = batch.positions.new_zeros(many)
            last[index] = batch.positions[: batch.size]
            at = torch.arange(end, device=device)
            mask = at <= last[:, None]
            if self.window is not None:
                mask &= at > last[:, None] - self.window
            batch.memo[name] = mask[:, None, None]
        full = self.query[: batch.size]
        if many != batch.size:
            full = full.new_zeros((many, *full.shape[1:])).index_copy_(0, index, full)
        attended = self.kernel(full[:, :, None], keys[:many, :, :end], values[:many, :, :end], batch.memo[name])
        self.out.copy_(attended[:, :, 0] if many == batch.size else attended[index, :, 0])

    def attend_prompts(self) -> None:
        """Attend to prompts, those of one length together."""
        for group in self.batch.groups:
            n, t = len(group.rows), group.fed
            inside = slice(group.first, group.first + n * t)
            q, k, v = (x[inside].view(n, t, *x.shape[1:]).transpose(1, 2) for x in (self.query, self.key, self.value))
            k, v = k.contiguous(), v.contiguous()
            mask = self._store_prompts(group.index, k, v, n)
            self.out[inside].view(n, t, *self.out.shape[1:]).copy_(self.kernel(q, k, v, mask).transpose(1, 2))

    def attend_prompts_padded(self) -> None:
        """Attend to all prompts at once, padded on the right; causal attention never sees the padding."""
        import torch

        batch, width = self.batch, self.batch.groups[0].fed
        if "spread" not in batch.memo:
            sizes = np.repeat([g.fed for g in batch.groups], [len(g.rows) for g in batch.groups])
            at = np.arange(width)[None] + (np.cumsum(sizes) - sizes)[:, None]
            inside = np.arange(width)[None] < sizes[:, None]
            batch.memo["spread"] = torch.from_numpy(np.where(inside, at, 0)).to(self.query.device)
            batch.memo["inside"] = torch.from_numpy(np.flatnonzero(inside)).to(self.query.device)
        index = batch.memo["spread"]
        q, k, v = (x[index].transpose(1, 2) for x in (self.query, self.key, self.value))
        mask = self._store_prompts(batch.rows, k, v, len(batch.rows))
        self.out.copy_(self.kernel(q, k, v, mask).transpose(1, 2).flatten(0, 1)[batch.memo["inside"]])

    def _store_prompts(self, rows: slice | list[int], k: Tensor, v: Tensor, count: int) -> Tensor | None:
        """Store keys and values (n, K, t, s) of whole prompts; return the mask that they need, if any."""
        width = k.shape[2]
        for buffer, new in zip(self.buffers or (), (k, v), strict=False):
            buffer[rows, :, :width] = new
        needs_mask = self.window is not None and width >= self.window
        return _build_window_mask(width, width, self.window or 0, count, k.device) if needs_mask else None


def _build_window_mask(fed: int, length: int, window: int, rows: int, device: torch.device) -> Tensor:
    """Return a mask, true where one of the last `fed` positions sees another: shape (rows, 1, fed, length)."""
    import torch

    at = torch.arange(length, device=device)
    position = at[length - fed :, None]
    return ((at <= position) & (at > position - window))[None, None].expand(rows, 1, -1, -1)
