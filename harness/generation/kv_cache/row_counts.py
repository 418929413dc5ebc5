"""Find row counts at which the BLAS of this machine computes each row the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openended.harness.generation.kv_cache.base import TILE, round_up_to_tiles

if TYPE_CHECKING:
    from torch import Tensor

SAFE = 64
"""Up to this number of rows, in whole tiles, every tested BLAS sums each row in the same order."""
LARGE = (256, 128)
"""Sizes that are faster, tried before they are used: a BLAS may split long sums there."""


class RowSplitter:
    """Sizes of the parts in which rows meet a weight matrix, so that a row's result does not depend on the others."""

    def __init__(self) -> None:
        self._large: dict[tuple[int, int, int], tuple[int, ...]] = {}

    def parts(self, rows: int, weight: Tensor) -> list[int]:
        """Sizes of parts of `rows` rows, a number of whole tiles."""
        sizes: list[int] = []
        if rows > SAFE:
            for size in self._find_exact_sizes(weight):
                sizes += [size] * (rows // size)
                rows %= size
        if rows:
            each = round_up_to_tiles(-(-rows // -(-rows // SAFE)), TILE)  # nearly equal ones
            sizes += [each] * (rows // each)
            sizes += [rows % each] if rows % each else []
        return sizes

    def _find_exact_sizes(self, weight: Tensor) -> tuple[int, ...]:
        """Large sizes that give the same bits as small ones, tried once for a shape and a number of threads."""
        import torch

        key = (*weight.shape, torch.get_num_threads())
        if key not in self._large:
            generator = torch.Generator().manual_seed(0)
            rows = torch.randn(max(LARGE), weight.shape[0], generator=generator, dtype=weight.dtype)
            want = torch.cat([torch.mm(part, weight) for part in torch.split(rows, SAFE)])
            same = [torch.equal(torch.cat([torch.mm(p, weight) for p in torch.split(rows, n)]), want) for n in LARGE]
            self._large[key] = tuple(n for n, is_same in zip(LARGE, same, strict=True) if is_same)
        return self._large[key]
