"""Attention over rows of any lengths is each row's own causal attention, on either path."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from openended.harness.generation.kv_cache.batches import plan_prompt_pass
from openended.harness.generation.kv_cache.buffers import KeyValues

LENGTHS = (5, 5, 3, 1)


def kernel(q, k, v, mask):
    causal = mask is None and q.shape[2] > 1
    return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("window", [None, 2])
def test_a_prompt_sees_its_own_positions_and_nothing_else(padded, window):
    torch.manual_seed(0)
    total = sum(LENGTHS)
    q, k, v = (torch.randn(total, 2, 4) for _ in range(3))
    now = plan_prompt_pass(range(4), [tuple(range(n)) for n in LENGTHS], total, torch.device("cpu"))
    made = KeyValues(1, 4, 8, padded=padded).attend(0, q, k, v, now, kernel, window)
    first = 0
    for length in LENGTHS:
        own = slice(first, first + length)
        at = torch.arange(length)
        seen = at[:, None] >= at
        if window is not None:
            seen &= at[:, None] - at < window
        want = scaled_dot_product_attention(*(x[own].transpose(0, 1) for x in (q, k, v)), attn_mask=seen)
        torch.testing.assert_close(made[own], want.transpose(0, 1).reshape(length, -1), atol=1e-6, rtol=1e-5)
        first += length
