"""Time generation with models of 120 million parameters, with prompts of one length and of mixed lengths.

The peer is `generate` with left-padded prompts and the same batch size. Weights are random, so a nucleus contains
nearly the whole vocabulary, which is the worst case for sampling. Where texts end at random, one token gets a
probability near 1/24 after any text.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from openended.harness.decoders.base import Decoder, GenerationRequest
from openended.harness.decoders.sampling import Greedy, Nucleus
from openended.harness.generation.generate import Prompt, generate_texts
from openended.harness.models.forward import ForwardRow, Pool, run_forward as forward
from openended.harness.models.transformers import LanguageModel, ModelSpec, TextTokenizer
from scripts.benchmarks._work import Benchmark

MEAN = 24
"""Mean tokens of a text that ends at random."""


class _Numbers:
    """A tokenizer that decodes token ids to their numbers."""

    def decode(self, ids: list[int], **_: Any) -> str:  # noqa: ANN401
        return " ".join(map(str, ids))


@dataclass(frozen=True)
class Size:
    """One row of the table."""

    prompts: int
    shortest: int
    longest: int
    new: int
    slots: int
    samples: int = 1
    ends: bool = False


ONE_LENGTH = Size(prompts=32, shortest=35, longest=35, new=32, slots=32)
MIXED = Size(prompts=256, shortest=1, longest=50, new=128, slots=64, ends=True)
MIXED_WHOLE = Size(prompts=128, shortest=1, longest=50, new=48, slots=64)
SAMPLES = Size(prompts=64, shortest=35, longest=35, new=32, slots=256, samples=4)


def _build_gpt2() -> Any:  # noqa: ANN401
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(GPT2Config())  # the 124-million shape
    model.transformer.ln_f.bias.data.normal_(std=0.1)
    return model, model.transformer.ln_f.bias.data


def _build_llama() -> Any:  # noqa: ANN401
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12,
        num_key_value_heads=12, max_position_embeddings=1024,
    )  # fmt: skip
    model = LlamaForCausalLM(config)  # 120 million
    model.model.embed_tokens.weight.data[:, 0] = 1.0  # a direction that normalization keeps
    model.lm_head.weight.data[:, 0] = 0.0
    constant = torch.zeros(768)
    constant[0] = 1.0
    return model, constant


def _build_model(make: Any, *, ends: bool) -> LanguageModel:  # noqa: ANN401
    """Build a random model; with `ends`, token 0 has a probability near 1/MEAN after any text."""
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    model, direction = make()
    model = model.eval().requires_grad_(requires_grad=False)
    head = model.get_output_embeddings().weight.data
    with torch.inference_mode(mode=False), torch.no_grad():
        ids = torch.randint(1, 10000, (8, 16))
        hidden = model.base_model(ids).last_hidden_state[:, -1]
        others = torch.logsumexp((hidden @ head.t())[:, 1:], -1)
        along = hidden @ direction
        low, high = -1e3, 1e3
        for _ in range(60 if ends else 0):  # the weight of the end token for which its mean probability is 1/MEAN
            middle = (low + high) / 2
            p = torch.sigmoid(along * middle - others).mean()
            low, high = (low, middle) if p > 1 / MEAN else (middle, high)
        head[0] = direction * low if ends else 0.0
    config = model.config
    return LanguageModel(
        model=model,
        tokenizer=TextTokenizer(_Numbers(), 0, byte_level=True),
        device=torch.device("cpu"),
        dtype=torch.float32,
        eos_ids=(0,),
        vocab_size=config.vocab_size,
        context_length=config.max_position_embeddings,
        spec=ModelSpec(path="random"),
    )


def _sample_prompts(size: Size) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(size.shortest, size.longest + 1, (size.prompts,), generator=generator).tolist()
    return [torch.randint(1, 10000, (n,), generator=generator).tolist() for n in lengths]


def _prepare(make: Any, size: Size, decoder: Decoder) -> LanguageModel:  # noqa: ANN401
    lm = _build_model(make, ends=size.ends)
    small = replace(size, prompts=2, new=2, slots=2)
    for run in (_make_harness_run(decoder, small), _make_peer_run(decoder, small)):
        run(lm)
    return lm


def _make_harness_run(decoder: Decoder, size: Size) -> Any:  # noqa: ANN401
    def run(lm: LanguageModel) -> dict[str, float]:
        rows = [Prompt(f"b/{i}", s, tuple(r)) for i, r in enumerate(_sample_prompts(size)) for s in range(size.samples)]
        lengths: list[int] = []
        request = GenerationRequest(
            prompts=rows, decoder=decoder, seed=0, max_new_tokens=size.new, batch_size=size.slots
        )
        generate_texts(lm, request, lambda generated: lengths.extend(len(g.token_ids) for g in generated))
        return {"tokens": float(sum(lengths))}

    return run


def _make_peer_run(decoder: Decoder, size: Size) -> Any:  # noqa: ANN401
    sampled = {"do_sample": True, "top_k": 0, "top_p": getattr(decoder, "p", 1.0)}
    options = sampled if decoder.stochastic else {"do_sample": False}

    def run(lm: LanguageModel) -> dict[str, float]:
        torch.manual_seed(0)
        rows, total = _sample_prompts(size), 0
        each = max(size.slots // size.samples, 1)
        for start in range(0, len(rows), each):
            part = rows[start : start + each]
            width = max(map(len, part))
            generated = lm.model.generate(
                torch.tensor([[0] * (width - len(r)) + r for r in part]),
                attention_mask=torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in part]),
                max_new_tokens=size.new, eos_token_id=0, pad_token_id=0, num_return_sequences=size.samples, **options,
            )[:, width:].tolist()  # fmt: skip
            total += sum(len(lm.decode(row[: row.index(0)] if 0 in row else row).split()) for row in generated)
        return {"tokens": float(total)}

    return run


def _compare_token_counts(harness: dict[str, float], peer: dict[str, float]) -> str:
    return f"{harness['tokens']:.0f} / {peer['tokens']:.0f} tokens"


def _build_work(name: str, make: Any, decoder: Decoder, size: Size, at_least: float) -> Benchmark:  # noqa: ANN401
    lengths = f"{size.shortest} to {size.longest}" if size.shortest < size.longest else f"{size.longest}"
    ends = f", ends at random, mean {MEAN}, limit {size.new}" if size.ends else f" × {size.new} tokens"
    samples = f" × {size.samples} samples" if size.samples > 1 else ""
    prompts = f"{size.prompts} prompts of {lengths} tokens"
    return Benchmark(
        name=f"{name}: {decoder.title}, {prompts}{samples}{ends}, {size.slots} at once",
        prepare=partial(_prepare, make, size, decoder),
        harness=_make_harness_run(decoder, size),
        against="transformers generate",
        peer=_make_peer_run(decoder, size),
        at_least=at_least,
        agree=_compare_token_counts,
    )


TEXTS = 128
"""Texts of the embedding work: 10 to 256 tokens."""


def _sample_texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(10, 257, (TEXTS,), generator=generator).tolist()
    return [torch.randint(1, 10000, (n,), generator=generator).tolist() for n in lengths]


def _embed(lm: LanguageModel) -> dict[str, float]:
    """Compute the last state of the last token, in batches of similar lengths."""
    rows = _sample_texts()
    jobs = [ForwardRow(i, np.array(r), len(r)) for i, r in enumerate(rows)]
    pool = Pool(-1, "last", (1024,))
    forward(lm, jobs, rows=len(rows), pool=pool, nll=None, batch_size=16)
    return {"tokens": float(sum(map(len, rows))), "mean": float(np.abs(pool.vectors[0]).mean())}


def _embed_padded(lm: LanguageModel) -> dict[str, float]:
    """Compute the same in the given order with padding, as public scripts do."""
    rows, generated = _sample_texts(), []
    with torch.inference_mode():
        for start in range(0, len(rows), 16):
            part = rows[start : start + 16]
            width = max(map(len, part))
            mask = torch.tensor([[1] * len(r) + [0] * (width - len(r)) for r in part])
            ids = torch.tensor([r + [0] * (width - len(r)) for r in part])
            states = lm.model.base_model(ids, attention_mask=mask).last_hidden_state
            generated.append(states[torch.arange(len(part)), torch.tensor([len(r) - 1 for r in part])])
    return {"tokens": float(sum(map(len, rows))), "mean": float(torch.cat(generated).abs().mean())}


def _compare_means(harness: dict[str, float], peer: dict[str, float]) -> str:
    return f"≤ {abs(harness['mean'] / peer['mean'] - 1):.0e} relative; {harness['tokens']:.0f} tokens"


GPT2, LLAMA = "GPT-2 124 M", "Llama 120 M"
WORKS = [
    _build_work(GPT2, _build_gpt2, Greedy(), ONE_LENGTH, 1.1),
    _build_work(GPT2, _build_gpt2, Nucleus(), ONE_LENGTH, 1.6),
    _build_work(GPT2, _build_gpt2, Nucleus(), MIXED, 2.5),
    _build_work(GPT2, _build_gpt2, Nucleus(), MIXED_WHOLE, 1.0),
    _build_work(LLAMA, _build_llama, Greedy(), ONE_LENGTH, 1.1),
    _build_work(LLAMA, _build_llama, Nucleus(), ONE_LENGTH, 1.1),
    _build_work(LLAMA, _build_llama, Nucleus(), MIXED, 2.0),
    _build_work(GPT2, _build_gpt2, Nucleus(), SAMPLES, 1.5),
    Benchmark(
        name=f"{GPT2}: embedding, {TEXTS} texts of 10 to 256 tokens",
        prepare=partial(_build_model, _build_gpt2, ends=False),
        harness=_embed,
        against="transformers, padded batches in the order given",
        peer=_embed_padded,
        agree=_compare_means,
    ),
]
