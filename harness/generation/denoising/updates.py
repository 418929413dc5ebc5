"""Update rules of samplers, and draws from what the denoiser proposes.

`alpha_t` is the share of tokens that are not noise at time t: 0 at t = 1, and 1 at t = 0. The rules are functions of
plain numbers and tensors. The samplers draw by them, and docs/denoisers.md's exact laws are computed with them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

Schedule = Literal["linear", "cosine", "cosine_squared"]
Strategy = Literal["cap", "rescale", "conf", "forward_backward", "loop"]
NucleusRule = Literal["reach", "below"]
Mode = Literal["posterior", "pc", "constant", "cap", "rescale", "remdm"]

_TINY = 1e-10  # in the float32 draws of Sahoo et al. 2024
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
    return bound * _weigh_low_confidence(confidence)


def _weigh_low_confidence(confidence: Tensor) -> Tensor:
    """Return the softmax of -confidence over the tokens of each row; 0 where there is no token."""
    import torch

    weights = torch.where(confidence > -math.inf, (-confidence).clamp(max=0).exp(), 0.0)
    return weights / weights.sum(dim=-1, keepdim=True).clamp_min(1e-300)


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
        return torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1]).double()
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
    noise = _TINY - (uniforms + _TINY).log()
    return (probs.float() / noise).argmax(dim=-1)
