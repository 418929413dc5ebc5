"""Adversarial texts that have the perplexity of human text and no meaning (Pillutla et al. 2021, section 4).

The first 15 % of tokens are uniform draws; each later token brings the running perplexity of the continuation nearest
to the target. No public code exists; the end token is never chosen, so that every text has the full length.
"""

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np

from openended.harness.core import I64, Advance, copy_to_device, decoder, ranged, row_uniforms
from openended.harness.decoders import Decoder, Emit, GenerationRequest, Prompt
from openended.harness.generation.slots import BatchSlots
from openended.harness.generation.token_loop import TokenChooser, decode_rows

if TYPE_CHECKING:
    from torch import Tensor

    from openended.harness.models import LanguageModel


@decoder
class Adversarial(Decoder):
    """Meaningless text with human perplexity (Pillutla et al. 2021, section 4)."""

    name = "adversarial"
    table_rank = 50
    stochastic = True
    has_q = False
    no_q_reason = "adversarial decoding aims at a perplexity: it has no distribution over the next token"

    random_share: float = ranged(0.15, "[0, 1)", "a number in [0, 1)")
    """Pillutla et al. 2021: the first 15 % uniform over the vocabulary."""
    human_ppl: float | None = ranged(None, "(1, inf)", "null (measured) or a perplexity above 1")
    """null: measured on the human side under the same model."""

    @property
    def needs_human_ppl(self) -> bool:
        """True if the target is measured on the human side."""
        return self.human_ppl is None

    def set_human_ppl(self, human_ppl: float) -> "Adversarial":
        """Return the decoder with the measured target filled in."""
        return dataclasses.replace(self, human_ppl=float(human_ppl))

    def run(self, lm: "LanguageModel", request: GenerationRequest, emit: Emit, advance: Advance) -> None:
        """Decode texts; one forward pass a step, all tokens compared at once."""
        target = cast("float", self.human_ppl)  # a request for a decoder without one is refused before
        random = int(np.ceil(self.random_share * request.max_new_tokens)) if self.random_share else 0
        count = min(request.batch_size, len(request.prompts))
        decode_rows([lm], request, emit, advance, _PerplexityChooser(lm, target, random, count, request.seed))


class _PerplexityChooser(TokenChooser):
    """Random tokens and running losses of the rows."""

    def __init__(self, lm: "LanguageModel", target: float, random: int, count: int, seed: int) -> None:
        import torch

        self._ends, self._size, self._target, self._seed = lm.eos_ids, lm.vocab_size, target, seed
        self._drawn = np.zeros((count, random), dtype=np.int64)
        self._total = torch.zeros((count, 1), dtype=torch.float64, device=lm.device)
        self.states = self._drawn, self._total

    def begin(self, slot: int, prompt: Prompt) -> None:
        """Draw the random tokens, uniform over all tokens but end tokens."""
        size = self._size - len(self._ends)
        u = row_uniforms(self._seed, prompt.example_id, prompt.sample, self._drawn.shape[1])
        tokens = np.minimum((u * size).astype(np.int64), size - 1)
        for end in sorted(self._ends):
            tokens += tokens >= end
        self._drawn[slot] = tokens
        self._total[slot] = 0.0

    def choose(self, logits: "list[Tensor]", slots: BatchSlots) -> "tuple[Tensor, I64]":
        """Return the token that brings exp(mean NLL) nearest to the target; ties: the lowest id."""
        import torch

        n, random = len(slots), self._drawn.shape[1]
        nll = -torch.log_softmax(logits[0].double(), dim=-1)
        chosen = np.full(n, -1)
        early = np.flatnonzero(slots.steps < random)
        chosen[early] = self._drawn[early, slots.steps[early]]
        token = copy_to_device(chosen, nll.device)
        if len(early) < n:
            mean = (self._total[:n] + nll) / (copy_to_device(slots.steps, nll.device)[:, None] + 1)
            distance = mean.clamp_(max=700.0).exp_().sub_(self._target).abs_()
            for end in self._ends:
                distance[:, end] = float("inf")
            token = torch.where(token < 0, distance.argmin(-1), token)
        self._total[:n] += nll.gather(1, token[:, None])
        return token, slots.read(token)[0]
