"""Time generation by vLLM in the process and by the reference backend against vLLM's own sampler.

Both need an environment with vLLM (docs/engines.md); without it the rows are left out. The model has the shape of
GPT-2 (124 million parameters, 50,257 tokens) and random weights.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness.backends.transformers import load_backend
from openended.harness.backends.vllm.backend import VllmBackend
from openended.harness.backends.vllm.spec import VllmSpec
from openended.harness.decoders.base import GenerationRequest, Prompt
from openended.harness.decoders.sampling import Nucleus
from openended.harness.models.spec import ModelSpec
from scripts.benchmarks._work import Benchmark

ROWS, NEW, AT_ONCE = 128, 48, 64


def _write_model() -> str:
    """Write the model's folder, unless it is there; its tokens are the bytes and made-up words."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    folder = Path(tempfile.gettempdir()) / "openended-bench-gpt2"
    if not (folder / "complete.json").is_file():
        config = GPT2Config(bos_token_id=0, eos_token_id=0)
        letters = ["<|endoftext|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
        words = letters + [f"w{i}" for i in range(config.vocab_size - len(letters))]
        tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>").save_pretrained(folder)  # noqa: S106
        torch.manual_seed(0)
        GPT2LMHeadModel(config).save_pretrained(folder)
        (folder / "complete.json").write_text(json.dumps({"vocab_size": config.vocab_size}))
    return str(folder)


def _request() -> GenerationRequest:
    """Prompts of 1 to 50 tokens, whose texts all have the same length."""
    draw = np.random.default_rng(0)
    rows = (tuple(draw.integers(1, 4096, draw.integers(1, 51)).tolist()) for _ in range(ROWS))
    prompts = [Prompt(f"b/{i}", 0, row) for i, row in enumerate(rows)]
    return GenerationRequest(
        prompts=prompts, decoder=Nucleus(p=0.95), seed=0, max_new_tokens=NEW, min_new_tokens=NEW, batch_size=AT_ONCE
    )


def _start_vllm() -> VllmBackend:
    """Start the engine and run a few prompts."""
    backend = VllmBackend(VllmSpec(path=_write_model(), max_num_seqs=AT_ONCE, check_texts=0), "cpu")
    _run_sampler(backend, rows=4)
    return backend


def _run_harness(backend: Any) -> dict[str, float]:  # noqa: ANN401
    tokens: list[int] = []
    backend.generate(_request(), lambda rows: tokens.extend(len(g.token_ids) for g in rows))
    return {"tokens": float(sum(tokens))}


def _run_sampler(backend: VllmBackend, rows: int = ROWS) -> dict[str, float]:
    """Generate with vLLM's own nucleus sampling."""
    from vllm import SamplingParams

    engine, tokens = backend.engine.inner, 0
    params = SamplingParams(temperature=1.0, top_p=0.95, max_tokens=NEW, ignore_eos=True, detokenize=False)
    for i, prompt in enumerate(_request().prompts[:rows]):
        engine.add_request(f"sampler {i}", {"prompt_token_ids": list(prompt.token_ids)}, params)
    while engine.has_unfinished_requests():
        tokens += sum(len(output.outputs[0].token_ids) for output in engine.step() if output.finished)
    return {"tokens": float(tokens)}


def _compare_token_counts(harness: dict[str, float], peer: dict[str, float]) -> str:
    return f"{harness['tokens']:.0f} / {peer['tokens']:.0f} tokens"


_NAME = f"nucleus p=0.95, {ROWS} prompts of 1 to 50 tokens × {NEW} tokens, GPT-2 124 M, {AT_ONCE} at once"
WORKS = (
    [
        Benchmark(
            name=f"{_NAME}, by vLLM in the process", prepare=_start_vllm, harness=_run_harness,
            against="vLLM's own sampler", peer=_run_sampler, at_least=1 / 1.15, agree=_compare_token_counts,
        ),
        Benchmark(
            name=f"{_NAME}, by the reference backend", prepare=lambda: load_backend(ModelSpec(path=_write_model())),
            harness=_run_harness, against="vLLM's own sampler", prepare_peer=_start_vllm, peer=_run_sampler,
            agree=_compare_token_counts,
        ),
    ]
    if importlib.util.find_spec("vllm") is not None
    else []
)  # fmt: skip
