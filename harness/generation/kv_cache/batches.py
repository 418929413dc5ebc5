"""The tokens of one forward pass over many rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import I64
from openended.harness.generation.kv_cache.base import round_up_to_tiles

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one length that stand side by side."""

    first: int
    """Index of their first token in the pass."""
    rows: tuple[int, ...]
    fed: int
    """Tokens of each row in this pass."""
    length: int
    """Positions of each row after it."""

    @property
    def index(self) -> slice | list[int]:
        """The rows as an index."""
        a, n = self.rows[0], len(self.rows)
        return slice(a, a + n) if self.rows[-1] - a == n - 1 else list(self.rows)


@dataclass(slots=True)
class ForwardPass:
    """The tokens of one forward pass, row after row, filled up to whole tiles with copies."""

    ids: Tensor
    """Shape (T,)."""
    positions: Tensor
    """Shape (T,)."""
    size: int
    """Tokens without the filling."""
    groups: list[Group]
    steps: bool
    """True: one token more for rows that run; False: prompts."""
    memo: dict[str, Tensor] = field(default_factory=dict)

    @property
    def rows(self) -> list[int]:
        """The rows of all groups."""
        return [row for group in self.groups for row in group.rows]

    def last(self, tile: int) -> Tensor:
        """Return the position of each row's last token, padded to whole tiles."""
        import torch

        at = [group.first + (i + 1) * group.fed - 1 for group in self.groups for i in range(len(group.rows))]
        at += at[:1] * (round_up_to_tiles(len(at), tile) - len(at))
        return torch.tensor(at, device=self.ids.device)


def plan_prompt_pass(
    rows: Sequence[int], prompts: Sequence[Sequence[int]], full: int, device: torch.device
) -> ForwardPass:
    """Plan a pass over prompts of descending lengths; `full` tokens with the filling."""
    import torch

    groups: list[Group] = []
    first = 0
    for row, prompt in zip(rows, prompts, strict=True):
        size, last = len(prompt), groups[-1] if groups else None
        if last is not None and last.fed == size:
            groups[-1] = Group(last.first, (*last.rows, row), size, size)
        else:
            groups.append(Group(first, (row,), size, size))
        first += size
    ids, at = np.zeros(full, dtype=np.int64), np.zeros(full, dtype=np.int64)
    ids[:first] = np.concatenate([np.asarray(p, dtype=np.int64) for p in prompts])
    at[:first] = np.concatenate([np.arange(len(p)) for p in prompts])
    return ForwardPass(torch.from_numpy(ids).to(device), torch.from_numpy(at).to(device), first, groups, steps=False)


def plan_step_pass(rows: Sequence[int], ids: Tensor, lengths: I64, full: int) -> ForwardPass:
    """Plan a pass of one token more for each of the rows, which ascend; `lengths` (n,) before it."""
    import torch

    n = len(rows)
    index = np.asarray(rows)
    cuts = np.flatnonzero((np.diff(index) != 1) | (np.diff(lengths) != 0)) + 1
    bounds = [0, *cuts.tolist(), n]
    groups = [Group(a, tuple(rows[a:b]), 1, int(lengths[a]) + 1) for a, b in pairwise(bounds)]
    at = torch.from_numpy(np.concatenate([lengths, np.zeros(full - n, dtype=np.int64)])).to(ids.device)
    if full > n:
        ids = torch.cat([ids, ids[:1].expand(full - n)])
    return ForwardPass(ids, at, n, groups, steps=True)
