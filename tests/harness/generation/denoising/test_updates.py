"""Update rules against slow implementations of the papers' formulas."""

from __future__ import annotations

import math

import pytest
import torch

from openended.harness.core.rng import make_random_stream
from openended.harness.generation.denoising.decoders import Duo, Mdlm, Remdm
from openended.harness.generation.denoising.updates import (
    choose_most_confident,
    choose_one,
    compute_alpha,
    compute_kappa,
    compute_law,
    compute_loop_alpha,
    compute_time_input,
    count_revealed,
    update_uniform,
)
from tests.oracles import denoising as slow

V, MASK = 4, 4
RNG = make_random_stream(0, "updates")
PROPOSAL = torch.from_numpy(RNG.dirichlet([0.5] * V, size=(3, 5)))
MASKED_PROPOSAL = torch.cat([PROPOSAL, torch.zeros(3, 5, 1).double()], dim=2)
IDS = torch.tensor([[4, 4, 4, 4, 4], [0, 4, 2, 4, 3], [0, 1, 2, 3, 3]])
CONFIDENCE = torch.where(IDS == MASK, -math.inf, torch.from_numpy(RNG.random((3, 5))))
TO_MASK = torch.nn.functional.one_hot(torch.tensor(MASK), V + 1).double()


def read_confidence(row: int) -> list[float | None]:
    return [None if value == -math.inf else value for value in CONFIDENCE[row].tolist()]


def assert_laws(law: torch.Tensor, expected: list[list[list[float]]]) -> None:
    torch.testing.assert_close(law, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(law.sum(-1), torch.ones(law.shape[:-1]).double())


@pytest.mark.parametrize("t", [1.0, 0.7, 0.25, 0.01])
@pytest.mark.parametrize("schedule", ["linear", "cosine", "cosine_squared"])
def test_schedules(schedule, t):
    assert compute_alpha(schedule, t) == pytest.approx(slow.alpha(schedule, t), abs=1e-12)
    assert compute_alpha(schedule, 1.0) == 0
    assert compute_alpha(schedule, 0.0) == 1
    assert compute_loop_alpha(t) == pytest.approx(slow.loop_alpha(t))


def test_the_time_input_is_minus_log_alpha():
    assert compute_time_input(0.5) == pytest.approx(math.log(2))
    assert compute_time_input(1.0) == 0
    assert compute_time_input(0.0) == math.inf


@pytest.mark.parametrize("step", [0, 3, 7])
def test_ancestral_steps(step):
    law = compute_law(Mdlm(steps=8).transition_masked(step, IDS == MASK, CONFIDENCE), MASKED_PROPOSAL, IDS, TO_MASK)
    t, s = 1 - step / 8, 1 - (step + 1) / 8
    rows = [
        [slow.ancestral(own, MASK, p, t, s) for own, p in zip(ids, props, strict=True)]
        for ids, props in zip(IDS.tolist(), MASKED_PROPOSAL.tolist(), strict=True)
    ]
    assert_laws(law, rows)


@pytest.mark.parametrize("step", [0, 5, 9])
@pytest.mark.parametrize("eta", [0.02, 0.9])
@pytest.mark.parametrize("strategy", ["cap", "rescale", "conf", "forward_backward", "loop"])
def test_remasking_steps(strategy, eta, step):
    decoder = Remdm(strategy=strategy, eta=eta, steps=10)
    law = compute_law(decoder.transition_masked(step, IDS == MASK, CONFIDENCE), MASKED_PROPOSAL, IDS, TO_MASK)
    t, s = 1 - step / 10, 1 - (step + 1) / 10
    level = slow.loop_alpha if strategy == "loop" else lambda t: slow.alpha("linear", t)
    is_off = strategy == "loop" and not 0.05 < t <= 0.55
    rows = []
    for row in range(3):
        sigmas = [0.0] * 5 if is_off else slow.sigma(strategy, level(t), level(s), eta, read_confidence(row))
        positions = zip(IDS[row].tolist(), MASKED_PROPOSAL[row].tolist(), sigmas, strict=True)
        rows.append([slow.remask(own, MASK, p, level(t), level(s), sigma) for own, p, sigma in positions])
    assert_laws(law, rows)


def test_remasking_keeps_the_share_of_masks():
    for strategy in ("cap", "rescale", "forward_backward", "loop"):
        decoder = Remdm(strategy=strategy, eta=0.3, steps=12)
        for step in range(12):
            before, after = decoder.alphas(step)
            masked = torch.tensor([[True, False]])
            draw, noise = decoder.transition_masked(step, masked, torch.zeros(1, 2))
            share = (1 - before) * (1 - draw[0, 0]) + before * noise[0, 1]
            assert float(share) == pytest.approx(1 - after)


@pytest.mark.parametrize("step", [0, 4, 7])
@pytest.mark.parametrize("mode", ["posterior", "pc", "constant", "cap", "rescale", "remdm"])
def test_uniform_state_steps(mode, step):
    ids, decoder = IDS.clamp(max=V - 1), Duo(mode=mode, eta=0.3, steps=8, schedule="cosine")
    own = PROPOSAL.gather(-1, ids[..., None]).squeeze(-1)
    law = compute_law(decoder.transition_uniform(step, own, V), PROPOSAL, ids, torch.full((V,), 1 / V).double())
    a_t, a_s = (compute_alpha("cosine", 1 - n / 8) for n in (step, step + 1))
    weight = slow.kappa(mode, a_t, a_s, 0.3)
    rows = [
        [slow.mixture(own, p, a_t, a_s, weight) for own, p in zip(row, props, strict=True)]
        for row, props in zip(ids.tolist(), PROPOSAL.tolist(), strict=True)
    ]
    assert_laws(law, rows)


def test_duo_mixes_only_between_its_two_times():
    decoder, own = Duo(mode="pc", steps=10, first=0.8, last=0.3), torch.full((1, 1), 0.5)
    for step in range(10):
        kappa = 0.0 if 0.3 < 1 - step / 10 <= 0.8 else 1.0
        expected = update_uniform(own, V, *decoder.alphas(step), kappa)
        torch.testing.assert_close(decoder.transition_uniform(step, own, V), expected)


def test_the_weight_of_the_posterior_is_one_at_the_end():
    assert compute_kappa("cap", 0.9, 1.0, 0.5) == 1


@pytest.mark.parametrize(("length", "steps"), [(10, 4), (8, 8), (3, 5), (16, 1)])
def test_counts_of_revealed_tokens(length, steps):
    counts = [count_revealed(length, steps, step) for step in range(steps)]
    assert counts == slow.revealed_counts(length, steps)
    assert sum(counts) == length


def test_the_most_confident_positions_and_the_leftmost_of_equal_ones():
    confidence = torch.tensor([[0.5, 0.9, 0.5, 0.1], [-math.inf, 0.2, -math.inf, -math.inf]])
    for count in (1, 2, 3):
        chosen = choose_most_confident(confidence, count)
        for row, values in zip(chosen, confidence.tolist(), strict=True):
            expected = slow.most_confident([None if v == -math.inf else v for v in values], count)
            assert set(row.nonzero().flatten().tolist()) == expected


def test_one_masked_position_all_equally_likely():
    masked = torch.tensor([[True, False, True, True]]).expand(300, -1)
    chosen = choose_one(masked, (torch.arange(300) + 0.5).double() / 300)
    assert chosen.sum(dim=0).tolist() == [100, 0, 100, 100]
    assert not choose_one(torch.zeros(1, 4, dtype=torch.bool), torch.tensor([0.3])).any()
