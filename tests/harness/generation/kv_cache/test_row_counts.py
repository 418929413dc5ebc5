"""Parts of matrix products in which every row gets the bits that it gets in any other part."""

from __future__ import annotations

import torch

from openended.harness.generation.kv_cache.gpt2 import SAFE, RowSplitter


def test_parts_are_whole_tiles_and_give_one_result():
    products, generator = RowSplitter(), torch.Generator().manual_seed(1)
    weight = torch.randn(768, 96, generator=generator)
    x = torch.randn(700, 768, generator=generator)
    want = torch.cat([torch.mm(part, weight) for part in x.split(4)])
    for rows in range(4, 700, 4):
        sizes = products.parts(rows, weight)
        assert sum(sizes) == rows
        assert all(size % 4 == 0 for size in sizes)
        got = torch.cat([torch.mm(part, weight) for part in x[:rows].split(sizes)])
        assert torch.equal(got, want[:rows])


def test_large_parts_only_where_a_trial_gives_the_same_bits(monkeypatch):
    products, weight = RowSplitter(), torch.randn(8, 8)
    assert products.parts(1000, weight)[:3] == [256, 256, 256]
    real = torch.mm

    def split_sums(a, b):
        return real(a, b) + (1e-7 if len(a) > SAFE else 0)

    monkeypatch.setattr(torch, "mm", split_sums)
    assert max(RowSplitter().parts(1000, weight)) <= SAFE
    assert RowSplitter().parts(68, weight) == [36, 32]
