"""One step of each sampler: which positions change, and to what."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from openended.harness.generation.denoising.canvas import Canvas
from openended.harness.generation.denoising.decoders import (
    DenoisingDecoder,
    DiffusionDecoder,
    Duo,
    FirstHitting,
    Llada,
    Mdlm,
    Remdm,
)
from openended.harness.generation.denoising.proposals import draw_by_inversion, draw_in_float32
from openended.harness.generation.denoising.updates import (
    Transition,
    choose_most_confident,
    choose_one,
    compute_law,
    compute_time_input,
    count_revealed,
)

if TYPE_CHECKING:
    from torch import Tensor

_LOGITS = 1 << 23  # numbers of float64 held at once: 64 MiB


def change_independently(canvas: Canvas, step: int, key: int) -> None:
    """Do one step of a sampler with masks whose positions change independently."""
    import torch

    decoder = cast("DiffusionDecoder", canvas.decoder)
    before, _ = decoder.alphas(step)
    is_masked, (_, uniforms) = canvas.masked_positions, canvas.uniforms(key)
    transition = decoder.transition_masked(step, is_masked, canvas.confidence)
    is_exact = decoder.precision == "float64"
    where = is_masked & (uniforms[..., 0] < transition.draw if is_exact else transition.draw > 0)
    again = ~is_masked & (uniforms[..., 0] < transition.noise) & (canvas.confidence > -math.inf)
    if bool(where.any()):
        logits = canvas.read_logits(where, compute_time_input(before))
        gumbel = None if is_exact else canvas.gumbel_uniforms(key, where)
        tokens, probs = [], []
        for part in _split(len(logits), canvas.lm.vocab_size):
            proposal = canvas.propose(logits[part])
            if gumbel is None:
                token = draw_by_inversion(proposal, uniforms[where][part][:, 1])
            else:
                stay = torch.full((len(proposal),), canvas.lm.mask_id, device=proposal.device)
                draw = transition.draw[where][part]
                law = compute_law(Transition(draw, torch.zeros_like(draw)), proposal, stay, proposal.new_zeros(()))
                token = draw_in_float32(law, gumbel[part])
            tokens.append(token)
            probs.append(proposal.gather(1, token[:, None]).squeeze(1))
        _write_drawn(canvas, where, torch.cat(tokens), torch.cat(probs))
    canvas.mask_again(again)


def _write_drawn(canvas: Canvas, where: Tensor, tokens: Tensor, probs: Tensor) -> None:
    """Write the tokens that were drawn; a draw of the mask leaves the position masked."""
    revealed = tokens != canvas.lm.mask_id
    if bool(revealed.any()):
        chosen = where.clone()
        chosen[where] = revealed
        canvas.write_tokens(chosen, tokens[revealed], probs[revealed])


def replace_tokens(canvas: Canvas, step: int, key: int) -> None:
    """Do one step of a uniform-state sampler: every position keeps its token, or gets a proposed or a random one."""
    import torch

    decoder, vocab_size = cast("Duo", canvas.decoder), canvas.lm.vocab_size
    before, _ = decoder.alphas(step)
    _, uniforms = canvas.uniforms(key)
    where = torch.zeros_like(canvas.tokens, dtype=torch.bool)
    where[:, canvas.start : canvas.stop] = True
    logits, old, u = canvas.read_logits(where, compute_time_input(before)), canvas.tokens[where], uniforms[where]
    gumbel = None if decoder.precision == "float64" else canvas.gumbel_uniforms(key, where)
    new, probs = [], []
    for part in _split(len(logits), vocab_size):
        proposal = canvas.propose(logits[part])
        present_prob = proposal.gather(1, old[part][:, None]).squeeze(1)
        transition = decoder.transition_uniform(step, present_prob, vocab_size)
        if gumbel is None:
            token = draw_by_inversion(proposal, u[part][:, 1])
            changes = u[part][:, 0] < transition.draw + transition.noise
            token = torch.where(u[part][:, 0] < transition.draw, token, (u[part][:, 1] * vocab_size).long())
            token = torch.where(changes, token, old[part])
        else:
            noise = proposal.new_full((vocab_size,), 1 / vocab_size)
            token = draw_in_float32(compute_law(transition, proposal, old[part], noise), gumbel[part])
        new.append(token)
        probs.append(proposal.gather(1, token[:, None]).squeeze(1))
    canvas.write_tokens(where, torch.cat(new), torch.cat(probs))


def reveal_one(canvas: Canvas, step: int, key: int) -> None:
    """Reveal one masked position of each row, all equally likely."""
    is_masked, (row_uniforms, uniforms) = canvas.masked_positions, canvas.uniforms(key)
    where = choose_one(is_masked, row_uniforms)
    alpha = step / (canvas.stop - canvas.start)
    tokens, probs = _draw_proposed(canvas, where, uniforms, key, alpha)
    canvas.write_tokens(where, tokens, probs)


def reveal_most_confident(canvas: Canvas, step: int, key: int) -> None:
    """Reveal the most confident positions of the present block."""
    import torch

    decoder = cast("Llada", canvas.decoder)
    length = canvas.stop - canvas.start
    steps = decoder.steps // decoder.count_blocks(length)
    first = canvas.start + step // steps * decoder.block_length
    last = min(first + decoder.block_length, canvas.stop)
    count = count_revealed(last - first, steps, step % steps)
    if not count:
        return
    where, (_, uniforms) = canvas.masked_positions, canvas.uniforms(key)
    where[:, :first] = False
    where[:, last:] = False
    tokens, probs = _draw_proposed(canvas, where, uniforms, key, first / length)
    confidence = torch.full_like(canvas.confidence, -math.inf)
    confidence[where] = probs if decoder.remasking == "low_confidence" else uniforms[where][:, 0]
    chosen = choose_most_confident(confidence, count)
    canvas.write_tokens(chosen, tokens[chosen[where]], probs[chosen[where]])


def _draw_proposed(canvas: Canvas, where: Tensor, uniforms: Tensor, key: int, alpha: float) -> tuple[Tensor, Tensor]:
    """Draw a proposed token at positions; returns the tokens and the model's probability of each."""
    import torch

    logits = canvas.read_logits(where, compute_time_input(alpha))
    gumbel = None if canvas.decoder.precision == "float64" else canvas.gumbel_uniforms(key, where)
    tokens, probs = [], []
    for part in _split(len(logits), canvas.lm.vocab_size):
        proposal = canvas.propose(logits[part])
        u = uniforms[where][part][:, 1]
        token = draw_by_inversion(proposal, u) if gumbel is None else draw_in_float32(proposal, gumbel[part])
        tokens.append(token)
        probs.append(logits[part].double().softmax(dim=-1).gather(1, token[:, None]).squeeze(1))
    return torch.cat(tokens), torch.cat(probs)


def _split(count: int, vocab_size: int) -> Iterator[slice]:
    """Yield the parts of positions whose distributions are held at once."""
    size = max(1, _LOGITS // vocab_size)
    return (slice(first, first + size) for first in range(0, count, size))


STEPS: Mapping[type[DenoisingDecoder], Callable[[Canvas, int, int], None]] = {
    Mdlm: change_independently,
    Remdm: change_independently,
    Duo: replace_tokens,
    FirstHitting: reveal_one,
    Llada: reveal_most_confident,
}
"""Sampler → one step of it: (texts, step of the present block, number of the step for the draws)."""
