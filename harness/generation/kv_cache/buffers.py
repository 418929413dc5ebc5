"""Keys and values of rows of any lengths, and attention over them.

One buffer a layer, allocated once: (rows, heads, positions, size). A `Pass` says which tokens go through the model now;
its groups are neighbours of one length. On a CPU each group is one call of the kernel, so that a row sees its own
positions and nothing else. On a GPU one call serves all rows: shorter ones are masked, and a row's last bits may then
depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.generation.kv_cache.batches import Pass

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
        now: Pass,
        kernel: Kernel,
        window: int | None = None,
    ) -> Tensor:
        """Keep the new keys and values and attend.

        Args:
            layer: Which layer.
            query: Shape (T, H, s), T with the filling.
            key: Shape (T, K, s).
            value: Shape (T, K, s).
            now: The pass.
            kernel: Attention over rows of one length, or with a mask.
            window: A token sees so many positions at most, itself included; None: all before it.

        Returns:
            Shape (T, H · s); the filling is zero.
        """
        out = query.new_empty((len(query), query.shape[1] * value.shape[2]))
        out[now.size :] = 0
        inner = out[: now.size].view(now.size, query.shape[1], value.shape[2])
        if now.steps:
            self._step(layer, query, key, value, now, kernel, window, inner)
        else:
            self._prompts(layer, query, key, value, now, kernel, window, inner)
        return out

    def copy(self, source: Sequence[int], target: Sequence[int], since: int, end: int) -> None:
        """Copy positions since … end of rows."""
        import torch

        if not len(source):
            return
        with torch.inference_mode():
            for pair in self._layers:
                for kept in pair or ():
                    kept[list(target), :, since:end] = kept[list(source), :, since:end]

    def _pair(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's buffers; memory that no row reaches is never touched, so the system never gives it."""
        found = self._layers[layer]
        if found is None:
            rows, length = self.shape
            found = self._layers[layer] = (
                key.new_empty((rows, key.shape[1], length, key.shape[2])),
                value.new_empty((rows, value.shape[1], length, value.shape[2])),
            )
            if self.padded:  # masked positions count nothing, if they are numbers
                for kept in found:
                    kept.zero_()
        return found

    def _step(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        now: Pass,
        kernel: Kernel,
        window: int | None,
        out: Tensor,
    ) -> None:
        import torch

        keys, values = self._pair(layer, key, value)
        if len(now.groups) == 1:
            group = now.groups[0]
            keys[group.place, :, group.length - 1] = key[: now.size]
            values[group.place, :, group.length - 1] = value[: now.size]
        else:
            if "rows" not in now.memo:
                now.memo["rows"] = torch.tensor(now.rows, device=key.device)
            at = now.positions[: now.size].to(key.device)
            rows = now.memo["rows"].to(key.device)
            keys[rows, :, at] = key[: now.size]
            values[rows, :, at] = value[: now.size]
        if self.padded:
            return self._step_padded(keys, values, query, now, kernel, window, out)
        for group in now.groups:
            a, end = group.first, group.length
            b = a + len(group.rows)
            mask = None
            if window is not None and end >= window:
                mask = _window_mask(1, end, window, b - a, query.device)
            made = kernel(query[a:b, :, None], keys[group.place, :, :end], values[group.place, :, :end], mask)
            out[a:b] = made[:, :, 0]
        return None

    def _step_padded(
        self, keys: Tensor, values: Tensor, query: Tensor, now: Pass, kernel: Kernel, window: int | None, out: Tensor
    ) -> None:
        """All rows at once, each masked beyond its length."""
        import torch

        rows = now.rows
        many, end = rows[-1] + 1, max(group.length for group in now.groups)
        if "index" not in now.memo:
            now.memo["index"] = torch.tensor(rows, device=query.device)
        index = now.memo["index"]
        name = f"mask {window}"
        if name not in now.memo:
            last = now.positions.new_zeros(many)
            last[index] = now.positions[: now.size]
            at = torch.arange(end, device=query.device)
            mask = at <= last[:, None]
            if window is not None:
                mask &= at > last[:, None] - window
            now.memo[name] = mask[:, None, None]
        full = query[: now.size]
        if many != now.size:
            full = query.new_zeros((many, *query.shape[1:])).index_copy_(0, index, full)
        made = kernel(full[:, :, None], keys[:many, :, :end], values[:many, :, :end], now.memo[name])[:, :, 0]
        out.copy_(made if many == now.size else made[index])

    def _prompts(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        now: Pass,
        kernel: Kernel,
        window: int | None,
        out: Tensor,
    ) -> None:
        groups = now.groups
        if self.padded and len(groups) > 1:
            return self._prompts_padded(layer, query, key, value, now, kernel, window, out)
        for group in groups:
            n, t = len(group.rows), group.fed
            inside = slice(group.first, group.first + n * t)
            q, k, v = (x[inside].view(n, t, *x.shape[1:]).transpose(1, 2) for x in (query, key, value))
            k, v = k.contiguous(), v.contiguous()
            if not self.once:
                for kept, new in zip(self._pair(layer, key, value), (k, v), strict=True):
                    kept[group.place, :, :t] = new
            mask = None
            if window is not None and t >= window:
                mask = _window_mask(t, t, window, n, query.device)
            out[inside].view(n, t, *out.shape[1:]).copy_(kernel(q, k, v, mask).transpose(1, 2))
        return None

    def _prompts_padded(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        now: Pass,
        kernel: Kernel,
        window: int | None,
        out: Tensor,
    ) -> None:
        """All prompts at once, filled up on the right: what is causal never sees the filling."""
        import torch

        rows, width = now.rows, now.groups[0].fed
        if "spread" not in now.memo:
            sizes = np.repeat([g.fed for g in now.groups], [len(g.rows) for g in now.groups])
            at = np.arange(width)[None] + (np.cumsum(sizes) - sizes)[:, None]
            inside = np.arange(width)[None] < sizes[:, None]
            now.memo["spread"] = torch.from_numpy(np.where(inside, at, 0)).to(query.device)
            now.memo["inside"] = torch.from_numpy(np.flatnonzero(inside)).to(query.device)
        spread = now.memo["spread"]
        q, k, v = (x[spread].transpose(1, 2) for x in (query, key, value))
        if not self.once:
            for kept, new in zip(self._pair(layer, key, value), (k, v), strict=True):
                kept[rows, :, :width] = new
        mask = None
        if window is not None and width >= window:
            mask = _window_mask(width, width, window, len(rows), query.device)
        out.copy_(kernel(q, k, v, mask).transpose(1, 2).flatten(0, 1)[now.memo["inside"]])


def _window_mask(fed: int, length: int, window: int, rows: int, device: torch.device) -> Tensor:
    """True where one of the last `fed` positions sees another: shape (rows, 1, fed, length)."""
    import torch

    at = torch.arange(length, device=device)
    own = at[length - fed :, None]
    return ((at <= own) & (at > own - window))[None, None].expand(rows, 1, -1, -1)
