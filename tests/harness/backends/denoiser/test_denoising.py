"""Samplers of diffusion models: update rules, proposals and draws, options, and the loop that fills texts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from openended.harness.backends.denoiser import denoising
from openended.harness.backends.denoiser.denoising_loop import STEPS, Canvas, denoise_texts
from openended.harness.core import SpecError, make_random_stream
from openended.harness.decoders import GenerationRequest, Prompt
from tests.helpers import ROOT, cases, check_error
from tests.lazy import sampler_laws, torch
from tests.oracles import denoising as slow

V, MASK = 4, 4
RNG = make_random_stream(0, "updates")
PROPOSAL = RNG.dirichlet([0.5] * V, size=(3, 5))
MASKED_PROPOSAL = np.concatenate([PROPOSAL, np.zeros((3, 5, 1))], axis=2)
IDS = np.array([[4, 4, 4, 4, 4], [0, 4, 2, 4, 3], [0, 1, 2, 3, 3]])
CONFIDENCE = np.where(IDS == MASK, -math.inf, RNG.random((3, 5)))


def masked_law(decoder: denoising.DenoisingDecoder, step: int) -> torch.Tensor:
    """The law of the next tokens where the model proposes `MASKED_PROPOSAL` for `IDS`."""
    ids, confidence, proposal = map(torch.from_numpy, (IDS, CONFIDENCE, MASKED_PROPOSAL))
    to_mask = torch.nn.functional.one_hot(torch.tensor(MASK), V + 1).double()
    return denoising.compute_law(decoder.transition_masked(step, ids == MASK, confidence), proposal, ids, to_mask)


def assert_laws(law: torch.Tensor, expected: list[list[list[float]]]) -> None:
    torch.testing.assert_close(law, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.testing.assert_close(law.sum(-1), torch.ones(law.shape[:-1]).double())


@pytest.mark.parametrize("t", [1.0, 0.7, 0.25, 0.01])
@pytest.mark.parametrize("schedule", ["linear", "cosine", "cosine_squared"])
def test_schedules(schedule, t):
    assert denoising.compute_alpha(schedule, t) == pytest.approx(slow.alpha(schedule, t), abs=1e-12)
    assert denoising.compute_alpha(schedule, 1.0) == 0
    assert denoising.compute_alpha(schedule, 0.0) == 1
    assert denoising.compute_loop_alpha(t) == pytest.approx(slow.loop_alpha(t))


def test_the_time_input_is_minus_log_alpha():
    assert denoising.compute_time_input(0.5) == pytest.approx(math.log(2))
    assert denoising.compute_time_input(1.0) == 0
    assert denoising.compute_time_input(0.0) == math.inf


@pytest.mark.parametrize("step", [0, 3, 7])
def test_ancestral_steps(step):
    law = masked_law(denoising.Mdlm(steps=8), step)
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
    decoder = denoising.Remdm(strategy=strategy, eta=eta, steps=10)
    law = masked_law(decoder, step)
    t, s = 1 - step / 10, 1 - (step + 1) / 10
    level = slow.loop_alpha if strategy == "loop" else lambda t: slow.alpha("linear", t)
    is_off = strategy == "loop" and not 0.05 < t <= 0.55
    rows = []
    for row in range(3):
        known = [None if value == -math.inf else value for value in CONFIDENCE[row].tolist()]
        sigmas = [0.0] * 5 if is_off else slow.sigma(strategy, level(t), level(s), eta, known)
        positions = zip(IDS[row].tolist(), MASKED_PROPOSAL[row].tolist(), sigmas, strict=True)
        rows.append([slow.remask(own, MASK, p, level(t), level(s), sigma) for own, p, sigma in positions])
    assert_laws(law, rows)


@pytest.mark.parametrize("step", [0, 4, 7])
@pytest.mark.parametrize("mode", ["posterior", "pc", "constant", "cap", "rescale", "remdm"])
def test_uniform_state_steps(mode, step):
    ids, decoder = torch.from_numpy(IDS).clamp(max=V - 1), denoising.Duo(mode=mode, eta=0.3, steps=8, schedule="cosine")
    proposal = torch.from_numpy(PROPOSAL)
    own = proposal.gather(-1, ids[..., None]).squeeze(-1)
    noise = torch.full((V,), 1 / V).double()
    law = denoising.compute_law(decoder.transition_uniform(step, own, V), proposal, ids, noise)
    a_t, a_s = (denoising.compute_alpha("cosine", 1 - n / 8) for n in (step, step + 1))
    weight = slow.kappa(mode, a_t, a_s, 0.3)
    rows = [
        [slow.mixture(own, p, a_t, a_s, weight) for own, p in zip(row, props, strict=True)]
        for row, props in zip(ids.tolist(), PROPOSAL.tolist(), strict=True)
    ]
    assert_laws(law, rows)


def test_duo_mixes_only_between_its_two_times():
    decoder, own = denoising.Duo(mode="pc", steps=10, first=0.8, last=0.3), torch.full((1, 1), 0.5)
    for step in range(10):
        kappa = 0.0 if 0.3 < 1 - step / 10 <= 0.8 else 1.0
        expected = denoising.update_uniform(own, V, *decoder.alphas(step), kappa)
        torch.testing.assert_close(decoder.transition_uniform(step, own, V), expected)

    assert denoising.compute_kappa("cap", 0.9, 1.0, 0.5) == 1


@pytest.mark.parametrize(("length", "steps"), [(10, 4), (8, 8), (3, 5), (16, 1)])
def test_counts_of_revealed_tokens(length, steps):
    counts = [denoising.count_revealed(length, steps, step) for step in range(steps)]
    assert counts == slow.revealed_counts(length, steps)
    assert sum(counts) == length


def test_the_most_confident_positions_and_the_leftmost_of_equal_ones():
    confidence = torch.tensor([[0.5, 0.9, 0.5, 0.1], [-math.inf, 0.2, -math.inf, -math.inf]])
    for count in (1, 2, 3):
        chosen = denoising.choose_most_confident(confidence, count)
        for row, values in zip(chosen, confidence.tolist(), strict=True):
            expected = slow.most_confident([None if v == -math.inf else v for v in values], count)
            assert set(row.nonzero().flatten().tolist()) == expected


def test_one_masked_position_all_equally_likely():
    masked = torch.tensor([[True, False, True, True]]).expand(300, -1)
    chosen = denoising.choose_one(masked, (torch.arange(300) + 0.5).double() / 300)
    assert chosen.sum(dim=0).tolist() == [100, 0, 100, 100]
    assert not denoising.choose_one(torch.zeros(1, 4, dtype=torch.bool), torch.tensor([0.3])).any()


@cache
def six_logits() -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).normal(size=(6, 9)) * 2).float()


@pytest.mark.parametrize("rule", ["reach", "below"])
@pytest.mark.parametrize("p", [1e-6, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_and_nucleus(temperature, p, rule):
    probs = denoising.compute_proposal(six_logits(), temperature, p, rule)
    for row, logits in zip(probs.tolist(), six_logits().tolist(), strict=True):
        expected = slow.softmax(logits, temperature)
        assert row == pytest.approx(slow.nucleus(expected, p, rule) if p < 1 else expected, abs=1e-12)


def test_the_rule_below_temperature_0_and_forbidden_tokens():
    proposals = {rule: denoising.compute_proposal(six_logits(), 1.0, 0.8, rule) for rule in ("reach", "below")}
    kept = {rule: (proposal > 0).sum(dim=1) for rule, proposal in proposals.items()}
    assert torch.equal(kept["below"], (kept["reach"] - 1).clamp_min(1))

    logits = six_logits().clone()
    logits[:, six_logits().argmax(dim=1)[0]] = -math.inf
    assert torch.equal(denoising.compute_proposal(logits, 0.0).argmax(dim=1), logits.argmax(dim=1))
    assert float(denoising.compute_proposal(logits)[:, six_logits().argmax(dim=1)[0]].max()) == 0


def test_draws_invert_the_cumulative_distribution():
    probs = denoising.compute_proposal(six_logits(), 1.0, 0.7).repeat(50, 1)
    uniforms = np.random.default_rng(1).random(len(probs))
    uniforms[:2] = 0.0, 1 - 2**-53
    drawn = denoising.draw_by_inversion(probs, torch.from_numpy(uniforms))
    assert drawn.tolist() == [slow.invert(row, u) for row, u in zip(probs.tolist(), uniforms, strict=True)]


def test_draws_in_float32_miss_rare_tokens():
    """A token of probability 1e-9 in 1e8 draws: float32 noise is at most 16.6 above its mode, and cannot lift it."""
    probs = torch.tensor([[1 - 1e-9, 1e-9]])
    most = torch.tensor([[0.5, 1 - 2**-24]], dtype=torch.float32)
    assert int(denoising.draw_in_float32(probs, most)) == 0
    fair = torch.tensor([[0.5, 0.5]]).expand(4000, 2)
    uniforms = torch.from_numpy(np.random.default_rng(2).random((4000, 2), dtype=np.float32))
    assert abs(denoising.draw_in_float32(fair, uniforms).double().mean() - 0.5) < 0.05


def test_lengths_and_blocks_are_checked_before_a_model_loads():
    denoising.Mdlm().check_context_length(64, 64, 0)  # no start token is needed
    with pytest.raises(SpecError, match=r"max_new_tokens=60 after a prompt of 5 tokens.*64 positions; at most 59"):
        denoising.FirstHitting().check_context_length(64, 60, 5)
    check_error(SpecError, r"max_new_tokens: expected at least 1", denoising.Mdlm().check_context_length, 64, 0, 0)
    denoising.Llada(steps=12, block_length=10).check_context_length(None, 25, 0)
    with pytest.raises(SpecError, match=r"llada.steps: expected a multiple of the 3 blocks of 10, got 10"):
        denoising.Llada(steps=10, block_length=10).check_context_length(None, 25, 0)


@cache
def small_world() -> sampler_laws.MarkovWorld:
    return sampler_laws.MarkovWorld(vocab_size=3, length=3, seed=1)


SAMPLERS = [
    denoising.Mdlm(steps=4), denoising.Mdlm(steps=4, schedule="cosine", temperature=0.7),
    denoising.Mdlm(steps=4, precision="float32"), denoising.Remdm(steps=4, eta=0.4),
    denoising.Remdm(steps=5, strategy="loop", eta=0.4, nucleus_p=1.0),
    denoising.Remdm(steps=4, strategy="forward_backward", nucleus_p=1.0),
    denoising.Remdm(steps=3, strategy="conf", nucleus_p=1.0), denoising.Duo(steps=4),
    denoising.Duo(steps=4, precision="float32"), denoising.Duo(steps=4, mode="constant", eta=0.5),
    denoising.FirstHitting(), denoising.Llada(temperature=1.0, steps=3, block_length=3),
    denoising.Llada(temperature=1.0, steps=2, block_length=3, remasking="random"),
]  # fmt: skip


def fill(lm, decoder, prompts, **options):
    """Texts of the real loop, in the order of their prompts."""
    made = []
    request = GenerationRequest(prompts=prompts, decoder=decoder, **({"seed": 3, "max_new_tokens": 3} | options))
    denoise_texts(lm, request, made.extend, int)
    return sorted(made, key=lambda g: int(g.example_id[2:]))


def sample(world, decoder, count, batch_size=2000, **options):
    """Token ids of the texts of a world."""
    lm = sampler_laws.WorldDenoiser(world, decoder)
    for name, value in options.pop("model", {}).items():
        setattr(lm, name, value)
    prompts = options.pop("prompts", [Prompt(f"w/{i}", 0, ()) for i in range(count)])
    texts = fill(lm, decoder, prompts, max_new_tokens=world.length, batch_size=batch_size, **options)
    return [g.token_ids for g in texts]


@pytest.mark.parametrize("decoder", SAMPLERS, ids=lambda d: f"{d.title} {d.precision}")
def test_texts_follow_the_exact_law(decoder):
    world = sampler_laws.SMALL_WORLD if getattr(decoder, "strategy", "") == "conf" else small_world()
    law, n = sampler_laws.compute_output_law(world, decoder), 1000
    assert float(law.sum()) == pytest.approx(1)
    counts = Counter(sample(world, decoder, n))
    expected = {tuple(ids): n * p for ids, p in zip(world.states(masks=False).tolist(), law.tolist(), strict=True)}
    assert set(counts) <= {ids for ids, value in expected.items() if value > 0}
    large = {ids: value for ids, value in expected.items() if value >= 5}
    chi_squared = sum((counts[ids] - value) ** 2 / value for ids, value in large.items())
    # Mean and standard deviation of the distribution: four of the latter above is 1 in 10,000.
    assert chi_squared < len(large) + 4.5 * (2 * len(large)) ** 0.5


@pytest.mark.long
def test_the_page_has_the_distance_of_every_sampler():
    lines = (ROOT / "docs/denoisers.md").read_text(encoding="utf-8").splitlines()
    assert {*map(sampler_laws.format_distance, sampler_laws.SAMPLERS)} <= {*lines}


@pytest.mark.parametrize("decoder", SAMPLERS, ids=lambda d: f"{d.title} {d.precision}")
def test_texts_do_not_depend_on_the_batch(decoder):
    assert sample(small_world(), decoder, 15, batch_size=1) == sample(small_world(), decoder, 15, batch_size=7)


def test_cached_and_plain_draws_are_the_same_texts_by_fewer_calls():
    for precision in ("float64", "float32"):
        plain, cached = (denoising.Mdlm(steps=12, cached=flag, precision=precision) for flag in (False, True))
        assert sample(small_world(), plain, 9) == sample(small_world(), cached, 9)
    calls = {}
    for flag in (False, True):
        decoder = denoising.Mdlm(steps=40, cached=flag, precision="float32")
        lm, calls[flag] = sampler_laws.WorldDenoiser(small_world(), decoder), []
        lm.denoise = count_calls(lm.denoise, calls[flag])
        fill(lm, decoder, [Prompt("w/0", 0, ())], batch_size=1)
    assert len(calls[True]) <= 3 < len(calls[False])


def count_calls(denoise: Any, calls: list[Sequence[int]]) -> Any:
    def counted(ids: torch.Tensor, noise_level: float) -> torch.Tensor:
        calls.append(ids.shape)
        return denoise(ids, noise_level)

    return counted


def record(decoder: denoising.DenoisingDecoder) -> Any:
    """A model that proposes every token alike, and keeps what it was shown."""
    lm = sampler_laws.WorldDenoiser(small_world(), decoder)
    lm.shown = []

    def denoise(ids: torch.Tensor, noise_level: float) -> torch.Tensor:
        lm.shown.append(ids.tolist())
        return torch.zeros(*ids.shape, lm.vocab_size)

    lm.denoise = denoise
    return lm


@cases(
    "decoder",
    denoising.Mdlm(steps=5), denoising.Remdm(steps=5, eta=0.9), denoising.Duo(steps=5), denoising.FirstHitting(),
    denoising.Llada(steps=4, block_length=3),
)  # fmt: skip
def test_prompts_and_suffixes_stay_and_batches_have_one_length(decoder):
    lm = record(decoder)
    prompts = [Prompt(f"w/{i}", 0, (2, 1, 0)[: i % 3], suffix_ids=(1,) * (i % 2)) for i in range(8)]
    made = fill(lm, decoder, prompts, seed=0, max_new_tokens=4, batch_size=3)
    assert [g.example_id for g in made] == [p.example_id for p in prompts]
    frozen = {(len(p.token_ids) + 4 + len(p.suffix_ids), p.token_ids, p.suffix_ids) for p in prompts}
    for batch in lm.shown:
        for ids in batch:
            ends = ((len(ids), tuple(ids[: len(a)]), tuple(ids[n - len(b) :])) == (n, a, b) for n, a, b in frozen)
            assert any(ends)
    for generation in made:
        assert len(generation.token_ids) == 4
        assert all(0 <= token < 3 for token in generation.token_ids)


@pytest.mark.parametrize(
    "decoder",
    [denoising.Mdlm(steps=5), denoising.Remdm(steps=5, eta=0.9), denoising.Duo(steps=5), denoising.FirstHitting()],
)
def test_a_model_with_blocks_sees_none_that_comes_later(decoder):
    lm = record(decoder)
    lm.block_size = 2
    made = fill(lm, decoder, [Prompt("w/0", 0, (1,))], seed=0, max_new_tokens=5, batch_size=1)
    lengths = [len(batch[0]) for batch in lm.shown]
    assert lengths == sorted(lengths)
    assert set(lengths) == {3, 5, 6}
    for batch in lm.shown:  # finished blocks stay as they are
        finished = (len(batch[0]) - 1 - 1) // 2 * 2
        assert batch[0][1 : 1 + finished] == list(made[0].token_ids[:finished])


def test_a_text_ends_at_its_first_end_token_unless_it_goes_on():
    texts = sample(small_world(), denoising.Mdlm(steps=2), 40, model={"eos_ids": (0,)})
    whole = sample(small_world(), denoising.Mdlm(steps=2), 40, model={"eos_ids": (0,)}, continue_after_end=True)
    assert texts == [ids[: ids.index(0)] if 0 in ids else ids for ids in whole]
    assert {len(ids) for ids in texts} > {3}


@pytest.mark.parametrize(
    "decoder",
    [denoising.Mdlm(steps=2), denoising.Duo(steps=3), denoising.Llada(steps=3, block_length=3, temperature=1.0)],
)
def test_no_end_token_comes_before_the_least_length(decoder):
    texts = sample(small_world(), decoder, 60, model={"eos_ids": (0,)}, min_new_tokens=2)
    assert {len(ids) for ids in texts} == {2, 3}


def test_a_text_beyond_the_context_is_refused():
    with pytest.raises(SpecError, match="max_new_tokens=3: with its prompt, example w/0 has 3 tokens, the model 2"):
        sample(small_world(), denoising.Mdlm(steps=2), 1, model={"context_length": 2})


def test_every_sampler_has_a_step():
    assert set(STEPS) == {type(decoder) for decoder in SAMPLERS}


def test_draws_are_keyed_by_row_step_and_position():
    decoder = denoising.Mdlm(steps=2)
    lm = sampler_laws.WorldDenoiser(small_world(), decoder)
    prompts = [Prompt("w/0", 0, ()), Prompt("w/0", 1, ()), Prompt("w/1", 0, ())]
    request = GenerationRequest(prompts=prompts, decoder=decoder, seed=3, max_new_tokens=3, batch_size=3)
    canvas = Canvas(lm, decoder, prompts, request)
    longer = Canvas(lm, decoder, prompts[::-1], replace(request, max_new_tokens=5))
    (rows, positions), (other_rows, other_positions) = canvas.uniforms(1), longer.uniforms(1)
    assert torch.equal(rows, other_rows.flip(0))
    assert torch.equal(positions, other_positions.flip(0)[:, :3])
    values = torch.cat([value.flatten() for step in range(4) for value in canvas.uniforms(step)])
    assert len(values.unique()) == len(values)
    where = torch.zeros(3, 3, dtype=torch.bool)
    where[1, 2] = True
    single = canvas.gumbel_uniforms(0, where)
    assert torch.equal(single, canvas.gumbel_uniforms(0, torch.ones_like(where))[5:6])
    # Raise the version of the stage, and this text, when the draws of a seed change.
    assert sample(small_world(), denoising.Mdlm(steps=4), 6) == [
        (0, 1, 0), (2, 1, 0), (1, 1, 1), (0, 0, 1), (2, 1, 1), (0, 2, 0)
    ]  # fmt: skip
