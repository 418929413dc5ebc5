"""The denoiser's distribution at a position after temperature and nucleus, and draws from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torch import Tensor

NucleusRule = Literal["reach", "below"]
_TINY = 1e-10  # in the float32 draws of Sahoo et al. 2024


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
