"""The loop of all samplers of diffusion models: batches of texts whose positions are filled step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, cast

from openended.harness.core import Advance, SpecError
from openended.harness.decoders import Emit, GenerationRequest, Prompt
from openended.harness.generation.denoising.canvas import Canvas, Denoiser
from openended.harness.generation.denoising.decoders import DenoisingDecoder
from openended.harness.generation.denoising.steps import STEPS
from openended.harness.generation.token_loop import build_generation


def denoise_texts(
    lm: Any,  # noqa: ANN401 - a `Denoiser`; decoders are typed for causal models
    decoder: DenoisingDecoder,
    request: GenerationRequest,
    emit: Emit,
    advance: Advance,
) -> None:
    """Fill the texts of a request; prompts and suffixes stay as they are."""
    import torch

    lm = cast("Denoiser", lm)
    length = request.max_new_tokens
    do_step = STEPS[type(decoder)]
    with torch.inference_mode():
        for prompts in _iterate_batches(request):
            _check_length(lm, prompts[0], length)
            canvas = Canvas(lm, decoder, prompts, request)
            size, key = lm.block_size or length, 0
            for start in range(0, length, size):
                canvas.open_block(start, min(start + size, length))
                for step in range(decoder.count_steps(canvas.stop - start)):
                    do_step(canvas, step, key)
                    key += 1
                advance(len(prompts) * (canvas.stop - start))
            _emit_texts(canvas, prompts, request, emit)


def _iterate_batches(request: GenerationRequest) -> Iterator[Sequence[Prompt]]:
    """Yield batches of prompts of equal length: a denoiser reads no padding."""

    def lengths(prompt: Prompt) -> tuple[int, int]:
        return len(prompt.token_ids), len(prompt.suffix_ids)

    for _, group in groupby(sorted(request.prompts, key=lengths, reverse=True), key=lengths):
        prompts = list(group)
        for first in range(0, len(prompts), request.batch_size):
            yield prompts[first : first + request.batch_size]


def _check_length(lm: Denoiser, prompt: Prompt, length: int) -> None:
    total = len(prompt.token_ids) + length + len(prompt.suffix_ids)
    if lm.context_length is not None and total > lm.context_length:
        raise SpecError(
            f"max_new_tokens={length}: with its prompt, example {prompt.example_id} has {total} tokens, the model "
            f"{lm.context_length} positions"
        )


def _emit_texts(canvas: Canvas, prompts: Sequence[Prompt], request: GenerationRequest, emit: Emit) -> None:
    """Emit the texts of a batch, each up to its first end token."""
    ends = frozenset(canvas.lm.eos_ids) if not request.continue_after_end else frozenset()
    texts = []
    for prompt, ids in zip(prompts, canvas.tokens.tolist(), strict=True):
        end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        texts.append(build_generation(canvas.lm, prompt, ids[:end], ended=end < len(ids)))
    emit(texts)
