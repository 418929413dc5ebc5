"""Samplers of diffusion models, as decoders: they fill masked (or noisy) positions in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from openended.harness.core import Advance, decoder, ranged
from openended.harness.decoders import Decoder, Emit, GenerationRequest

if TYPE_CHECKING:
    from torch import Tensor


Schedule = Literal["linear", "cosine", "cosine_squared"]
Strategy = Literal["cap", "rescale", "conf", "forward_backward", "loop"]
NucleusRule = Literal["reach", "below"]
Mode = Literal["posterior", "pc", "constant", "cap", "rescale", "remdm"]

_LOG_OFFSET = 1e-10  # in the float32 draws of Sahoo et al. 2024
LOOP_ON, LOOP_OFF, LOOP_ALPHA = 0.55, 0.05, 0.9  # Wang et al. 2025


class Transition(NamedTuple):
    """What happens to each position in a step; with the rest of the probability it keeps its token."""

    draw: Tensor
    """Probability that the position gets a token that the denoiser proposes, shape (rows, positions)."""
    noise: Tensor
    """Probability that it becomes noise: the mask, or a token drawn uniformly."""


def compute_alpha(schedule: Schedule, t: float) -> float:
    """Return the share of tokens that are not noise at time t."""
    if schedule == "linear":
        return 1 - t
    wave = math.cos(math.pi * t / 2)
    return 0.0 if t == 1 else wave if schedule == "cosine" else wave * wave


def compute_loop_alpha(t: float) -> float:
    """Return alpha of ReMDM's loop: it rises to `LOOP_ALPHA`, stays there, and rises to 1."""
    if t > LOOP_ON:
        return LOOP_ALPHA * (1 - t) / (1 - LOOP_ON)
    return LOOP_ALPHA if t > LOOP_OFF else 1 - (1 - LOOP_ALPHA) * t / LOOP_OFF


def compute_time_input(alpha_t: float) -> float:
    """Return the noise level that models with a time input read: -log alpha; infinity for pure noise."""
    return -math.log(alpha_t) if alpha_t > 0 else math.inf


def bound_remasking(alpha_t: float, alpha_s: float) -> float:
    """Return the largest probability of remasking with which the share of masks at time s stays 1 - alpha_s."""
    return min(1.0, (1 - alpha_s) / alpha_t) if alpha_t > 0 else 1.0


def compute_remasking(
    strategy: Strategy, t: float, alpha_t: float, alpha_s: float, eta: float, confidence: Tensor | None = None
) -> Tensor | float:
    """Return ReMDM's probability that a token is masked again."""
    bound = bound_remasking(alpha_t, alpha_s)
    if strategy == "cap":
        return min(eta, bound)
    if strategy == "rescale":
        return eta * bound
    if strategy == "loop":
        return min(eta, bound) if LOOP_OFF < t <= LOOP_ON else 0.0
    if strategy == "forward_backward":
        return min((alpha_s - alpha_t) / alpha_t, bound) if alpha_t > 0 else bound
    if confidence is None:
        raise TypeError("the strategy conf needs confidences")
    import torch

    # The softmax of -confidence over the tokens of each row; 0 where there is no token.
    weights = torch.where(confidence > -math.inf, (-confidence).clamp(max=0).exp(), 0.0)
    return bound * (weights / weights.sum(dim=-1, keepdim=True).clamp_min(1e-300))


def update_masked(masked: Tensor, alpha_t: float, alpha_s: float, remasking: Tensor | float = 0.0) -> Transition:
    """Return the step of a masked diffusion; without remasking it is MDLM's."""
    import torch

    sigma = torch.as_tensor(remasking, dtype=torch.float64, device=masked.device).expand(masked.shape)
    draw = (alpha_s - (1 - sigma) * alpha_t) / (1 - alpha_t)
    return Transition(torch.where(masked, draw.clamp(0, 1), 0.0), torch.where(masked, 0.0, sigma))


def compute_kappa(mode: Mode, alpha_t: float, alpha_s: float, eta: float) -> float:
    """Return the weight of the posterior in Duo's mixture of posterior and forward noising (Psi-samplers)."""
    if mode in ("posterior", "pc", "constant"):
        return {"posterior": 1.0, "pc": 0.0, "constant": eta}[mode]
    if alpha_s >= 1:
        return 1.0
    bound = bound_remasking(alpha_t, alpha_s)
    sigma = {"cap": min(eta, bound), "rescale": eta * bound, "remdm": eta}[mode]
    return min(max(1 - sigma / (1 - alpha_s), 0.0), 1.0)


def update_uniform(
    present_prob: Tensor, vocab_size: int, alpha_t: float, alpha_s: float, kappa: float = 1.0
) -> Transition:
    """Return the step of a uniform-state diffusion: Duo's posterior, mixed with its forward process."""
    total = alpha_t * vocab_size * present_prob + (1 - alpha_t)
    draw = kappa * (alpha_s - alpha_t) / total + (1 - kappa) * alpha_s
    noise = kappa * (1 - alpha_t / alpha_s) * (1 - alpha_s) / total + (1 - kappa) * (1 - alpha_s)
    return Transition(draw, noise)


def compute_law(transition: Transition, proposal: Tensor, present: Tensor, noise: Tensor) -> Tensor:
    """Return the distribution of each position after a step."""
    law = transition.draw[..., None] * proposal + transition.noise[..., None] * noise
    keep = (1 - transition.draw - transition.noise).clamp_min(0)
    return law.scatter_add(-1, present[..., None], keep[..., None])


def count_revealed(num_masked: int, num_steps: int, step: int) -> int:
    """Return how many tokens LLaDA reveals in a step: equal shares, the first steps take what is left over."""
    return num_masked // num_steps + (step < num_masked % num_steps)


def choose_most_confident(confidence: Tensor, count: int) -> Tensor:
    """Return which positions of each row are revealed: the `count` most confident, of equal ones the leftmost."""
    import torch

    order = confidence.argsort(dim=-1, descending=True, stable=True)
    chosen = torch.zeros_like(confidence, dtype=torch.bool)
    return chosen.scatter(-1, order[:, :count], True) & (confidence > -math.inf)


def choose_one(masked: Tensor, uniform: Tensor) -> Tensor:
    """Return which position of each row the first-hitting sampler reveals: a masked one, all equally likely."""
    index = (uniform * masked.sum(dim=-1)).long()
    return masked & (masked.cumsum(dim=-1) - 1 == index[:, None])


def compute_proposal(logits: Tensor, temperature: float = 1.0, p: float = 1.0, rule: NucleusRule = "reach") -> Tensor:
    """Return the distribution that tokens are drawn from."""
    import torch

    logits = logits.double()
    if temperature == 0:
        return torch.zeros_like(logits).scatter_(-1, logits.argmax(dim=-1, keepdim=True), 1.0)
    probs = (logits / temperature).softmax(dim=-1)
    if p >= 1:
        return probs
    ranked, order = probs.sort(dim=-1, descending=True, stable=True)
    mass = ranked.cumsum(dim=-1)
    selected = mass - ranked < p if rule == "reach" else mass <= p
    selected[..., 0] = True
    ranked = ranked * selected
    return torch.zeros_like(probs).scatter(-1, order, ranked / ranked.sum(dim=-1, keepdim=True))


def draw_by_inversion(probs: Tensor, uniform: Tensor) -> Tensor:
    """Draw one token of each row, in float64, by inverting the cumulative distribution."""
    import torch

    cumulative = probs.cumsum(dim=-1)
    total = cumulative[:, -1]
    target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cumulative, target[:, None], right=True).squeeze(1)


def draw_in_float32(probs: Tensor, uniforms: Tensor) -> Tensor:
    """Draw one token of each row as the first codes for diffusion models do: by the Gumbel trick in float32.

    A float32 uniform has 24 bits, so that rare tokens win less often than they should: the temperature is lower than
    it is said to be.
    """
    noise = _LOG_OFFSET - (uniforms + _LOG_OFFSET).log()
    return (probs.float() / noise).argmax(dim=-1)


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

    def count_steps(self, length: int) -> int:
        """Return the number of steps for a text of this many tokens: one a token, if it has no option for it."""
        return length

    def run(self, lm: Any, request: GenerationRequest, emit: Emit, advance: Advance) -> None:  # noqa: ANN401 - a denoiser
        lm.fill_texts(request, emit, advance)


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


@decoder
class Mdlm(DiffusionDecoder):
    """Ancestral sampling of a masked diffusion model: a revealed token stays (Sahoo et al. 2024)."""

    name = "mdlm"
    table_rank = 200

    cached: bool = False
    """Use the denoiser's output again while no token has changed; for models without a time input."""

    def transition_masked(self, step: int, masked: Tensor, confidence: Tensor) -> Transition:
        """Return the probabilities of a change in a step."""
        del confidence
        return update_masked(masked, *self.alphas(step))


@decoder
class Remdm(DiffusionDecoder):
    """Masked diffusion whose tokens may be masked again (Wang et al. 2025)."""

    name = "remdm"
    table_rank = 210
    title_fields = ("strategy", "steps")

    nucleus_p: float = 0.9
    """Wang et al. 2025."""
    nucleus_rule: NucleusRule = "below"
    """Their code."""
    strategy: Strategy = "cap"
    """How the probability of remasking is chosen."""
    eta: float = ranged(0.02, "[0, 1]", "a number in [0, 1]")
    """Strength of remasking, for cap, rescale and loop; .02 in their scripts."""

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
    """Sampling of a uniform-state diffusion model: tokens are replaced, never masked (Sahoo et al. 2025)."""

    name = "duo"
    table_rank = 220
    noise = "uniform"

    mode: Mode = "posterior"
    """Posterior alone, or mixed with the forward process (predictor-corrector)."""
    eta: float = ranged(0.05, "[0, 1]", "a number in [0, 1]")
    """Weight of the posterior for constant; ReMDM's strength for cap, rescale and remdm; .05 in their scripts."""
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
    """Masked diffusion without time steps: one token after another, at random positions (Zheng et al. 2024)."""

    name = "first_hitting"
    table_rank = 230


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
