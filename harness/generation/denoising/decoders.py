"""Samplers of diffusion models, as decoders: they fill masked (or noisy) positions in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from openended.harness.core import SpecError, decoder, ranged
from openended.harness.decoders import Decoder
from openended.harness.generation.denoising.updates import (
    Mode,
    NucleusRule,
    Schedule,
    Strategy,
    Transition,
    compute_alpha,
    compute_kappa,
    compute_loop_alpha,
    compute_remasking,
    update_masked,
    update_uniform,
)

if TYPE_CHECKING:
    from torch import Tensor

Noise = Literal["mask", "uniform"]
Precision = Literal["float64", "float32"]


@dataclass(frozen=True, kw_only=True)
class DenoisingDecoder(Decoder):
    """Base of the samplers: how tokens are drawn from what the denoiser proposes."""

    stochastic = True
    has_q = False
    no_q_reason = "a denoiser fills positions in any order: it has no distribution over the next token"
    denoises = True
    noise: ClassVar[Noise] = "mask"

    temperature: float = ranged(1.0, "[1e-6, 1e6]", "a number from 1e-06 to 1e6")
    """Logits are divided by it."""
    nucleus_p: float = ranged(1.0, "(0, 1]", "a number in (0, 1]")
    """Mass of the tokens that are kept; 1: all."""
    nucleus_rule: NucleusRule = "reach"
    """Keep tokens until the mass reaches p, or, one fewer, while it is below."""
    precision: Precision = "float64"
    """Of the draws."""

    def check_context_length(self, context_length: int | None, max_new_tokens: int, longest_prompt: int) -> None:
        """Refuse, before a model loads, lengths that the model cannot hold; no start token is needed.

        Raises:
            SpecError: Names the lengths.
        """
        if max_new_tokens < 1:
            raise SpecError(f"max_new_tokens: expected at least 1, got {max_new_tokens}")
        if context_length is not None and longest_prompt + max_new_tokens > context_length:
            prompt = f" with a prompt of {longest_prompt} tokens" if longest_prompt else ""
            raise SpecError(
                f"max_new_tokens={max_new_tokens}{prompt} goes beyond the model's {context_length} positions; at most "
                f"{context_length - longest_prompt}"
            )

    def count_steps(self, length: int) -> int:
        """Return the number of steps for a text of this many tokens."""
        raise TypeError(f"{type(self).__name__} does not say how many steps {length} tokens take")


@dataclass(frozen=True, kw_only=True)
class DiffusionDecoder(DenoisingDecoder):
    """A sampler that goes from t = 1 to t = 0 in equal steps; in each, positions change independently."""

    title_fields: ClassVar[tuple[str, ...]] = ("steps",)

    steps: int = ranged(1000, "[1, inf)", "1 or more")
    """Steps from noise to text."""
    schedule: Schedule = "linear"
    """How the share of noise falls with time."""

    def count_steps(self, length: int) -> int:
        del length
        return self.steps

    def alphas(self, step: int) -> tuple[float, float]:
        """Return alpha before and after a step; the first step is 0."""
        times = (1 - step / self.steps, 1 - (step + 1) / self.steps)
        before, after = (self.compute_alpha(t) for t in times)
        return before, after

    def compute_alpha(self, t: float) -> float:
        """Return the share of tokens that are not noise at time t."""
        return compute_alpha(self.schedule, t)

    def transition_masked(self, step: int, masked: Tensor, confidence: Tensor) -> Transition:
        """Return the probabilities of a change in a step."""
        raise TypeError(f"{type(self).__name__} has no rule for step {step} of {masked.shape} and {confidence.shape}")


@decoder
class Mdlm(DiffusionDecoder):
    """Ancestral sampling of masked diffusion: a revealed token stays (Sahoo et al. 2024)."""

    name = "mdlm"
    table_rank = 200

    cached: bool = False
    """Use the denoiser's output again while no token has changed; for models without a time input."""

    def transition_masked(self, step: int, masked: Tensor, confidence: Tensor) -> Transition:
        del confidence
        return update_masked(masked, *self.alphas(step))


@decoder
class Remdm(DiffusionDecoder):
    """Masked diffusion whose tokens may be masked again (Wang et al. 2025)."""

    name = "remdm"
    table_rank = 210
    title_fields = ("strategy", "steps")

    nucleus_p: float = 0.9  # Wang et al. 2025
    nucleus_rule: NucleusRule = "below"  # their code
    strategy: Strategy = "cap"
    """How the probability of remasking is chosen."""
    eta: float = ranged(0.02, "[0, 1]", "a number in [0, 1]")  # their scripts
    """Strength of remasking, for cap, rescale and loop."""

    def check(self) -> None:
        plain = self.strategy != "loop" or self.schedule == "linear"
        self.require(plain, "schedule", "linear with strategy=loop, which has a schedule of its own")

    def compute_alpha(self, t: float) -> float:
        """Return the share of tokens that are not masked at time t."""
        return compute_loop_alpha(t) if self.strategy == "loop" else super().compute_alpha(t)

    def transition_masked(self, step: int, masked: Tensor, confidence: Tensor) -> Transition:
        before, after = self.alphas(step)
        t = 1 - step / self.steps
        remasking = compute_remasking(self.strategy, t, before, after, self.eta, confidence)
        return update_masked(masked, before, after, remasking)


@decoder
class Duo(DiffusionDecoder):
    """Uniform-state diffusion: tokens are replaced, never masked (Sahoo et al. 2025; Deschenaux et al. 2026)."""

    name = "duo"
    table_rank = 220
    noise = "uniform"

    mode: Mode = "posterior"
    """Posterior alone, or mixed with the forward process (predictor-corrector)."""
    eta: float = ranged(0.05, "[0, 1]", "a number in [0, 1]")  # their scripts
    """Weight of the posterior for constant; ReMDM's strength for cap, rescale and remdm."""
    first: float = 1.0
    """The mixture is used for times up to this one; the posterior before."""
    last: float = 0.0
    """The mixture is used for times above this one; the posterior after."""

    def check(self) -> None:
        self.require(0 <= self.last <= self.first <= 1, "first", "a time from duo.last to 1")

    def transition_uniform(self, step: int, present_prob: Tensor, vocab_size: int) -> Transition:
        """Return the probabilities of a change, from what the denoiser gives to the present tokens."""
        before, after = self.alphas(step)
        is_mixed = self.last < 1 - step / self.steps <= self.first
        kappa = compute_kappa(self.mode, before, after, self.eta) if is_mixed else 1.0
        return update_uniform(present_prob, vocab_size, before, after, kappa)


@decoder
class FirstHitting(DenoisingDecoder):
    """Masked diffusion without time steps: one masked position after another, chosen at random (Zheng et al. 2024)."""

    name = "first_hitting"
    table_rank = 230

    def count_steps(self, length: int) -> int:
        """Return the number of steps: one a token."""
        return length


@decoder
class Llada(DenoisingDecoder):
    """Block by block from the left, the most confident tokens first (Nie et al. 2025)."""

    name = "llada"
    table_rank = 240
    title_fields = ("steps", "remasking")

    # Their default: the best token.
    temperature: float = ranged(0.0, "[0, 1e6]", "a number from 0 to 1e6")
    """0: the best token; else logits are divided by it."""
    steps: int = ranged(128, "[1, inf)", "1 or more")
    """Steps of the whole text, shared by its blocks."""
    block_length: int = ranged(128, "[1, inf)", "1 or more")
    """Tokens of a block; a longer one than the text is the text."""
    remasking: Literal["low_confidence", "random"] = "low_confidence"
    """Which tokens stay masked in a step."""

    def check_context_length(self, context_length: int | None, max_new_tokens: int, longest_prompt: int) -> None:
        """Refuse lengths that the model cannot hold, and steps that do not divide among the blocks."""
        super().check_context_length(context_length, max_new_tokens, longest_prompt)
        blocks = self.count_blocks(max_new_tokens)
        self.require(self.steps % blocks == 0, "steps", f"a multiple of the {blocks} blocks of {self.block_length}")

    def count_blocks(self, length: int) -> int:
        """Return the number of blocks of a text of this many tokens."""
        return math.ceil(length / self.block_length)

    def count_steps(self, length: int) -> int:
        del length
        return self.steps
