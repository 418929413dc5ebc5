"""Smoothing of cell counts by hand, and what every rule must keep."""

import typing

import numpy as np
import pytest

from openended.metrics._mauve.histograms import Smoothing, smooth
from openended.metrics._mauve.scores import histogram_values, mauve_of_cells

RULES = typing.get_args(Smoothing)
COUNTS = np.array([3, 1, 0, 0])


@pytest.mark.parametrize(
    ("rule", "want"),
    [
        ("none", [0.75, 0.25, 0, 0]),
        ("laplace", [4 / 8, 2 / 8, 1 / 8, 1 / 8]),
        ("kt", [3.5 / 6, 1.5 / 6, 0.5 / 6, 0.5 / 6]),
        ("braess_sauer", [3.75 / 6.75, 2 / 6.75, 0.5 / 6.75, 0.5 / 6.75]),
        # φ(0) = 2, φ(1) = 1, φ(2) = 0, φ(3) = 1. t = 0: (φ(1) + 1) 1 / (4 φ(0)) = .25 each; t = 1 > φ(2): 1 / 4;
        # t = 3 > φ(4): 3 / 4; the sum is 1.5.
        ("good_turing", [0.75 / 1.5, 0.25 / 1.5, 0.25 / 1.5, 0.25 / 1.5]),
    ],
)
def test_shares_by_hand(rule, want):
    np.testing.assert_allclose(smooth(COUNTS / 4, 4, rule), want, rtol=1e-14)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_shares_and_leaves_equal_sides_equal(rule):
    counts = np.array([9, 4, 1, 1, 0, 0, 0])
    shares = smooth(counts / 15, 15, rule)
    assert shares.sum() == pytest.approx(1)
    assert (rule == "none") == (shares == 0).any()
    # More texts: more like the sample.
    near = np.abs(smooth(counts / 15, 15 * 10**6, rule) - counts / 15).max()
    assert near < 1e-5
    cells = np.repeat(np.arange(7), counts)
    same = mauve_of_cells(human=cells, model=cells, num_buckets=7, smoothing=rule)
    assert (same.mauve, same.frontier_integral, same.js, same.mid_point) == pytest.approx((1, 0, 0, 1), abs=1e-12)


def test_the_starred_values_are_those_of_kt():
    human, model = np.repeat([0, 1, 2], [8, 3, 1]), np.repeat([0, 2, 3], [4, 4, 4])
    plain = mauve_of_cells(human=human, model=model, num_buckets=4)
    kt = mauve_of_cells(human=human, model=model, num_buckets=4, smoothing="kt")
    assert (kt.mauve, kt.frontier_integral) == (plain.mauve_star, plain.frontier_integral_star)
    assert (kt.mauve_star, plain.mauve_star > plain.mauve) == (plain.mauve_star, True)
    np.testing.assert_array_equal(kt.human_hist, plain.human_hist)
    # With cells smoothed, nothing is impossible: the divergences between the sides are those of the rule.
    values = histogram_values(kt, 12, 12, [0.5], "kt")
    assert values["kl_human_model"] == histogram_values(plain, 12, 12, [0.5])["kl_human_model"]
    assert values["js"] == kt.js < plain.js


def test_codes_that_hold_no_text_are_left_out_where_asked():
    human, model = np.array([0, 0, 5]), np.array([5, 9, 9])
    every = mauve_of_cells(human=human, model=model, num_buckets=1000)
    seen = mauve_of_cells(human=human, model=model, num_buckets=1000, seen_only=True)
    assert seen.num_buckets == 3
    assert seen.mauve == pytest.approx(every.mauve, abs=1e-12)
    assert seen.mauve_star < every.mauve_star  # 1,000 half counts make any two sides alike
