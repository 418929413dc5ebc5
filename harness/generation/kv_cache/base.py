"""The interface of stepwise generation: a model on a fixed number of rows, each with its own length.

On CPU in float32 a row's result does not depend on the other rows, bit for bit, because the kernels are chosen for it.
Every matrix product sees the tokens of all rows as one tall matrix and runs on 4, 8, … 64 of them at a time: the BLAS
then treats every row alike, by whichever of its kernels the processor gets (some treat 1 to 3 rows, or the rows beyond
a multiple of 4, in another way), and what is missing to a multiple of 4 is filled up. Above 64 some split long sums:
more rows go together only where a trial on this machine gave the same bits (see `RowSplitter`). Attention alone sees
lengths; it runs on rows of one length at a time, without padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from openended.harness.core import I64
from openended.harness.models import check_logits, rescale_logits

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from openended.harness.core import CausalModel


TILE = 4
"""Rows are filled up to a multiple of it on CPU."""
FLOOR = 16
"""Tokens that models of transformers run with at least on CPU: below, BLAS kernels for few rows round otherwise."""
PREFILL = {"cpu": 1024}
"""Prompt tokens of one pass, if there is more than one prompt: what a layer makes of them stays in a CPU's cache."""
PREFILL_ELSEWHERE = 16384


class CacheRunner:
    """A model with a cache for a fixed number of rows and positions."""

    ragged = True
    """True where rows may have different lengths; else all rows are started together, with prompts of one length."""

    def __init__(self, lm: CausalModel, rows: int) -> None:
        self._lm, self._device = lm, lm.device
        self._steady = lm.device.type == "cpu"
        self.lengths = np.zeros(rows, dtype=np.int64)
        """Positions that each row holds."""

    def start(self, rows: Sequence[int], prompts: Sequence[Sequence[int]], *, every: bool = True) -> list[Tensor]:
        """Run prompts of at least one token in rows; earlier content of the rows is discarded."""
        raise NotImplementedError

    def extend(self, ids: Tensor, rows: Sequence[int]) -> Tensor:
        """Run one token more, ids (n,), in each of the rows, which ascend; returns hidden states (n, d)."""
        raise NotImplementedError

    def copy(self, source: Sequence[int], target: Sequence[int], since: int = 0, length: int | None = None) -> None:
        """Copy rows `source` to rows `target`, up to `length` positions; they already agree before `since`."""
        raise NotImplementedError

    def logits(self, hidden: Tensor) -> Tensor:
        """Return logits (…, V), float32, of hidden states (…, d), by the model's own output layer."""
        import torch

        flat = hidden.reshape(-1, hidden.shape[-1])
        size, model = len(flat), self._lm.model
        missing = self._round_up_count(size) - size
        if missing:
            flat = torch.cat([flat, flat[:1].expand(missing, -1)])
        with torch.inference_mode():
            logits = rescale_logits(model.config, model.get_output_embeddings()(flat)[:size].float())
        return check_logits(logits, self._lm).view(*hidden.shape[:-1], logits.shape[-1])

    def _round_up_count(self, count: int) -> int:
        """Return the number of tokens or rows to run for a requested number."""
        return max(round_up_to_tiles(count, TILE), FLOOR) if self._steady else count


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
