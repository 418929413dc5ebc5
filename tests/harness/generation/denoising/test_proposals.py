"""Temperature, nucleus and draws against slow implementations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from openended.harness.generation.denoising.updates import compute_proposal, draw_by_inversion, draw_in_float32
from tests.oracles import denoising as slow

LOGITS = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 9)) * 2).float()


@pytest.mark.parametrize("rule", ["reach", "below"])
@pytest.mark.parametrize("p", [1e-6, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_and_nucleus(temperature, p, rule):
    probs = compute_proposal(LOGITS, temperature, p, rule)
    for row, logits in zip(probs.tolist(), LOGITS.tolist(), strict=True):
        expected = slow.softmax(logits, temperature)
        assert row == pytest.approx(slow.nucleus(expected, p, rule) if p < 1 else expected, abs=1e-12)


def test_the_rule_below_keeps_one_token_fewer():
    kept = {rule: (compute_proposal(LOGITS, 1.0, 0.8, rule) > 0).sum(dim=1) for rule in ("reach", "below")}
    assert torch.equal(kept["below"], (kept["reach"] - 1).clamp_min(1))


def test_temperature_0_is_the_best_token_and_forbidden_tokens_have_no_mass():
    logits = LOGITS.clone()
    logits[:, LOGITS.argmax(dim=1)[0]] = -math.inf
    assert torch.equal(compute_proposal(logits, 0.0).argmax(dim=1), logits.argmax(dim=1))
    assert float(compute_proposal(logits)[:, LOGITS.argmax(dim=1)[0]].max()) == 0


def test_draws_invert_the_cumulative_distribution():
    probs = compute_proposal(LOGITS, 1.0, 0.7).repeat(50, 1)
    uniforms = np.random.default_rng(1).random(len(probs))
    uniforms[:2] = 0.0, 1 - 2**-53
    drawn = draw_by_inversion(probs, torch.from_numpy(uniforms))
    assert drawn.tolist() == [slow.invert(row, u) for row, u in zip(probs.tolist(), uniforms, strict=True)]


def test_draws_in_float32_miss_rare_tokens():
    """A token of probability 1e-9 in 1e8 draws: float32 noise is at most 16.6 above its mode, and cannot lift it."""
    probs = torch.tensor([[1 - 1e-9, 1e-9]])
    most = torch.tensor([[0.5, 1 - 2**-24]], dtype=torch.float32)
    assert int(draw_in_float32(probs, most)) == 0
    fair = torch.tensor([[0.5, 0.5]]).expand(4000, 2)
    uniforms = torch.from_numpy(np.random.default_rng(2).random((4000, 2), dtype=np.float32))
    assert abs(draw_in_float32(fair, uniforms).double().mean() - 0.5) < 0.05
