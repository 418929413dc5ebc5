"""Keys and values of rows of any lengths, and attention over them.

Each layer has one buffer, allocated once: (rows, heads, positions, size). A `ForwardPass` lists the tokens to run now;
its groups are adjacent rows of equal length. On a CPU each group is one call of the kernel, so that a row sees only its
own positions. On a GPU one call serves all rows: shorter rows are masked, and a row's last bits may depend on the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.generation.kv_cache.batches import ForwardPass

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
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        batch: ForwardPass,
        kernel: Kernel,
        window: int | None = None,
    ) -> Tensor:
        """Store the new keys and values and attend."""
        out = query.new_empty((len(query), query.shape[1] * value.shape[2]))
        out[batch.size :] = 0
        inner = out[: batch.size].view(batch.size, query.shape[1], value.shape[2])
        if batch.steps:
            self._attend_step(layer, query, key, value, batch, kernel, window, inner)
        else:
            self._attend_prompts(layer, query, key, value, batch, kernel, window, inner)
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

    def _pair(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer's buffers; untouched memory is never allocated by the system."""
        pair = self._layers[layer]
        if pair is None:
            rows, length = self.shape
            pair = self._layers[layer] = (
                key.new_empty((rows, key.shape[1], length, key.shape[2])),
                value.new_empty((rows, value.shape[1], length, value.shape[2])),
            )
            if self.padded:  # masked positions count nothing, if they are numbers
                for buffer in pair:
                    buffer.zero_()
        return pair

    def _attend_step(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        batch: ForwardPass,
        kernel: Kernel,
        window: int | None,
        out: Tensor,
    ) -> None:
        import torch

        keys, values = self._pair(layer, key, value)
        if len(batch.groups) == 1:
            group = batch.groups[0]
            keys[group.index, :, group.length - 1] = key[: batch.size]
            values[group.index, :, group.length - 1] = value[: batch.size]
        else:
            if "rows" not in batch.memo:
                batch.memo["rows"] = torch.tensor(batch.rows, device=key.device)
            at = batch.positions[: batch.size].to(key.device)
            rows = batch.memo["rows"].to(key.device)
            keys[rows, :, at] = key[: batch.size]
            values[rows, :, at] = value[: batch.size]
        if self.padded:
            return self._attend_step_padded(keys, values, query, batch, kernel, window, out)
        for group in batch.groups:
            a, end = group.first, group.length
            b = a + len(group.rows)
            mask = None
            if window is not None and end >= window:
                mask = _build_window_mask(1, end, window, b - a, query.device)
            attended = kernel(query[a:b, :, None], keys[group.index, :, :end], values[group.index, :, :end], mask)
            out[a:b] = attended[:, :, 0]
        return None

    def _attend_step_padded(
        self,
        keys: Tensor,
        values: Tensor,
        query: Tensor,
        batch: ForwardPass,
        kernel: Kernel,
        window: int | None,
        out: Tensor,
    ) -> None:
        """Attend for all rows at once, each masked beyond its length."""
        import torch

        rows = batch.rows
        many, end = rows[-1] + 1, max(group.length for group in batch.groups)
        if "index" not in batch.memo:
            batch.memo["index"] = torch.tensor(rows, device=query.device)
        index = batch.memo["index"]
        name = f"mask {window}"
        if name not in batch.memo:
            last = batch.positions.new_zeros(many)
            last[index] = batch.positions[: batch.size]
            at = torch.arange(end, device=query.device)
            mask = at <= last[:, None]
            if window is not None:
                mask &= at > last[:, None] - window
            batch.memo[name] = mask[:, None, None]
        full = query[: batch.size]
        if many != batch.size:
            full = query.new_zeros((many, *query.shape[1:])).index_copy_(0, index, full)
        attended = kernel(full[:, :, None], keys[:many, :, :end], values[:many, :, :end], batch.memo[name])[:, :, 0]
        out.copy_(attended if many == batch.size else attended[index])

    def _attend_prompts(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        batch: ForwardPass,
        kernel: Kernel,
        window: int | None,
        out: Tensor,
    ) -> None:
        groups = batch.groups
        if self.padded and len(groups) > 1:
            return self._attend_prompts_padded(layer, query, key, value, batch, kernel, window, out)
        for group in groups:
            n, t = len(group.rows), group.fed
            inside = slice(group.first, group.first + n * t)
            q, k, v = (x[inside].view(n, t, *x.shape[1:]).transpose(1, 2) for x in (query, key, value))
            k, v = k.contiguous(), v.contiguous()
            if not self.once:
                for buffer, new in zip(self._pair(layer, key, value), (k, v), strict=True):
                    buffer[group.index, :, :t] = new
            mask = None
            if window is not None and t >= window:
                mask = _build_window_mask(t, t, window, n, query.device)
            out[inside].view(n, t, *out.shape[1:]).copy_(kernel(q, k, v, mask).transpose(1, 2))
        return None

    def _attend_prompts_padded(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        batch: ForwardPass,
        kernel: Kernel,
        window: int | None,
        out: Tensor,
    ) -> None:
        """Attend for all prompts at once, padded on the right; causal attention never sees the padding."""
        import torch

        rows, width = batch.rows, batch.groups[0].fed
        if "spread" not in batch.memo:
            sizes = np.repeat([g.fed for g in batch.groups], [len(g.rows) for g in batch.groups])
            at = np.arange(width)[None] + (np.cumsum(sizes) - sizes)[:, None]
            inside = np.arange(width)[None] < sizes[:, None]
            batch.memo["spread"] = torch.from_numpy(np.where(inside, at, 0)).to(query.device)
            batch.memo["inside"] = torch.from_numpy(np.flatnonzero(inside)).to(query.device)
        index = batch.memo["spread"]
        q, k, v = (x[index].transpose(1, 2) for x in (query, key, value))
        if not self.once:
            for buffer, new in zip(self._pair(layer, key, value), (k, v), strict=True):
                buffer[rows, :, :width] = new
        mask = None
        if window is not None and width >= window:
            mask = _build_window_mask(width, width, window, len(rows), query.device)
        out.copy_(kernel(q, k, v, mask).transpose(1, 2).flatten(0, 1)[batch.memo["inside"]])


def _build_window_mask(fed: int, length: int, window: int, rows: int, device: torch.device) -> Tensor:
    """Return a mask, true where one of the last `fed` positions sees another: shape (rows, 1, fed, length)."""
    import torch

    at = torch.arange(length, device=device)
    position = at[length - fed :, None]
    return ((at <= position) & (at > position - window))[None, None].expand(rows, 1, -1, -1)
