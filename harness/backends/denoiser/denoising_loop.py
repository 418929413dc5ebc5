"""The loop of all samplers of diffusion models; a draw is keyed by seed, example, sample, step and position.

The texts are on the CPU; logits and what is drawn from them are on the model's device, for which the host waits once a
step.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from openended.harness import core
from openended.harness.backends.denoiser import denoising
from openended.harness.decoders import Emit, GenerationRequest, Prompt, forbid_end
from openended.harness.generation import build_generation
from openended.harness.models import describe_broken_weights

if TYPE_CHECKING:
    from openended.harness.backends.denoiser.backend import DenoiserBackend

_LOGITS = 1 << 23  # numbers of float64 held at once: 64 MiB
_LANE, _GUMBEL_LANE = "denoise", "denoise-gumbel"


class Canvas:
    """The texts of a batch while they are filled; all have prompts and suffixes of equal lengths."""

    def __init__(
        self,
        lm: "DenoiserBackend",
        decoder: denoising.DenoisingDecoder,
        prompts: Sequence[Prompt],
        request: GenerationRequest,
    ) -> None:
        self.lm, self.decoder, self._prompts, self._seed = lm, decoder, prompts, request.seed
        self._min_length, length = request.min_new_tokens, request.max_new_tokens
        self._first = len(prompts[0].token_ids)
        rows = [[*p.token_ids, *[max(lm.mask_id, 0)] * length, *p.suffix_ids] for p in prompts]
        self.ids = torch.tensor(rows, dtype=torch.int64)
        """All token ids, those of prompts and suffixes included."""
        shape = (len(prompts), length)
        self.confidence = torch.full(shape, -math.inf, dtype=torch.float64)
        """Probability that each token of the present block had when it was drawn; -inf where there is none."""
        self.start, self.stop = 0, length
        self._known: Tensor | None = None
        if decoder.noise == "uniform":
            _, uniforms = self.uniforms(-1)
            self.tokens.copy_((uniforms[..., 0] * lm.vocab_size).long())

    @property
    def tokens(self) -> Tensor:
        """The token ids that are filled, a view of `ids`."""
        return self.ids[:, self._first : self._first + self.confidence.shape[1]]

    @property
    def masked_positions(self) -> Tensor:
        """Mask of the masked positions in the present block; other positions are False."""
        masked = self.tokens == self.lm.mask_id
        masked[:, : self.start] = False
        masked[:, self.stop :] = False
        return masked

    def open_block(self, start: int, stop: int) -> None:
        """Fill these positions next; those before them are finished."""
        self.start, self.stop = start, stop
        self.confidence[:, :start] = -math.inf
        self._known = None

    def uniforms(self, step: int) -> tuple[Tensor, Tensor]:
        """Return numbers in [0, 1) of a step: one for each row (rows,), two for each position (rows, positions, 2)."""
        count = 1 + 2 * self.confidence.shape[1]
        streams = (core.make_random_stream(self._seed, _LANE, p.example_id, p.sample, step) for p in self._prompts)
        values = self.confidence.new_tensor(np.stack([stream.random(count) for stream in streams]))
        return values[:, 0], values[:, 1:].reshape(*self.confidence.shape, 2)

    def gumbel_uniforms(self, step: int, where: Tensor) -> Tensor:
        """Return float32 numbers in [0, 1) on the model's device, one for each token at each of the positions."""
        values = np.empty((int(where.sum()), self.lm.vocab_size), dtype=np.float32)
        for value, (row, position) in zip(values, where.nonzero().tolist(), strict=True):
            p = self._prompts[row]
            stream = core.make_random_stream(self._seed, _GUMBEL_LANE, p.example_id, p.sample, step, position)
            value[:] = stream.random(self.lm.vocab_size, dtype=np.float32)
        return self.to_device(values)

    def to_device(self, values: Tensor | NDArray[Any]) -> Tensor:
        """Return numbers of the host on the model's device."""
        return core.copy_to_device(values, self.lm.device)

    def read_logits(self, where: Tensor, noise_level: float) -> tuple[Tensor, Tensor]:
        """Return the logits (n, V) at positions, and which of them are not finite (n,): those are set to 0.

        The denoiser reads only the rows that have a position.
        """
        rows = where.any(dim=1).nonzero().squeeze(1)
        end = None if self.lm.block_size is None else self._first + self.stop
        if isinstance(self.decoder, denoising.Mdlm) and self.decoder.cached:
            if self._known is None:
                self._known = self.lm.denoise(self.to_device(self.ids[:, :end]), noise_level)
            logits = self._known[self.to_device(rows)]
        else:
            logits = self.lm.denoise(self.to_device(self.ids[rows, :end]), noise_level)
        inside = logits[:, self._first : self._first + where.shape[1]]
        row, position = (self.to_device(i) for i in where[rows][:, : inside.shape[1]].nonzero(as_tuple=True))
        selected = inside[row, position]
        if self.decoder.noise == "mask":
            selected[:, self.lm.mask_id] = -math.inf
        is_broken = ~selected.logsumexp(dim=-1).isfinite()
        forbid_end(selected, self.lm.eos_ids, where.nonzero()[:, 1].tolist(), self._min_length)
        return selected.masked_fill_(is_broken[:, None], 0.0), is_broken

    def read(self, tokens: Tensor, probs: Tensor, is_broken: Tensor) -> tuple[Tensor, Tensor]:
        """Return drawn tokens and their probabilities on the CPU; raise if their logits are not finite."""
        arrays = core.copy_to_host(tokens, probs, is_broken)
        if arrays[2].any():
            raise core.DataError(describe_broken_weights(self.lm))
        return torch.from_numpy(arrays[0]), torch.from_numpy(arrays[1])

    def propose(self, logits: Tensor) -> Tensor:
        """Return the distributions that tokens are drawn from."""
        d = self.decoder
        return denoising.compute_proposal(logits, d.temperature, d.nucleus_p, d.nucleus_rule)

    def write_tokens(self, where: Tensor, tokens: Tensor, probs: Tensor) -> None:
        """Write tokens and their probabilities at positions."""
        self.tokens[where] = tokens
        self.confidence[where] = probs
        self._known = None


def change_independently(canvas: Canvas, step: int, key: int) -> None:
    """Do one step of a sampler with masks whose positions change independently."""
    decoder = cast("denoising.Mdlm | denoising.Remdm", canvas.decoder)
    before, _ = decoder.alphas(step)
    is_masked, (_, uniforms) = canvas.masked_positions, canvas.uniforms(key)
    transition = decoder.transition_masked(step, is_masked, canvas.confidence)
    is_exact = decoder.precision == "float64"
    where = is_masked & (uniforms[..., 0] < transition.draw if is_exact else transition.draw > 0)
    again = ~is_masked & (uniforms[..., 0] < transition.noise) & (canvas.confidence > -math.inf)
    if bool(where.any()):
        tokens, probs = _draw_proposed(canvas, where, uniforms, key, before, transition.draw[where])
        revealed = tokens != canvas.lm.mask_id  # a draw of the mask leaves the position masked
        if bool(revealed.any()):
            chosen = where.clone()
            chosen[where] = revealed
            canvas.write_tokens(chosen, tokens[revealed], probs[revealed])
    canvas.tokens[again] = canvas.lm.mask_id
    canvas.confidence[again] = -math.inf


def replace_tokens(canvas: Canvas, step: int, key: int) -> None:
    """Do one step of a uniform-state sampler: every position keeps its token, or gets a proposed or a random one."""
    decoder, vocab_size = cast("denoising.Duo", canvas.decoder), canvas.lm.vocab_size
    before, _ = decoder.alphas(step)
    _, uniforms = canvas.uniforms(key)
    where = torch.zeros_like(canvas.tokens, dtype=torch.bool)
    where[:, canvas.start : canvas.stop] = True
    logits, is_broken = canvas.read_logits(where, denoising.compute_time_input(before))
    old, u = (canvas.to_device(values[where]) for values in (canvas.tokens, uniforms))
    gumbel = None if decoder.precision == "float64" else canvas.gumbel_uniforms(key, where)
    new, probs = [], []
    for part in _split(len(logits), vocab_size):
        proposal = canvas.propose(logits[part])
        present_prob = proposal.gather(1, old[part][:, None]).squeeze(1)
        transition = decoder.transition_uniform(step, present_prob, vocab_size)
        if gumbel is None:
            token = denoising.draw_by_inversion(proposal, u[part][:, 1])
            changes = u[part][:, 0] < transition.draw + transition.noise
            token = torch.where(u[part][:, 0] < transition.draw, token, (u[part][:, 1] * vocab_size).long())
            token = torch.where(changes, token, old[part])
        else:
            noise = proposal.new_full((vocab_size,), 1 / vocab_size)
            law = denoising.compute_law(transition, proposal, old[part], noise)
            token = denoising.draw_in_float32(law, gumbel[part])
        new.append(token)
        probs.append(proposal.gather(1, token[:, None]).squeeze(1))
    canvas.write_tokens(where, *canvas.read(torch.cat(new), torch.cat(probs), is_broken))


def reveal_one(canvas: Canvas, step: int, key: int) -> None:
    """Reveal one masked position of each row, all equally likely."""
    is_masked, (row_uniforms, uniforms) = canvas.masked_positions, canvas.uniforms(key)
    where = denoising.choose_one(is_masked, row_uniforms)
    alpha = step / (canvas.stop - canvas.start)
    tokens, probs = _draw_proposed(canvas, where, uniforms, key, alpha)
    canvas.write_tokens(where, tokens, probs)


def reveal_most_confident(canvas: Canvas, step: int, key: int) -> None:
    """Reveal the most confident positions of the present block."""
    decoder = cast("denoising.Llada", canvas.decoder)
    length = canvas.stop - canvas.start
    steps = decoder.steps // decoder.count_blocks(length)
    first = canvas.start + step // steps * decoder.block_length
    last = min(first + decoder.block_length, canvas.stop)
    count = denoising.count_revealed(last - first, steps, step % steps)
    if not count:
        return
    where, (_, uniforms) = canvas.masked_positions, canvas.uniforms(key)
    where[:, :first] = False
    where[:, last:] = False
    tokens, probs = _draw_proposed(canvas, where, uniforms, key, first / length)
    confidence = canvas.confidence.new_full(canvas.confidence.shape, -math.inf)
    confidence[where] = probs if decoder.remasking == "low_confidence" else uniforms[where][:, 0]
    chosen = denoising.choose_most_confident(confidence, count)
    canvas.write_tokens(chosen, tokens[chosen[where]], probs[chosen[where]])


def _draw_proposed(
    canvas: Canvas, where: Tensor, uniforms: Tensor, key: int, alpha: float, reveal_probs: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Draw a proposed token at positions; returns the tokens and the model's probability of each, on the CPU.

    With `reveal_probs` (n,), float32 draws may be the mask, and the probabilities are those of the proposal.
    """
    logits, is_broken = canvas.read_logits(where, denoising.compute_time_input(alpha))
    gumbel = None if canvas.decoder.precision == "float64" else canvas.gumbel_uniforms(key, where)
    u = canvas.to_device(uniforms[where][:, 1])
    reveal_probs = None if reveal_probs is None else canvas.to_device(reveal_probs)
    tokens, probs = [], []
    for part in _split(len(logits), canvas.lm.vocab_size):
        law = proposal = canvas.propose(logits[part])
        if gumbel is None:
            token = denoising.draw_by_inversion(proposal, u[part])
        else:
            if reveal_probs is not None:
                stay = torch.full((len(proposal),), canvas.lm.mask_id, device=proposal.device)
                change = denoising.Transition(reveal_probs[part], torch.zeros_like(reveal_probs[part]))
                law = denoising.compute_law(change, proposal, stay, proposal.new_zeros(()))
            token = denoising.draw_in_float32(law, gumbel[part])
        tokens.append(token)
        source = logits[part].double().softmax(dim=-1) if reveal_probs is None else proposal
        probs.append(source.gather(1, token[:, None]).squeeze(1))
    return canvas.read(torch.cat(tokens), torch.cat(probs), is_broken)


def _split(count: int, vocab_size: int) -> Iterator[slice]:
    """Yield the parts of positions whose distributions are held at once."""
    size = max(1, _LOGITS // vocab_size)
    return (slice(first, first + size) for first in range(0, count, size))


STEPS: Mapping[type[denoising.DenoisingDecoder], Callable[[Canvas, int, int], None]] = {
    denoising.Mdlm: change_independently,
    denoising.Remdm: change_independently,
    denoising.Duo: replace_tokens,
    denoising.FirstHitting: reveal_one,
    denoising.Llada: reveal_most_confident,
}
"""Sampler → one step of it: (texts, step of the present block, number of the step for the draws)."""


def denoise_texts(lm: "DenoiserBackend", request: GenerationRequest, emit: Emit, advance: core.Advance) -> None:
    """Fill the texts of a request; prompts and suffixes stay as they are."""
    decoder, length = cast("denoising.DenoisingDecoder", request.decoder), request.max_new_tokens
    do_step = STEPS[type(decoder)]
    with torch.inference_mode():
        for prompts in _iterate_batches(request):
            total = len(prompts[0].token_ids) + length + len(prompts[0].suffix_ids)
            if lm.context_length is not None and total > lm.context_length:
                raise core.SpecError(
                    f"max_new_tokens={length}: with its prompt, example {prompts[0].example_id} has {total} tokens, "
                    f"the model {lm.context_length} positions"
                )
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


def _emit_texts(canvas: Canvas, prompts: Sequence[Prompt], request: GenerationRequest, emit: Emit) -> None:
    """Emit the texts of a batch, each up to its first end token."""
    ends = frozenset(canvas.lm.eos_ids) if not request.continue_after_end else frozenset()
    texts = []
    for prompt, ids in zip(prompts, canvas.tokens.tolist(), strict=True):
        end = next((i for i, token in enumerate(ids) if token in ends), len(ids))
        texts.append(build_generation(canvas.lm, prompt, ids[:end], ended=end < len(ids)))
    emit(texts)
