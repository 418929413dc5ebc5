from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from openended.harness.core.errors import SpecError, UndefinedMetric
from openended.harness.core.types import NextToken, Ragged
from openended.metrics.rep_l import RepL, distance_back, rep_l
from tests.metrics.teacher_helpers import SEEDS, run
from tests.oracles import language_model as slow


def stats(best, gold, context=(), offsets=None):
    n = len(gold)
    ends = np.array(offsets or [0, n], dtype=np.int64)
    rows = [list(context)] * (len(ends) - 1)
    return NextToken(
        ends, np.full(n, 0.5), np.full(n, 0.5), np.full(n, 2), np.array(best, dtype=np.int64), np.array(gold, dtype=np.int64),
        Ragged.from_rows(rows, np.int64), vocab_size=10,
    )  # fmt: skip


def test_hand_value():
    # prompt 1 2; gold 3 1 3; best 1 2 3. l = 1: before the positions stand {2} {3} {1}: 1, 2, 3 → 0 of 3.
    # l = 2: {1 2} {2 3} {3 1}: 1 yes, 2 yes, 3 yes → 3 of 3; the last is the true token → wrep 2 of 3.
    # human: l = 2: 3 in {1 2} no, 1 in {2 3} no, 3 in {3 1} yes → 1 of 3.
    s = stats([1, 2, 3], [3, 1, 3], [1, 2])
    assert rep_l(s, lengths=(1,)) == {"rep_l": 0.0, "wrep_l": 0.0, "human_rep_l": 0.0}
    assert rep_l(s, lengths=(2,)) == pytest.approx({"rep_l": 1.0, "wrep_l": 2 / 3, "human_rep_l": 1 / 3})
    assert rep_l(s, lengths=(1, 2)) == pytest.approx({"rep_l": 0.5, "wrep_l": 1 / 3, "human_rep_l": 1 / 6})


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_equals_the_oracle(seed):
    g = np.random.default_rng(seed)
    n, length = int(g.integers(1, 30)), int(g.integers(1, 12))
    best, gold, context = g.integers(0, 8, n).tolist(), g.integers(0, 8, n).tolist(), g.integers(0, 8, 3).tolist()
    got = rep_l(stats(best, gold, context), lengths=(length,))
    assert got["rep_l"] == pytest.approx(slow.rep(best, gold, context, length, wrong=False), abs=1e-15)
    assert got["wrep_l"] == pytest.approx(slow.rep(best, gold, context, length, wrong=True), abs=1e-15)
    assert got["human_rep_l"] == pytest.approx(slow.rep(gold, gold, context, length, wrong=False), abs=1e-15)


def test_meaning():
    assert rep_l(stats([1] * 9, [1] * 9, [1]))["rep_l"] == 1.0  # says the last token again
    assert rep_l(stats([1] * 9, [1] * 9, [1]))["wrep_l"] == 0.0  # and is right
    assert rep_l(stats(range(10, 19), range(9)))["rep_l"] == 0.0
    values = [rep_l(stats([0, 1, 0, 2], [0, 1, 2, 3]), lengths=(length,))["rep_l"] for length in (1, 2, 3, 4)]
    assert values == sorted(values)


def test_rows_do_not_see_each_other():
    result = run(RepL(lengths=(16,)), stats([5, 5, 5, 5], [5, 6, 7, 8], offsets=[0, 2, 4]))
    assert result.per_example["rep_l"].tolist() == [0.5, 0.0]


def test_edges():
    with pytest.raises(SpecError, match="lengths"):
        RepL(lengths=())
    with pytest.raises(SpecError, match="lengths"):
        RepL(lengths=(0,))
    with pytest.raises(UndefinedMetric, match="no human token"):
        run(RepL(), stats([], []))
    one = distance_back(np.array([3]), np.array([3]), np.array([0, 1]), Ragged.from_rows([[]], np.int64))
    assert one[0] == np.iinfo(np.int64).max
