"""The texts of a batch while a sampler fills them.

A draw is keyed by (seed, example, sample, step, position): texts do not depend on the batch size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from openended.harness.core import make_random_stream
from openended.harness.decoders import GenerationRequest, Prompt
from openended.harness.generation.denoising.decoders import DenoisingDecoder, Mdlm
from openended.harness.generation.denoising.proposals import compute_proposal

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_LANE, _GUMBEL_LANE = "denoise", "denoise-gumbel"


class Denoiser(Protocol):
    """A model that proposes a token for every position from all others."""

    @property
    def device(self) -> torch.device:
        """Device of ids and logits."""
        ...

    @property
    def vocab_size(self) -> int:
        """Size of the logits."""
        ...

    @property
    def mask_id(self) -> int:
        """The mask token; -1 for models without one."""
        ...

    @property
    def context_length(self) -> int | None:
        """Number of positions; None if unlimited."""
        ...

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids of the end-of-text tokens."""
        ...

    @property
    def block_size(self) -> int | None:
        """Tokens of a block, if the model reads the blocks up to the present one alone."""
        ...

    def denoise(self, ids: Tensor, noise_level: float) -> Tensor:
        """Return the logits (B, L, V) of token ids (B, L); `noise_level` is -log alpha."""
        ...

    def continuation(self, prompt: Sequence[int], ids: Sequence[int]) -> str:
        """Return the text that `ids` add after `prompt`."""
        ...


class Canvas:
    """The texts of a batch while they are filled; all have prompts and suffixes of equal lengths."""

    def __init__(
        self, lm: Denoiser, decoder: DenoisingDecoder, prompts: Sequence[Prompt], request: GenerationRequest
    ) -> None:
        import torch

        self.lm, self.decoder, self._prompts, self._seed = lm, decoder, prompts, request.seed
        self._min_length, length = request.min_new_tokens, request.max_new_tokens
        self._first = len(prompts[0].token_ids)
        rows = [[*p.token_ids, *[max(lm.mask_id, 0)] * length, *p.suffix_ids] for p in prompts]
        self.ids = torch.tensor(rows, dtype=torch.int64, device=lm.device)
        """All token ids, those of prompts and suffixes included."""
        shape = (len(prompts), length)
        self.confidence = torch.full(shape, -math.inf, dtype=torch.float64, device=lm.device)
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
        import torch

        inside = torch.zeros_like(self.tokens, dtype=torch.bool)
        inside[:, self.start : self.stop] = True
        return inside & (self.tokens == self.lm.mask_id)

    def open_block(self, start: int, stop: int) -> None:
        """Fill these positions next; those before them are finished."""
        self.start, self.stop = start, stop
        self.confidence[:, :start] = -math.inf
        self._known = None

    def uniforms(self, step: int) -> tuple[Tensor, Tensor]:
        """Return numbers in [0, 1) of a step: one for each row (rows,), two for each position (rows, positions, 2)."""
        import torch

        count = 1 + 2 * self.confidence.shape[1]
        streams = (make_random_stream(self._seed, _LANE, p.example_id, p.sample, step) for p in self._prompts)
        values = torch.from_numpy(np.stack([stream.random(count) for stream in streams])).to(self.lm.device)
        return values[:, 0], values[:, 1:].reshape(*self.confidence.shape, 2)

    def gumbel_uniforms(self, step: int, where: Tensor) -> Tensor:
        """Return float32 numbers in [0, 1), one for each token at each of the positions."""
        import torch

        values = np.empty((int(where.sum()), self.lm.vocab_size), dtype=np.float32)
        for value, (row, position) in zip(values, where.nonzero().tolist(), strict=True):
            p = self._prompts[row]
            stream = make_random_stream(self._seed, _GUMBEL_LANE, p.example_id, p.sample, step, position)
            value[:] = stream.random(self.lm.vocab_size, dtype=np.float32)
        return torch.from_numpy(values).to(self.lm.device)

    def read_logits(self, where: Tensor, noise_level: float) -> Tensor:
        """Return the logits (n, V) at positions; the denoiser reads only the rows that have one."""
        rows = where.any(dim=1)
        end = None if self.lm.block_size is None else self._first + self.stop
        if isinstance(self.decoder, Mdlm) and self.decoder.cached:
            if self._known is None:
                self._known = self.lm.denoise(self.ids[:, :end], noise_level)
            logits = self._known[rows]
        else:
            logits = self.lm.denoise(self.ids[rows, :end], noise_level)
        inside = logits[:, self._first : self._first + where.shape[1]]
        selected = inside[where[rows][:, : inside.shape[1]]].clone()
        if self.decoder.noise == "mask":
            selected[:, self.lm.mask_id] = -math.inf
        if self._min_length and self.lm.eos_ids:
            too_early = where.nonzero()[:, 1] < self._min_length
            for token in self.lm.eos_ids:
                selected[too_early, token] = -math.inf
        return selected

    def propose(self, logits: Tensor) -> Tensor:
        """Return the distributions that tokens are drawn from."""
        d = self.decoder
        return compute_proposal(logits, d.temperature, d.nucleus_p, d.nucleus_rule)

    def write_tokens(self, where: Tensor, tokens: Tensor, probs: Tensor) -> None:
        """Write tokens and their probabilities at positions."""
        self.tokens[where] = tokens
        self.confidence[where] = probs
        self._known = None

    def mask_again(self, where: Tensor) -> None:
        """Mask positions."""
        self.tokens[where] = self.lm.mask_id
        self.confidence[where] = -math.inf
