"""The law of a draw in float32 against the draws themselves, for each value that a rare token's noise can take."""

import numpy as np
import pytest

from openended.harness.generation.denoising import draw_in_float32
from scripts.float32_draws import GRID, compute_entropy, compute_float32_law
from tests.lazy import torch


@pytest.mark.parametrize("q", [2e-8, 6e-8, 3e-7])
def test_a_rare_token_wins_as_often_as_the_law_says(q):
    """The token's noise is k * 2^-24 with probability 2^-24; another token, or the mask, has all other probability."""
    draws, wins = 40_000, 0.0
    rest = torch.from_numpy(np.random.default_rng(0).random((draws, 1), dtype=np.float32))
    probs = torch.tensor([[q, 1 - q]], dtype=torch.float64).expand(draws, 2)
    for k in range(1, int(30 * q / GRID) + 30):
        rare = torch.full((draws, 1), 1 - k * GRID, dtype=torch.float32)
        wins += GRID * float((draw_in_float32(probs, torch.cat([rare, rest], dim=1)) == 0).float().mean())
    assert wins == pytest.approx(GRID / np.expm1(GRID / q), rel=0.05)


def test_more_steps_lose_more_entropy():
    zipf = (1 / np.arange(1, 4097))[None, :]
    zipf /= zipf.sum()
    lost = [
        float((compute_entropy(zipf) - compute_entropy(compute_float32_law(zipf, np.array([1 / steps]))))[0])
        for steps in (1, 64, 1024, 4096)
    ]
    assert lost[0] == pytest.approx(0, abs=1e-3)
    assert lost == sorted(lost)
    assert lost[-1] > 0.2
