"""Each truncation rule on rows small enough to be cut by hand, and what a rule says of a head that is too short."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from openended.harness.decoders import truncation_rules
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation, sort_logits

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
    "all": (truncation_rules.keep_all, (0, None)),
    "top_k": (lambda v: truncation_rules.top_k(v, 2), (0, 2)),
    "top_k keeps all that equal the k-th": (lambda v: truncation_rules.top_k(v, 4), (0, 5)),
    "top_k of more than there are": (lambda v: truncation_rules.top_k(v, 9), (0, 5)),
    "nucleus reaches p": (lambda v: truncation_rules.nucleus(v, 0.7), (0, 2)),
    "nucleus goes one further": (lambda v: truncation_rules.nucleus(v, 0.8), (0, 3)),
    "nucleus cuts between equal ones": (lambda v: truncation_rules.nucleus(v, 0.9), (0, 4)),
    "nucleus keeps the best": (lambda v: truncation_rules.nucleus(v, 0.01), (0, 1)),
    "nucleus of everything": (lambda v: truncation_rules.nucleus(v, 1.0), (0, None)),
    "min_p": (lambda v: truncation_rules.min_p(v, 0.24), (0, 3)),
    "min_p 1": (lambda v: truncation_rules.min_p(v, 1.0), (0, 1)),
    "min_p 0": (lambda v: truncation_rules.min_p(v, 0.0), (0, None)),
    "epsilon": (lambda v: truncation_rules.epsilon(v, 0.2), (0, 2)),
    "epsilon keeps equal ones together": (lambda v: truncation_rules.epsilon(v, 0.06), (0, 5)),
    "epsilon keeps the best": (lambda v: truncation_rules.epsilon(v, 0.9), (0, 1)),
    "eta lowers epsilon by the entropy": (lambda v: truncation_rules.eta(v, 0.2), (0, 3)),  # sqrt(0.2) 2^-1.875 = 0.122
    "eta where epsilon is lower": (lambda v: truncation_rules.eta(v, 0.01), (0, 5)),
    "eta keeps the best": (lambda v: truncation_rules.eta(v, 1.0), (0, 1)),
    "top_h": (
        lambda v: truncation_rules.top_h(v, 0.6, 5),
        (0, 2),
    ),  # of 1.875 bits 1.125: the terms are 0.5, 0.5, 0.375, …
    "top_h of two candidates": (lambda v: truncation_rules.top_h(v, 0.6, 2), (0, 1)),  # 0.39 and 0.53 bits
    "top_h keeps the best": (lambda v: truncation_rules.top_h(v, 0.1, 5), (0, 1)),
    "typical may leave the best out": (lambda v: truncation_rules.typical(v, 0.2), (1, 2)),
    "typical then takes the next nearest": (lambda v: truncation_rules.typical(v, 0.3), (0, 2)),
    "typical goes on on the other side": (lambda v: truncation_rules.typical(v, 0.8), (0, 3)),
    "typical of everything": (lambda v: truncation_rules.typical(v, 1.0), (0, None)),
    "p_less": (lambda v: truncation_rules.p_less(v, norm=False), (0, 1)),  # Σp² = 0.336
    "p_less norm": (lambda v: truncation_rules.p_less(v, norm=True), (0, 2)),  # (5 · 0.336 - 1) / 4 = 0.170
    "min_k": (lambda v: truncation_rules.min_k(v, 0.0), (0, 1)),  # steps of one bit each: the first counts most
    "min_k keeps what tau asks for": (
        lambda v: truncation_rules.min_k(v, 4.2),
        (0, 2),
    ),  # a range of 3 bits: 4.2 / 2.08 = 2.02
    "min_k keeps all that equal the last": (lambda v: truncation_rules.min_k(v, 8.4), (0, 5)),
    "min_k of more than there are": (lambda v: truncation_rules.min_k(v, 99.0), (0, 5)),
}


@pytest.mark.parametrize("case", KEPT)
def test_what_is_kept(case):
    rule, expected = KEPT[case]
    assert part(rule(halves())) == expected


def test_top_n_sigma_counts_in_deviations_of_the_finite_logits():
    row = view(4.0, 3.0, 0.0, float("-inf"))  # their standard deviation is 2.08
    assert [part(truncation_rules.top_n_sigma(row, n)) for n in (0.1, 1.0, 2.0, 50.0)] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 3),
    ]


@pytest.mark.parametrize(("bits", "kept"), [(0.1, 1), (2.5, 2), (3.5, 3), (4.5, 5)])
def test_the_threshold_of_mirostat_is_in_bits(bits, kept):
    assert part(truncation_rules.mirostat_threshold(halves(bits))) == (0, kept)


@pytest.mark.parametrize(
    ("s", "scale"), [(1.5, 0.5 / (1 - 50**-0.5)), (0.7, -0.3 / (1 - 50**0.3)), (1.0, 1 / math.log(50))]
)
def test_mirostat_fits_the_exponent_of_a_zipf_law(s, scale):
    """On exact Zipf rows the fit is exact, whatever the candidates; its limit at s = 1 included."""
    row = [-s * math.log(rank) for rank in range(1, 51)]
    for bits in (1.0, 3.0, 4.0, 4.9):
        expected = min(max(round((scale * 2**bits) ** (1 / s)), 1), 50)
        for candidates in (10, 100):
            assert part(truncation_rules.mirostat_top_k(view(*row, bits=bits), candidates)) == (0, expected)


def test_sparsemax_and_entmax_by_hand():
    cut = truncation_rules.entmax(view(1.0, 0.5, -1.0), 2.0)  # tau = 0.25
    assert part(cut) == (0, 2)
    torch.testing.assert_close(cut.weights[0, :2], torch.tensor([0.75, 0.25], dtype=torch.float64))
    cut = truncation_rules.entmax(view(3.0, 3.0, -9.0), 1.5)
    assert part(cut) == (0, 2)
    torch.testing.assert_close(cut.weights[0, :2], torch.tensor([0.5, 0.5], dtype=torch.float64))
    cut = truncation_rules.entmax(view(1.0, 0.6, 0.2), 1.5)  # halved and shifted: roots that sum to 1 when squared
    roots = cut.weights[0].sqrt()
    assert float(cut.weights.sum()) == pytest.approx(1)
    assert (roots[0] - roots[1], roots[1] - roots[2]) == (pytest.approx(0.2), pytest.approx(0.2))


HEADS: dict[str, Rule] = {
    "top_k": lambda v: truncation_rules.top_k(v, 2),
    "nucleus": lambda v: truncation_rules.nucleus(v, 0.6),
    "min_p": lambda v: truncation_rules.min_p(v, 0.2),
    "epsilon": lambda v: truncation_rules.epsilon(v, 0.05),
    "eta": lambda v: truncation_rules.eta(v, 0.05),
    "top_n_sigma": lambda v: truncation_rules.top_n_sigma(v, 1.0),
    "typical": lambda v: truncation_rules.typical(v, 0.4),
    "entmax": lambda v: truncation_rules.entmax(v, 1.5),
    "p_less": lambda v: truncation_rules.p_less(v, norm=False),
    "p_less norm": lambda v: truncation_rules.p_less(v, norm=True),
    "min_k": lambda v: truncation_rules.min_k(v, 3.0),
    "min_k of a wide floor": lambda v: truncation_rules.min_k(v, 70.0),
}


@pytest.mark.parametrize("name", HEADS)
def test_a_head_says_what_the_whole_row_says_or_that_it_is_too_short(name):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(200, 40, generator=generator) * 3
    head = 6
    whole, short = (HEADS[name](sort_logits(rows, k)) for k in (None, head))
    decided = short.hi < head
    assert int(decided.sum()) > 0
    assert torch.equal(short.hi[decided], whole.hi[decided])
    assert (short.hi[whole.hi > head] >= head).all(), "a cut beyond the head must not look decided"
    if whole.lo is not None:
        assert torch.equal(short.lo[decided], whole.lo[decided])
