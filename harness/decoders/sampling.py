"""Specs of decoders that sample from a token-level Q; the rules are in `truncation_rules`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from openended.harness.core import copy_to_device, decoder, option, ranged
from openended.harness.decoders import truncation_rules as rules
from openended.harness.decoders.base import QDecoder, SamplingDecoder
from openended.harness.decoders.descending_logits import DescendingLogits, Truncation

if TYPE_CHECKING:
    from torch import Tensor


@decoder
class Greedy(QDecoder):
    """The most probable token; Q is its one-hot. Equal logits: the lowest id."""

    name = "greedy"
    table_rank = 0
    server_options = {}
    certifiable = True
    stochastic = False
    one_hot = True


@decoder
class Ancestral(SamplingDecoder):
    """Sampling from the model's full distribution; no hidden top-k."""

    name = "ancestral"
    table_rank = 60
    server_options = {}
    certifiable = True
    rule = staticmethod(rules.keep_all)


@decoder
class Temperature(SamplingDecoder):
    """Sampling from the full distribution at another temperature (Ackley et al. 1985)."""

    name = "temperature"
    table_rank = 70
    server_options = {}
    certifiable = True
    title_fields = ("temperature",)
    rule = staticmethod(rules.keep_all)

    temperature: float = 0.9  # Holtzman et al. 2020, Table 1: t = 0.9


@decoder
class TopK(SamplingDecoder):
    """The k most probable tokens (Fan et al. 2018)."""

    name = "top_k"
    table_rank = 80
    server_options = {"top_k": "k"}
    certifiable = True
    title_fields = ("k",)
    rule = staticmethod(rules.top_k)

    k: int = ranged(40, "[1, inf)", "an integer of at least 1")  # Radford et al. 2019; Holtzman et al. 2020, Table 1

    @property
    def head(self) -> int:
        """Enough for the k best and a few ties."""
        return max(512, self.k + 64)


@decoder
class Nucleus(SamplingDecoder):
    """The smallest set of best tokens whose mass reaches p (Holtzman et al. 2020)."""

    name = "nucleus"
    table_rank = 90
    server_options = {"top_p": "p"}
    certifiable = True
    title_fields = ("p",)
    rule = staticmethod(rules.nucleus)
    keeps_all_at = {"p": 1.0}

    p: float = ranged(0.95, "(0, 1]", "a number in (0, 1]")  # Pillutla et al. 2021, Table 3


@decoder
class MinP(SamplingDecoder):
    """Tokens with at least p times the best one's probability (Nguyen et al. 2025)."""

    name = "min_p"
    table_rank = 130
    server_options = {"min_p": "p"}
    certifiable = True
    title_fields = ("p",)
    rule = staticmethod(rules.min_p)
    keeps_all_at = {"p": 0.0}

    p: float = ranged(0.1, "[0, 1]", "a number in [0, 1]")  # Nguyen et al. 2025, section 4: 0.05 to 0.1


@decoder
class Typical(SamplingDecoder):
    """Tokens whose surprisal is nearest to the entropy, up to the mass (Meister et al. 2023)."""

    name = "typical"
    table_rank = 100
    server_options = {"typical_p": "mass"}
    title_fields = ("mass",)
    rule = staticmethod(rules.typical)
    keeps_all_at = {"mass": 1.0}

    # Meister et al. 2023, section 6: tau of 0.95 for stories
    mass: float = ranged(0.95, "(0, 1]", "a number in (0, 1]")


@decoder
class Epsilon(SamplingDecoder):
    """Tokens with probability at least eps (Hewitt et al. 2022)."""

    name = "epsilon"
    table_rank = 110
    server_options = {"epsilon": "eps"}
    certifiable = True
    title_fields = ("eps",)
    rule = staticmethod(rules.epsilon)

    eps: float = ranged(3e-4, "(0, 1)", "a number in (0, 1)")  # Hewitt et al. 2022: 3e-4 to 9e-4 over sizes of GPT-2


@decoder
class Eta(SamplingDecoder):
    """Tokens with probability at least min(eps, sqrt(eps) exp(-entropy)) (Hewitt et al. 2022)."""

    name = "eta"
    table_rank = 120
    server_options = {"eta": "eps"}
    title_fields = ("eps",)
    rule = staticmethod(rules.eta)

    eps: float = ranged(2e-3, "(0, 1)", "a number in (0, 1)")  # Hewitt et al. 2022: 3e-4 to 4e-3 over sizes of GPT-2


@decoder
class TopNSigma(SamplingDecoder):
    """Logits within n standard deviations of the best (Tang et al. 2025)."""

    name = "top_n_sigma"
    server_options = {"n_sigma": "n"}
    title_fields = ("n",)
    rule = staticmethod(rules.top_n_sigma)

    n: float = ranged(1.0, "(0, inf)", "a number above 0")  # Tang et al. 2025, section 4


@decoder
class TopH(SamplingDecoder):
    """Best tokens while their part of the entropy stays within h (Potraghloo et al. 2025)."""

    name = "top_h"
    title_fields = ("h",)
    rule = staticmethod(rules.top_h)

    h: float = ranged(0.4, "(0, 1]", "a number in (0, 1]")  # Potraghloo et al. 2025: alpha = 0.4
    # transformers looks at the 100 best tokens
    candidates: int = ranged(100, "[2, 512]", "an integer from 2 to 512")


@decoder
class Entmax(SamplingDecoder):
    """Alpha-entmax in place of softmax: sparse without a cut (Peters et al. 2019; Martins et al. 2020).

    Alpha = 2 is sparsemax. Meant for models trained with it; on others it is a truncation that also reweighs.
    """

    name = "entmax"
    title_fields = ("alpha",)
    rule = staticmethod(rules.entmax)

    # Martins et al. 2020: 1.2 for language modeling on WikiText
    alpha: float = ranged(1.2, "[1.01, 4]", "a number in [1.01, 4]; 1 is `ancestral`")
    temperature_order: Literal["before", "after"] = option(
        "before", lambda order: order == "before", "'before': entmax has no cut to follow"
    )


@decoder
class PLess(SamplingDecoder):
    """Tokens at least as probable as two draws are to agree, p >= Σp² (Tan et al. 2025)."""

    name = "p_less"
    rule = staticmethod(rules.p_less)

    norm: bool = False  # Tan et al. 2025: p-less-norm keeps p >= (V Σp² - 1) / (V - 1), which is less strict


@decoder
class MinK(SamplingDecoder):
    """Logits above their steepest step, where the step after rank i counts 1 / i (Ding et al. 2026)."""

    name = "min_k"
    title_fields = ("tau",)
    rule = staticmethod(rules.min_k)

    # Ding et al. 2026 as in vLLM's pull request 48142; 0: the step alone
    tau: float = ranged(3.0, "[0, inf)", "a number of at least 0")
    temperature_order: Literal["before", "after"] = "after"
    """The paper cuts the logits as the model gives them; `before` moves only the least number that tau keeps."""


@decoder
class Xtc(SamplingDecoder):
    """With a probability, all tokens that reach a threshold but the least probable of them are left out (XTC).

    Exclude Top Choices (p-e-w 2024, as merged into llama.cpp). A coin for each token makes Q the exact mixture of the
    softmax and of what is left: (1 - probability) p + probability p / (1 - mass left out). Nothing is left out where
    fewer than two tokens reach the threshold. text-generation-webui spares the end of text and line breaks; llama.cpp
    and this do not. llama.cpp's order is `temperature_order=after`.
    """

    name = "xtc"
    version = 2
    title_fields = ("threshold", "probability")
    keeps_all_at = {"probability": 0.0}

    threshold: float = ranged(0.1, "[1e-4, 0.5]", "a number in [1e-4, 0.5]")  # p-e-w 2024 and llama.cpp: 0.1
    probability: float = ranged(0.5, "[0, 1]", "a number in [0, 1]")  # p-e-w 2024: 0.5

    @property
    def head(self) -> int:
        """More than can reach the threshold."""
        return max(512, int(1 / self.threshold) + 2)

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Mix the softmax with its truncated version."""
        if self.untruncated:  # the temperature was applied to the logits already
            return rules.keep_all(ranked)
        temperature, is_before = self.temperature_and_order()
        return rules.xtc(ranked, self.threshold, self.probability, 1.0 if is_before else temperature)


@decoder
class Mirostat(SamplingDecoder):
    """Truncation steered so that the observed surprise stays near tau (Basu et al. 2021); Q depends on what was drawn.

    The state is the limit mu, 2 tau at first; after a token of surprise s (bits, under the distribution before
    truncation) it falls by learning_rate · (s - tau). Teacher-forced, the state runs along the human text.
    """

    name = "mirostat"
    title_fields = ("tau",)

    # Basu et al. 2021, section 6: human-like repetition near 3 bits per token
    tau: float = ranged(3.0, "(0, inf)", "a number above 0, in bits")
    learning_rate: float = ranged(0.1, "(0, 1]", "a number in (0, 1]")  # Basu et al. 2021, Algorithm 1
    # Basu et al. 2021: m = 100 tokens for the Zipf fit
    candidates: int = ranged(100, "[2, 512]", "an integer from 2 to 512")
    algorithm: Literal["top_k", "threshold"] = "top_k"  # the paper's; "threshold" is llama.cpp's second form
    temperature_order: Literal["before", "after"] = option(
        "before", lambda order: order == "before", "'before' for a steered truncation"
    )

    def truncate(self, ranked: DescendingLogits) -> Truncation:
        """Keep as many tokens as the limit allows."""
        if self.algorithm == "threshold":
            return rules.mirostat_threshold(ranked)
        return rules.mirostat_top_k(ranked, self.candidates)

    def first_state(self) -> tuple[float, ...]:
        return (2 * self.tau,)

    def next_state(self, state: Tensor | None, surprise: Tensor | None) -> Tensor | None:
        """Move mu against the error of the surprisal."""
        if state is None or surprise is None:
            return None
        bits = (surprise / math.log(2))[:, None]
        return state - self.learning_rate * (bits - self.tau)


LARGEST = 1e30
"""Penalties stop growing here: such a logit has no probability in float64, and its square stays in float32."""


@decoder
class Dry(SamplingDecoder):
    """A token that extends a repetition of n >= allowed_length tokens loses multiplier · base^(n - allowed_length).

    p-e-w 2024: text-generation-webui's pull request 5677, llama.cpp's 9702. n is the length of the longest match
    between the end of the text so far, prompt included, and the tokens before an earlier occurrence of the token.
    A stretch holds no breaker, and breakers themselves lose nothing. Then nucleus sampling, if p < 1.
    """

    name = "dry"
    title_fields = ("multiplier",)
    rule = staticmethod(rules.nucleus)
    keeps_all_at = {"p": 1.0}

    multiplier: float = ranged(0.8, "[0, inf)", "a number of at least 0 (off)")  # p-e-w 2024; llama.cpp
    base: float = ranged(1.75, "[1, inf)", "a number of at least 1")  # p-e-w 2024; llama.cpp
    allowed_length: int = ranged(2, "[1, inf)", "an integer of at least 1")  # p-e-w 2024; llama.cpp
    # Tokens looked back at; 0: all, as p-e-w 2024
    window: int = ranged(0, "[0, inf)", "0 (all) or a positive integer")
    # Token ids; llama.cpp's are strings: line break, colon, quote and asterisk
    breakers: tuple[int, ...] = ranged((), "[0, inf)", "token ids", unordered=True)
    p: float = ranged(1.0, "(0, 1]", "a number in (0, 1]")  # mass of the nucleus after the penalty; 1: no cut

    @property
    def penalizes(self) -> bool:
        """True where logits are penalized."""
        return self.multiplier > 0 or super().penalizes

    def apply_extra_penalty(self, logits: Tensor, history: Tensor, lengths: Tensor | None) -> Tensor:
        """Subtract the penalty from the logits of tokens that would extend a repetition."""
        if self.multiplier <= 0:
            return logits
        room = math.log(max(LARGEST / self.multiplier, 1.0))
        longest = self.allowed_length + (math.ceil(room / math.log(self.base)) if self.base > 1 else 0)
        repeat = count_repeats(history, lengths, window=self.window, breakers=self.breakers, longest=longest)
        power = (repeat - self.allowed_length).clamp_min(0).double()
        penalty = (self.multiplier * self.base**power).clamp(max=LARGEST).masked_fill(repeat < self.allowed_length, 0.0)
        return logits - logits.new_zeros(logits.shape).scatter_reduce(1, history, penalty.to(logits.dtype), "amax")


def count_repeats(
    history: Tensor, lengths: Tensor | None, *, window: int = 0, breakers: Sequence[int] = (), longest: int
) -> Tensor:
    """Count, for each position, how many tokens before it match the end of the text."""
    import torch

    rows, size = history.shape
    positions = torch.arange(size, device=history.device)
    if lengths is None:
        lengths = torch.full((rows,), size, device=history.device)
    end = lengths[:, None]
    start = (end - window).clamp_min(0) if window else torch.zeros_like(end)
    stops = torch.isin(history, copy_to_device(breakers, history.device, np.int64))
    out = torch.zeros_like(history)
    match = (positions < end) & ~stops
    for back in range(1, min(longest, size - 1) + 1):
        at = (end - back).clamp_min(0)
        same = (history[:, : size - back] == history.gather(1, at)) & ~stops.gather(1, at)
        match[:, :back] = False
        match[:, back:] &= same & (positions[: size - back] >= start)
        # An accelerator's host, which has to wait for the answer, asks less often.
        if (history.device.type == "cpu" or back % 32 == 0) and not bool(match.any()):
            break
        out += match
    return out
