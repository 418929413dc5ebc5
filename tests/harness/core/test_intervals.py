"""Intervals of shares cover at 0 and 1 too; replicates without variation give no interval."""

from __future__ import annotations

import math

import numpy as np
import pytest

from openended.harness.core.resampling import Plan, Replicates, estimate_interval, wilson_interval

FLAT = Replicates(np.zeros((1, 200)))


@pytest.mark.parametrize(
    ("events", "n", "low", "high"),
    # Brown, Cai and DasGupta's formula by hand: z = 1.95996; 0 of 10: z^2 / (n + z^2) = 3.8415 / 13.8415
    [(0, 10, 0.0, 0.277533), (10, 10, 0.722467, 1.0), (5, 10, 0.236593, 0.763407), (1, 100, 0.001767, 0.054486)],
)
def test_wilson_interval(events, n, low, high):
    made = wilson_interval(events / n, n, FLAT)
    assert (made.low, made.high) == pytest.approx((low, high), abs=2e-6)
    assert made.method == "wilson"


@pytest.mark.parametrize(("p", "n"), [(0.003, 100), (0.02, 100), (0.3, 60), (0.995, 200)])
def test_the_interval_of_a_share_covers_it(p, n):
    """By bootstrap and t alone, 28 % at p = 0.003 and n = 100."""
    plan, ids, held = Plan(200), [f"t/{i}" for i in range(n)], 0
    for world in range(300):
        rows = (np.random.default_rng([7, world]).random(n) < p).astype(np.float64)
        made = estimate_interval(plan.mean(ids, rows), float(rows.mean()), (0.0, math.inf), rows)
        assert made.low < made.high
        held += made.low <= p <= made.high
    assert held / 300 > 0.91


def test_samples_of_a_prompt_count_for_less_than_prompts():
    prompts = np.repeat(np.arange(50), 8)
    ids = [f"t/{i}" for i in prompts]
    rows = np.repeat(np.random.default_rng(0).random(50) < 0.2, 8).astype(np.float64)  # all samples of a prompt agree
    share = float(rows.mean())
    made = estimate_interval(Plan(200).mean(ids, rows), share, rows=rows, prompts=prompts)
    independent = wilson_interval(share, 50, FLAT)
    assert made.high - made.low == pytest.approx(independent.high - independent.low, rel=0.2)
    none = estimate_interval(FLAT, 0.0, rows=np.zeros(400), prompts=prompts)
    assert none.high == pytest.approx(wilson_interval(0.0, 50, FLAT).high), "prompts are counted, not samples"


def test_without_variation_only_a_share_has_an_interval():
    assert estimate_interval(FLAT, 0.0) is None
    same = Replicates(np.full((1, 200), 0.1) + 1e-17)
    assert not same.varies
    assert estimate_interval(same, 0.1, rows=np.full(30, 0.1)) is None
    assert math.isnan(same.p_value(0.1))
    halves = Replicates(np.zeros((2, 100)))
    assert estimate_interval(halves, 0.0, rows=np.zeros(30)) is None, "rows that depend on each other are no share"
