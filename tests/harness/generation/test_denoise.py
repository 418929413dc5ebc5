"""The samplers themselves, on worlds whose law is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from openended.harness.core.errors import SpecError
from openended.harness.decoders import GenerationRequest, Prompt
from openended.harness.generation.denoising.decoders import DenoisingDecoder, Duo, FirstHitting, Llada, Mdlm, Remdm
from openended.harness.generation.denoising.denoise import STEPS, Canvas, denoise_texts
from scripts.sampler_worlds import (
    SMALL,
    MarkovWorld,
    WorldDenoiser,
    compute_output_law,
    print_samplers,
    total_variation,
)

WORLD = MarkovWorld(vocab_size=3, length=3, seed=1)
SAMPLERS = [
    Mdlm(steps=4),
    Mdlm(steps=4, schedule="cosine", temperature=0.7),
    Mdlm(steps=4, precision="float32"),
    Remdm(steps=4, eta=0.4),
    Remdm(steps=5, strategy="loop", eta=0.4, nucleus_p=1.0),
    Remdm(steps=4, strategy="forward_backward", nucleus_p=1.0),
    Remdm(steps=3, strategy="conf", nucleus_p=1.0),
    Duo(steps=4),
    Duo(steps=4, precision="float32"),
    Duo(steps=4, mode="constant", eta=0.5),
    FirstHitting(),
    Llada(temperature=1.0, steps=3, block_length=3),
    Llada(temperature=1.0, steps=2, block_length=3, remasking="random"),
]


def sample(
    world: MarkovWorld, decoder: DenoisingDecoder, count: int, batch_size: int = 2000, **options: Any
) -> list[tuple[int, ...]]:
    """Texts of the real loop, in the order of their prompts."""
    lm = WorldDenoiser(world, decoder)
    for name, value in options.pop("model", {}).items():
        setattr(lm, name, value)
    rows: dict[int, tuple[int, ...]] = {}
    request = GenerationRequest(
        prompts=options.pop("prompts", [Prompt(f"w/{i}", 0, ()) for i in range(count)]),
        decoder=decoder, seed=3, max_new_tokens=world.length, batch_size=batch_size, **options,
    )  # fmt: skip
    denoise_texts(
        lm, decoder, request, lambda made: rows.update({int(g.example_id[2:]): g.token_ids for g in made}), int
    )
    return [rows[i] for i in sorted(rows)]


@pytest.mark.parametrize("decoder", SAMPLERS, ids=lambda d: f"{d.title} {d.precision}")
def test_texts_follow_the_exact_law(decoder):
    world = SMALL if getattr(decoder, "strategy", "") == "conf" else WORLD
    law, n = compute_output_law(world, decoder), 1000
    assert float(law.sum()) == pytest.approx(1)
    counts = Counter(sample(world, decoder, n))
    expected = {tuple(ids): n * p for ids, p in zip(world.states(masks=False).tolist(), law.tolist(), strict=True)}
    assert set(counts) <= {ids for ids, value in expected.items() if value > 0}
    large = {ids: value for ids, value in expected.items() if value >= 5}
    chi_squared = sum((counts[ids] - value) ** 2 / value for ids, value in large.items())
    # Mean and standard deviation of the distribution: four of the latter above is 1 in 10,000.
    assert chi_squared < len(large) + 4.5 * (2 * len(large)) ** 0.5


def test_first_hitting_is_exact_in_the_large_world():
    world = MarkovWorld()
    assert world.law().shape == (4,) * 6
    assert total_variation(compute_output_law(world, FirstHitting()), world.law()) < 1e-12


def distances(*decoders: DenoisingDecoder) -> list[float]:
    return [total_variation(compute_output_law(WORLD, d), WORLD.law()) for d in decoders]


@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (Mdlm, {}),
        (Mdlm, {"schedule": "cosine"}),
        (Remdm, {"strategy": "cap", "eta": 0.01}),
        (Remdm, {"strategy": "rescale", "eta": 0.05}),
        (Remdm, {"strategy": "forward_backward"}),
        (Duo, {}),
        (Duo, {"mode": "pc"}),
    ],
)
def test_the_error_of_parallel_draws_shrinks_with_the_steps(cls, options):
    options |= {"nucleus_p": 1.0}
    few, more, most = distances(*(cls(steps=steps, **options) for steps in (4, 32, 256)))
    assert few > 3 * more > 6 * most
    assert most < 0.03


def test_one_random_token_a_step_is_the_first_hitting_sampler():
    one, two = distances(*(Llada(temperature=1.0, steps=steps, block_length=3, remasking="random") for steps in (3, 2)))
    assert one < 1e-12 < two


def test_the_most_confident_first_changes_the_law():
    confident, by_confidence = distances(Llada(temperature=1.0, steps=3, block_length=3), Mdlm(steps=256))
    assert confident > 10 * by_confidence


def test_the_table_has_a_line_for_each_sampler_with_the_distance_last(capsys):
    print_samplers((Mdlm(steps=1), FirstHitting()), SMALL)
    head, first, exact = capsys.readouterr().out.splitlines()
    assert head.endswith("total variation")
    assert first.startswith("mdlm steps=1 ")
    assert float(first.split()[-1]) > 0.01 > 1e-12 > float(exact.split()[-1])


@pytest.mark.parametrize("decoder", SAMPLERS, ids=lambda d: f"{d.title} {d.precision}")
def test_texts_do_not_depend_on_the_batch(decoder):
    assert sample(WORLD, decoder, 15, batch_size=1) == sample(WORLD, decoder, 15, batch_size=7)


def test_cached_and_plain_draws_are_the_same_texts_by_fewer_calls():
    for precision in ("float64", "float32"):
        plain, cached = (Mdlm(steps=12, cached=flag, precision=precision) for flag in (False, True))
        assert sample(WORLD, plain, 9) == sample(WORLD, cached, 9)
    calls = {}
    for flag in (False, True):
        decoder = Mdlm(steps=40, cached=flag, precision="float32")
        lm, calls[flag] = WorldDenoiser(WORLD, decoder), []
        lm.denoise = count_calls(lm.denoise, calls[flag])
        request = GenerationRequest(
            prompts=[Prompt("w/0", 0, ())], decoder=decoder, seed=3, max_new_tokens=3, batch_size=1
        )
        denoise_texts(lm, decoder, request, lambda _: None, int)
    assert len(calls[True]) <= 3 < len(calls[False])


def count_calls(denoise: Any, calls: list[Sequence[int]]) -> Any:
    def counted(ids: torch.Tensor, noise_level: float) -> torch.Tensor:
        calls.append(ids.shape)
        return denoise(ids, noise_level)

    return counted


class Recorder(WorldDenoiser):
    """Proposes every token alike, and keeps what it was shown."""

    def __init__(self, decoder: DenoisingDecoder) -> None:
        super().__init__(WORLD, decoder)
        self.shown: list[list[list[int]]] = []

    def denoise(self, ids: torch.Tensor, noise_level: float) -> torch.Tensor:
        self.shown.append(ids.tolist())
        return torch.zeros(*ids.shape, self.vocab_size)


@pytest.mark.parametrize(
    "decoder", [Mdlm(steps=5), Remdm(steps=5, eta=0.9), Duo(steps=5), FirstHitting(), Llada(steps=4, block_length=3)]
)
def test_prompts_and_suffixes_stay_and_batches_have_one_length(decoder):
    lm = Recorder(decoder)
    prompts = [Prompt(f"w/{i}", 0, (2, 1, 0)[: i % 3], suffix_ids=(1,) * (i % 2)) for i in range(8)]
    made = []
    request = GenerationRequest(prompts=prompts, decoder=decoder, seed=0, max_new_tokens=4, batch_size=3)
    denoise_texts(lm, decoder, request, made.extend, int)
    assert sorted(g.example_id for g in made) == [p.example_id for p in prompts]
    frozen = {(len(p.token_ids) + 4 + len(p.suffix_ids), p.token_ids, p.suffix_ids) for p in prompts}
    for batch in lm.shown:
        for ids in batch:
            assert any(
                n == len(ids) and tuple(ids[: len(a)]) == a and tuple(ids[n - len(b) :]) == b for n, a, b in frozen
            )
    for generation in made:
        assert len(generation.token_ids) == 4
        assert all(0 <= token < 3 for token in generation.token_ids)


@pytest.mark.parametrize("decoder", [Mdlm(steps=5), Remdm(steps=5, eta=0.9), Duo(steps=5), FirstHitting()])
def test_a_model_with_blocks_sees_none_that_comes_later(decoder):
    lm = Recorder(decoder)
    lm.block_size = 2
    request = GenerationRequest(
        prompts=[Prompt("w/0", 0, (1,))], decoder=decoder, seed=0, max_new_tokens=5, batch_size=1
    )
    made = []
    denoise_texts(lm, decoder, request, made.extend, int)
    lengths = [len(batch[0]) for batch in lm.shown]
    assert lengths == sorted(lengths)
    assert set(lengths) == {3, 5, 6}
    for batch in lm.shown:  # finished blocks stay as they are
        finished = (len(batch[0]) - 1 - 1) // 2 * 2
        assert batch[0][1 : 1 + finished] == list(made[0].token_ids[:finished])


def test_a_text_ends_at_its_first_end_token_unless_it_goes_on():
    texts = sample(WORLD, Mdlm(steps=2), 40, model={"eos_ids": (0,)})
    whole = sample(WORLD, Mdlm(steps=2), 40, model={"eos_ids": (0,)}, continue_after_end=True)
    assert texts == [ids[: ids.index(0)] if 0 in ids else ids for ids in whole]
    assert {len(ids) for ids in texts} > {3}


@pytest.mark.parametrize("decoder", [Mdlm(steps=2), Duo(steps=3), Llada(steps=3, block_length=3, temperature=1.0)])
def test_no_end_token_comes_before_the_least_length(decoder):
    texts = sample(WORLD, decoder, 60, model={"eos_ids": (0,)}, min_new_tokens=2)
    assert {len(ids) for ids in texts} == {2, 3}


def test_a_text_beyond_the_context_is_refused():
    with pytest.raises(SpecError, match="max_new_tokens=3: with its prompt, example w/0 has 3 tokens, the model 2"):
        sample(WORLD, Mdlm(steps=2), 1, model={"context_length": 2})


def test_every_sampler_has_a_step():
    assert set(STEPS) == {type(decoder) for decoder in SAMPLERS}


def test_draws_are_keyed_by_row_step_and_position():
    decoder = Mdlm(steps=2)
    lm = WorldDenoiser(WORLD, decoder)
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
