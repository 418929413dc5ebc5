"""Which tokens go through a model together, and where each row's last one stands."""

from __future__ import annotations

import torch

from openended.harness.generation.kv_cache.base import round_up_to_tiles
from openended.harness.generation.kv_cache.batches import plan_prompt_pass

PROMPTS = [(1, 2, 3), (4, 5, 6), (7, 8), (9,)]


def test_prompts_of_one_length_are_one_group_and_the_rest_is_filled():
    now = plan_prompt_pass([0, 1, 2, 5], PROMPTS, round_up_to_tiles(9, 4), torch.device("cpu"))
    assert now.ids[:9].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert now.positions[:9].tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 0]
    assert (len(now.ids), now.size, now.steps) == (12, 9, False)
    assert [(g.rows, g.fed, g.length) for g in now.groups] == [((0, 1), 3, 3), ((2,), 2, 2), ((5,), 1, 1)]
    assert now.rows == [0, 1, 2, 5]


def test_the_last_token_of_each_row_is_where_the_next_one_is_read():
    now = plan_prompt_pass([0, 1, 2, 5], PROMPTS, round_up_to_tiles(9, 4), torch.device("cpu"))
    assert now.ids[now.last(4)].tolist() == [3, 6, 8, 9]
    assert len(now.last(8)) == 8


def test_rows_that_are_neighbors_are_a_slice():
    groups = plan_prompt_pass([2, 3, 7], [(1,), (2,), (3,)], 4, torch.device("cpu")).groups
    assert [g.index for g in groups] in ([slice(2, 4), slice(7, 8)], [[2, 3, 7]])
