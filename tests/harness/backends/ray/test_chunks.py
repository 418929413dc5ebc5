"""Cutting rows into chunks and putting their answers together: every row once, whole units, and no sequence lost."""

from __future__ import annotations

import numpy as np
import pytest

from openended.harness.backends.ray.chunks import (
    cut_chunks,
    gather_statistics,
    renumber_rows,
    select_rows,
    sort_for_batching,
)
from openended.harness.core.types import NextToken, Ragged
from openended.harness.decoders.base import Prompt
from openended.harness.models.forward import ForwardRow
from tests.helpers import ragged


@pytest.mark.parametrize(
    ("count", "unit", "workers", "most", "sizes"),
    [
        (10, 2, 1, 9, [2, 2, 2, 2, 2]),  # five units among one worker: fewer than two a round, so one each
        (10, 4, 1, 9, [4, 4, 2]),  # the last unit is short
        (100, 1, 2, 99, [12] * 8 + [4]),  # 100 // (2 workers × 4 rounds)
        (100, 1, 2, 5, [5] * 20),  # no chunk costs more than five
        (3, 64, 8, 4, [3]),
        (0, 64, 2, 4, []),
    ],
)
def test_chunks_are_whole_units_and_shared_out_in_rounds(count, unit, workers, most, sizes):
    parts = cut_chunks(count, unit=unit, workers=workers, most=most)
    assert [part.stop - part.start for part in parts] == sizes
    assert [i for part in parts for i in range(count)[part]] == list(range(count))


def test_prompts_wait_longest_first_and_samples_of_a_text_side_by_side():
    prompts = [Prompt("a", 0, (1,)), Prompt("b", 0, (1, 2)), Prompt("c", 0, (3, 4)), Prompt("d", 1, (1, 2))]
    assert [p.example_id for p in sort_for_batching(prompts)] == ["b", "d", "c", "a"]


def test_a_part_of_a_pass_is_a_pass_of_its_own():
    """Row 7 has two windows, of which the first gives its vector; row 2 scores one token, row 4 none."""
    ids = np.arange(6)
    jobs = [
        ForwardRow(7, ids[:4], 1, 10),
        ForwardRow(-1, ids[1:5], 3, 13),
        ForwardRow(2, ids[:2], 1, 5),
        ForwardRow(4, ids[:1], 1, 6),
    ]
    made, rows, places = renumber_rows(jobs)
    assert [(job.row, job.first, job.out) for job in made] == [(0, 1, 0), (-1, 3, 3), (1, 1, 4), (2, 1, 5)]
    assert rows.tolist() == [7, 2, 4]
    assert places.tolist() == [10, 11, 12, 13, 5]


def test_statistics_come_back_to_their_rows():
    continuations = ragged([[5, 6], [], [7], [8, 9, 10]])
    prompts = ragged([[1], [2], [3], [4]])

    def stats(rows: list[int]) -> NextToken:
        part = select_rows(continuations, rows)
        value = part.values * 0.01
        return NextToken(
            part.offsets, value, 2 * value, part.values, part.values, part.values, select_rows(prompts, rows), 99
        )

    whole = gather_statistics([(rows, stats(rows)) for rows in ([3, 2], [0])], prompts, continuations)
    assert whole.gold.tolist() == [5, 6, 7, 8, 9, 10]
    assert whole.sum_sq == pytest.approx(0.02 * np.array([5, 6, 7, 8, 9, 10]))
    assert (whole.offsets.tolist(), whole.vocab_size) == ([0, 2, 2, 3, 6], 99)
    assert [row.tolist() for row in whole.context] == [[1], [2], [3], [4]]


def test_no_row_at_all():
    nothing = Ragged.from_rows([], np.int64)
    empty = NextToken(nothing.offsets, *(np.zeros(0) for _ in range(5)), nothing, 3)
    assert len(gather_statistics([([], empty)], nothing, nothing).gold) == 0
