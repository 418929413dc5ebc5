"""Q from listed tokens, by hand: kept tokens, their shares, and whether the list decides."""

from __future__ import annotations

import math

import numpy as np
import pytest

from openended.harness.backends.openai.listed_q import compute_listed_q
from openended.harness.backends.openai.replies import Listing
from openended.harness.decoders.sampling import Ancestral, Epsilon, Greedy, MinP, Nucleus, TopK

# Half, a fifth and a tenth are listed; a fifth of the mass is not.
LISTED = Listing(("a", "b", "c"), np.log([0.5, 0.2, 0.1]))


@pytest.mark.parametrize(
    ("decoder", "tokens", "q", "after"),
    [
        (Greedy(), ["a"], [1.0], "b"),
        (TopK(k=2), ["a", "b"], [5 / 7, 2 / 7], "c"),
        (TopK(k=3), ["a", "b", "c"], [5 / 8, 2 / 8, 1 / 8], None),
        (Nucleus(p=0.6), ["a", "b"], [5 / 7, 2 / 7], "c"),
        (Nucleus(p=0.75), ["a", "b", "c"], [5 / 8, 2 / 8, 1 / 8], None),
        (MinP(p=0.3), ["a", "b"], [5 / 7, 2 / 7], "c"),
        (Epsilon(eps=0.15), ["a", "b"], [5 / 7, 2 / 7], "c"),
        # 0.5² : 0.2² = 25 : 4
        (TopK(k=2, temperature=0.5), ["a", "b"], [25 / 29, 4 / 29], "c"),
        (Nucleus(p=0.6, temperature=0.5, temperature_order="after"), ["a", "b"], [25 / 29, 4 / 29], "c"),
    ],
)
def test_what_the_list_decides(decoder, tokens, q, after):
    head = compute_listed_q(decoder, LISTED, 100)
    assert head.decided
    assert list(head.tokens) == tokens
    np.testing.assert_allclose(head.q, q)
    assert (head.next, head.share) == (after, (1.0, 1.0))


def test_what_it_does_not_decide_has_bounds():
    # Two more of at most 0.1 each: 0.8 of 0.8 to 1.0.
    made = compute_listed_q(TopK(k=5), LISTED, 100)
    assert not made.decided
    assert made.share == pytest.approx((0.8, 1.0))
    # A nucleus of 0.9 holds 0.9 to 1.0.
    made = compute_listed_q(Nucleus(p=0.9), LISTED, 100)
    assert not made.decided
    assert made.share == pytest.approx((0.8, 0.8 / 0.9))
    assert not compute_listed_q(MinP(p=0.1), LISTED, 100).decided
    assert not compute_listed_q(Epsilon(eps=0.05), LISTED, 100).decided
    assert compute_listed_q(Ancestral(), LISTED, 100).share == pytest.approx((0.8, 0.8))


def test_a_temperature_before_the_cut_is_decided_where_both_bounds_agree():
    """Listed at T = 1/2: .25, .04, .01; 97 others add 0 to .97: the best holds .20 to .83 of the mass."""
    assert not compute_listed_q(Nucleus(p=0.5, temperature=0.5), LISTED, 100).decided
    made = compute_listed_q(Nucleus(p=0.15, temperature=0.5), LISTED, 100)
    assert made.decided
    assert made.tokens == ("a",)


def test_a_forbidden_token_gives_its_mass_to_the_others():
    """Without `a` the listed 0.2 and 0.1 are 0.4 and 0.2 of the rest."""
    made = compute_listed_q(Nucleus(p=0.5), LISTED, 100, banned=["a"])
    assert made.decided
    assert made.tokens == ("b", "c")
    np.testing.assert_allclose(made.q, [2 / 3, 1 / 3])
    # One that is not listed has at most 0.1: the best is 0.5 to 0.56 of the rest.
    assert not compute_listed_q(Nucleus(p=0.52), LISTED, 100, banned=["z"]).decided
    assert compute_listed_q(Nucleus(p=0.45), LISTED, 100, banned=["z"]).tokens == ("a",)
    assert math.isclose(LISTED.mass, 0.8)
