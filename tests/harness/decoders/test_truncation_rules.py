"""Each truncation rule on rows small enough to be cut by hand, against its definition in NumPy, and on short heads."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from openended.harness.core import SpecError, canonicalize, list_bundled_choices, load_members
from openended.harness.decoders import truncation_rules as rules
from openended.harness.decoders.base import SamplingDecoder
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation, sort_logits
from openended.harness.decoders.q import compute_dense_q, draw_tokens
from openended.harness.decoders.sampling import MinK, Nucleus, PLess, Xtc
from tests.helpers import cases, check_error
from tests.lazy import torch
from tests.oracles import decoders as oracle

# Each truncation rule on rows small enough to be cut by hand, against its definition in NumPy, and on short heads

HALVES = [0.5, 0.25, 0.125, 0.0625, 0.0625]  # surprisals of 1, 2, 3, 4, 4 bits; entropy 1.875 bits
Rule = Callable[[DescendingLogits], Truncation]


def view(*logits: float, head: int | None = None, bits: float | None = None) -> DescendingLogits:
    state = None if bits is None else torch.tensor([[bits]], dtype=torch.float64)
    return sort_logits(torch.tensor([logits]), head, state)


def halves(bits: float | None = None) -> DescendingLogits:
    return view(*(math.log(p) for p in HALVES), bits=bits)


def part(cut: Truncation) -> tuple[int, int | None]:
    return 0 if cut.lo is None else int(cut.lo), None if cut.hi is None else int(cut.hi)


KEPT: dict[str, tuple[Rule, tuple[int, int | None]]] = {
    "all": (rules.keep_all, (0, None)),
    "top_k": (lambda v: rules.top_k(v, 2), (0, 2)),
    "top_k keeps all that equal the k-th": (lambda v: rules.top_k(v, 4), (0, 5)),
    "top_k of more than there are": (lambda v: rules.top_k(v, 9), (0, 5)),
    "nucleus reaches p": (lambda v: rules.nucleus(v, 0.7), (0, 2)),
    "nucleus goes one further": (lambda v: rules.nucleus(v, 0.8), (0, 3)),
    "nucleus cuts between equal ones": (lambda v: rules.nucleus(v, 0.9), (0, 4)),
    "nucleus keeps the best": (lambda v: rules.nucleus(v, 0.01), (0, 1)),
    "nucleus of everything": (lambda v: rules.nucleus(v, 1.0), (0, None)),
    "min_p": (lambda v: rules.min_p(v, 0.24), (0, 3)),
    "min_p 1": (lambda v: rules.min_p(v, 1.0), (0, 1)),
    "min_p 0": (lambda v: rules.min_p(v, 0.0), (0, None)),
    "epsilon": (lambda v: rules.epsilon(v, 0.2), (0, 2)),
    "epsilon keeps equal ones together": (lambda v: rules.epsilon(v, 0.06), (0, 5)),
    "epsilon keeps the best": (lambda v: rules.epsilon(v, 0.9), (0, 1)),
    "eta lowers epsilon by the entropy": (lambda v: rules.eta(v, 0.2), (0, 3)),  # sqrt(0.2) 2^-1.875 = 0.122
    "eta where epsilon is lower": (lambda v: rules.eta(v, 0.01), (0, 5)),
    "eta keeps the best": (lambda v: rules.eta(v, 1.0), (0, 1)),
    "top_h": (lambda v: rules.top_h(v, 0.6, 5), (0, 2)),  # of 1.875 bits 1.125: the terms are 0.5, 0.5, 0.375, …
    "top_h of two candidates": (lambda v: rules.top_h(v, 0.6, 2), (0, 1)),  # 0.39 and 0.53 bits
    "top_h keeps the best": (lambda v: rules.top_h(v, 0.1, 5), (0, 1)),
    "top_h of a head with fewer candidates": (lambda v: rules.top_h(view(*HALVES, head=2), 0.6, 5), (0, 2)),
    "typical may leave the best out": (lambda v: rules.typical(v, 0.2), (1, 2)),
    "typical then takes the next nearest": (lambda v: rules.typical(v, 0.3), (0, 2)),
    "typical goes on on the other side": (lambda v: rules.typical(v, 0.8), (0, 3)),
    "typical of everything": (lambda v: rules.typical(v, 1.0), (0, None)),
    "p_less": (lambda v: rules.p_less(v, norm=False), (0, 1)),  # Σp² = 0.336
    "p_less norm": (lambda v: rules.p_less(v, norm=True), (0, 2)),  # (5 · 0.336 - 1) / 4 = 0.170
    "min_k": (lambda v: rules.min_k(v, 0.0), (0, 1)),  # steps of one bit each: the first counts most
    "min_k keeps what tau asks for": (lambda v: rules.min_k(v, 4.2), (0, 2)),  # a range of 3 bits: 4.2 / 2.08 = 2.02
    "min_k keeps all that equal the last": (lambda v: rules.min_k(v, 8.4), (0, 5)),
    "min_k of more than there are": (lambda v: rules.min_k(v, 99.0), (0, 5)),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_kept(case):
    rule, expected = KEPT[case]
    assert part(rule(halves())) == expected


def test_top_n_sigma_counts_in_deviations_of_the_finite_logits():
    row = view(4.0, 3.0, 0.0, float("-inf"))  # their standard deviation is 2.08
    assert [part(rules.top_n_sigma(row, n))[1] for n in (0.1, 1.0, 2.0, 50.0)] == [1, 2, 3, 3]


@pytest.mark.parametrize(("bits", "kept"), [(0.1, 1), (2.5, 2), (3.5, 3), (4.5, 5)])
def test_the_threshold_of_mirostat_is_in_bits(bits, kept):
    assert part(rules.mirostat_threshold(halves(bits))) == (0, kept)


@cases("s, scale", (1.5, 0.5 / (1 - 50**-0.5)), (0.7, -0.3 / (1 - 50**0.3)), (1.0, 1 / math.log(50)))
def test_mirostat_fits_the_exponent_of_a_zipf_law(s, scale):
    """On exact Zipf rows the fit is exact, whatever the candidates; its limit at s = 1 included."""
    row = [-s * math.log(rank) for rank in range(1, 51)]
    for bits in (1.0, 3.0, 4.0, 4.9):
        expected = min(max(round((scale * 2**bits) ** (1 / s)), 1), 50)
        for candidates in (10, 100):
            assert part(rules.mirostat_top_k(view(*row, bits=bits), candidates)) == (0, expected)


def test_sparsemax_and_entmax_by_hand():
    cut = rules.entmax(view(1.0, 0.5, -1.0), 2.0)  # tau = 0.25
    assert part(cut) == (0, 2)
    torch.testing.assert_close(cut.weights[0, :2], torch.tensor([0.75, 0.25], dtype=torch.float64))
    cut = rules.entmax(view(3.0, 3.0, -9.0), 1.5)
    assert part(cut) == (0, 2)
    torch.testing.assert_close(cut.weights[0, :2], torch.tensor([0.5, 0.5], dtype=torch.float64))
    cut = rules.entmax(view(1.0, 0.6, 0.2), 1.5)  # halved and shifted: roots that sum to 1 when squared
    roots = cut.weights[0].sqrt()
    assert float(cut.weights.sum()) == pytest.approx(1)
    assert (roots[0] - roots[1], roots[1] - roots[2]) == (pytest.approx(0.2), pytest.approx(0.2))


def log(*p: float) -> torch.Tensor:
    return torch.tensor([p], dtype=torch.float64).log().float()


def support(decoder: SamplingDecoder, rows: torch.Tensor) -> list[int]:
    return (compute_dense_q(decoder, rows)[0] > 0).nonzero().squeeze(1).tolist()


@pytest.mark.parametrize("size", [2, 3, 7, 50, 4099])
def test_p_less_keeps_everything_of_a_uniform_row(size):
    for norm in (False, True):
        assert len(support(PLess(norm=norm), torch.zeros(1, size))) == size
    assert support(PLess(), log(1.0, 0.0, 0.0)) == [0]


def test_min_k_by_hand_and_at_any_temperature():
    flat = torch.tensor([[0.3, 0.2, 0.1, 0.0]])  # equal drops: the first counts most; 3 / 0.3 asks for all
    assert support(MinK(tau=0.0), flat) == [0]
    assert support(MinK(tau=0.7), flat) == [0, 1]
    assert support(MinK(), flat) == [0, 1, 2, 3]
    assert support(MinK(tau=0.0), torch.zeros(1, 6)) == list(range(6))  # equal ones stay together
    banned = torch.tensor([[5.0, 4.5, 4.0, 0.0, float("-inf")]])
    assert support(MinK(), banned) == [0, 1, 2], "a forbidden token is no cliff"

    rows = torch.randn(50, 80, generator=torch.Generator().manual_seed(2)) * 3
    kept = [compute_dense_q(MinK(tau=20.0, temperature=t), rows) > 0 for t in (0.5, 1.0, 8.0)]
    assert (kept[0] == kept[1]).all()
    assert (kept[1] == kept[2]).all()
    before = compute_dense_q(MinK(tau=20.0, temperature=8.0, temperature_order="before"), rows) > 0
    assert (before.sum(-1) >= kept[1].sum(-1)).all()
    assert before.sum() > kept[1].sum(), "the floor counts in the logits that it sees"


def test_xtc_by_hand():
    row = log(0.6, 0.2, 0.1, 0.1)
    cut = compute_dense_q(Xtc(threshold=0.15, probability=1.0), row)[0]
    np.testing.assert_allclose(cut, [0, 0.5, 0.25, 0.25], atol=1e-6)
    whole = compute_dense_q(Xtc(threshold=0.15, probability=0.0), row)[0]
    np.testing.assert_allclose(whole, [0.6, 0.2, 0.1, 0.1], atol=1e-6)
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
    (Xtc(threshold=0.03, temperature=0.7, temperature_order="after"), lambda z: oracle.xtc(z, 0.03, 0.5, 0.7)),
]


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


# Decoder specs: each has an option and a reason; an order that makes no difference is no other system


def test_every_decoder_has_an_option_and_a_reason():
    for name, cls in load_members("decoder").items():
        assert name in list_bundled_choices("decoder")
        assert cls.has_q or cls.no_q_reason
        assert isinstance(cls().title, str)


def test_adversarial_takes_the_human_perplexity():
    decoder = load_members("decoder")["adversarial"]()
    assert decoder.needs_human_ppl
    resolved = decoder.set_human_ppl(42.0)
    assert not resolved.needs_human_ppl
    assert resolved.human_ppl == 42.0
    check_error(SpecError, "takes nothing", load_members("decoder")["greedy"]().set_human_ppl, 42.0)


@cases(
    "one, other",
    (Nucleus(temperature_order="after"), Nucleus()),
    (Nucleus(p=1.0, temperature=0.7, temperature_order="after"), Nucleus(p=1.0, temperature=0.7)),
    (MinK(temperature_order="before"), MinK()),
)
def test_an_order_that_makes_no_difference_is_no_other_system(one, other):
    assert (one, one.title) == (other, other.title)
    assert canonicalize(one) == canonicalize(other)
    assert Nucleus(temperature=0.7, temperature_order="after").temperature_order == "after"
