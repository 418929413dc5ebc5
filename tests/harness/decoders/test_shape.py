"""p_less, min_k and xtc: worked by hand, and against their definitions in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from openended.harness.decoders.base import SamplingDecoder
from openended.harness.decoders.q import compute_dense_q, draw_tokens
from openended.harness.decoders.sampling import MinK, PLess, Xtc
from tests.oracles import decoders as oracle


def log(*p: float) -> torch.Tensor:
    return torch.tensor([p], dtype=torch.float64).log().float()


def support(decoder: SamplingDecoder, rows: torch.Tensor) -> list[int]:
    return (compute_dense_q(decoder, rows)[0] > 0).nonzero().squeeze(1).tolist()


def test_p_less_by_hand():
    assert support(PLess(), log(0.5, 0.3, 0.2)) == [0]  # Σp² = 0.38
    assert support(PLess(norm=True), log(0.5, 0.3, 0.2)) == [0, 1, 2]  # (3 · 0.38 - 1) / 2 = 0.07
    assert support(PLess(), log(1.0, 0.0, 0.0)) == [0]
    for size in (2, 3, 7, 50, 4099):
        uniform = torch.zeros(1, size)
        assert len(support(PLess(), uniform)) == size
        assert len(support(PLess(norm=True), uniform)) == size


def test_p_less_keeps_fewer_where_it_is_colder():
    rows = torch.randn(20, 60, generator=torch.Generator().manual_seed(0)) * 2
    sizes = [(compute_dense_q(PLess(temperature=t), rows) > 0).sum(-1) for t in (0.5, 1.0, 2.0)]
    assert (sizes[0] <= sizes[1]).all()
    assert (sizes[1] <= sizes[2]).all()
    assert (compute_dense_q(PLess(), rows) > 0).sum() < (compute_dense_q(PLess(norm=True), rows) > 0).sum()


def test_min_k_by_hand():
    row = torch.tensor([[5.0, 4.5, 4.0, 0.0, -1.0]])  # drops 0.5, 0.5 / 2, 4 / 3, 1 / 4
    assert support(MinK(), row) == [0, 1, 2]
    flat = torch.tensor([[0.3, 0.2, 0.1, 0.0]])  # equal drops: the first counts most; 3 / 0.3 asks for all
    assert support(MinK(tau=0.0), flat) == [0]
    assert support(MinK(tau=0.7), flat) == [0, 1]
    assert support(MinK(), flat) == [0, 1, 2, 3]
    assert support(MinK(tau=0.0), torch.zeros(1, 6)) == list(range(6))  # equal ones stay together
    banned = torch.tensor([[5.0, 4.5, 4.0, 0.0, float("-inf")]])
    assert support(MinK(), banned) == [0, 1, 2], "a forbidden token is no cliff"


def test_min_k_does_not_move_with_temperature():
    rows = torch.randn(50, 80, generator=torch.Generator().manual_seed(2)) * 3
    kept = [compute_dense_q(MinK(tau=20.0, temperature=t), rows) > 0 for t in (0.5, 1.0, 8.0)]
    assert (kept[0] == kept[1]).all()
    assert (kept[1] == kept[2]).all()
    before = compute_dense_q(MinK(tau=20.0, temperature=8.0, temperature_order="before"), rows) > 0
    assert (before.sum(-1) >= kept[1].sum(-1)).all()
    assert before.sum() > kept[1].sum(), "the floor counts in the logits that it sees"


def test_xtc_by_hand():
    row = log(0.6, 0.2, 0.1, 0.1)
    np.testing.assert_allclose(
        compute_dense_q(Xtc(threshold=0.15, probability=1.0), row)[0], [0, 0.5, 0.25, 0.25], atol=1e-6
    )
    np.testing.assert_allclose(
        compute_dense_q(Xtc(threshold=0.15, probability=0.0), row)[0], [0.6, 0.2, 0.1, 0.1], atol=1e-6
    )
    half = [0.3, 0.35, 0.175, 0.175]  # the mean of both
    np.testing.assert_allclose(compute_dense_q(Xtc(threshold=0.15), row)[0], half, atol=1e-6)
    np.testing.assert_allclose(
        compute_dense_q(Xtc(threshold=0.3), row)[0], [0.6, 0.2, 0.1, 0.1], atol=1e-6
    )  # one alone reaches it
    equal = compute_dense_q(Xtc(threshold=0.2, probability=1.0), log(0.25, 0.25, 0.25, 0.25))[0]
    np.testing.assert_allclose(equal, [0, 0, 0, 1], atol=1e-6)  # of equal ones the last stays


@pytest.mark.parametrize("order", ["before", "after"])
def test_xtc_of_probability_zero_applies_the_temperature_once(order):
    row = log(0.6, 0.2, 0.1, 0.1)
    decoder = Xtc(probability=0.0, temperature=0.5, temperature_order=order)
    expected = np.array([36, 4, 1, 1]) / 42
    np.testing.assert_allclose(compute_dense_q(decoder, row)[0], expected, atol=1e-6)
    uniforms = (torch.arange(4200, dtype=torch.float64) + 0.5) / 4200
    tokens, _, _ = draw_tokens(decoder, row.expand(4200, -1).contiguous(), uniforms)
    np.testing.assert_allclose(np.bincount(tokens.numpy()) / 4200, expected, atol=1e-3)


CASES = [
    (PLess(), lambda z: oracle.p_less(z, norm=False)),
    (PLess(norm=True), lambda z: oracle.p_less(z, norm=True)),
    (PLess(temperature=2.0), lambda z: oracle.p_less(z / 2, norm=False)),
    (MinK(), lambda z: oracle.min_k(z, 3.0)),
    (MinK(tau=37.0), lambda z: oracle.min_k(z, 37.0)),
    (MinK(tau=17.0, temperature=2.0, temperature_order="before"), lambda z: oracle.min_k(z / 2, 17.0)),
    (Xtc(threshold=0.04), lambda z: oracle.xtc(z, 0.04, 0.5)),
    (Xtc(threshold=0.01, probability=1.0), lambda z: oracle.xtc(z, 0.01, 1.0)),
    (Xtc(threshold=0.03, probability=0.3, temperature=0.7), lambda z: oracle.xtc(z / 0.7, 0.03, 0.3)),
    (
        Xtc(threshold=0.03, temperature=0.7, temperature_order="after"),
        lambda z: oracle.xtc(z, 0.03, 0.5, temperature=0.7),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("decoder", "by_hand"), CASES, ids=lambda c: getattr(c, "title", ""))
def test_equals_the_definition(decoder, by_hand):
    generator = torch.Generator().manual_seed(5)
    for scale, ties in ((0.2, False), (1.0, False), (3.0, False), (2.0, True)):
        rows = torch.randn(40, 50, generator=generator) * scale
        if ties:
            rows = rows.mul(2).round().div(2)
            rows[:, 9] = float("-inf")
        want = np.stack([by_hand(row) for row in rows.double().numpy()])
        np.testing.assert_allclose(compute_dense_q(decoder, rows), want, atol=3e-6)
