"""Samplers of diffusion models straight from their papers' formulas: plain Python, one position and one token at a time."""

import math
from collections.abc import Sequence


def alpha(schedule: str, t: float) -> float:
    """Share of tokens that are not noise."""
    cosine = math.cos(t * math.pi / 2)
    return {"linear": 1 - t, "cosine": cosine, "cosine_squared": cosine**2}[schedule]


def softmax(logits: Sequence[float], temperature: float) -> list[float]:
    """Probabilities at a temperature."""
    weights = [math.exp(z / temperature) for z in logits]
    return [w / sum(weights) for w in weights]


def nucleus(probs: Sequence[float], p: float, rule: str) -> list[float]:
    """Go down the tokens from the most probable one; `below` stops before the mass exceeds p, `reach` after it is p."""
    order = sorted(range(len(probs)), key=lambda v: -probs[v])
    kept, mass = [order[0]], probs[order[0]]
    for v in order[1:]:
        if (rule == "reach" and mass >= p) or (rule == "below" and mass + probs[v] > p):
            break
        kept.append(v)
        mass += probs[v]
    return [probs[v] / mass if v in kept else 0.0 for v in range(len(probs))]


def ancestral(own: int, mask: int, proposal: Sequence[float], t: float, s: float) -> list[float]:
    """MDLM with alpha = 1 - t: tokens with weight t - s, the mask with weight s; others are copied."""
    if own != mask:
        return [float(v == own) for v in range(len(proposal))]
    return [(s if v == mask else proposal[v] * (t - s)) / t for v in range(len(proposal))]


def sigma(strategy: str, a_t: float, a_s: float, eta: float, confidence: Sequence[float | None]) -> list[float]:
    """ReMDM's probability of remasking at each position; `confidence` is None at masked ones."""
    bound = 1.0 if a_t == 0 else min(1.0, (1 - a_s) / a_t)
    if strategy == "conf":
        weights = [0.0 if c is None else math.exp(-c) for c in confidence]
        return [bound * w / sum(weights) if sum(weights) else 0.0 for w in weights]
    value = {"cap": min(eta, bound), "rescale": eta * bound, "loop": min(eta, bound)}
    value["forward_backward"] = bound if a_t == 0 else min(bound, (a_s - a_t) / a_t)
    return [value[strategy]] * len(confidence)


def remask(own: int, mask: int, proposal: Sequence[float], a_t: float, a_s: float, sigma: float) -> list[float]:
    """ReMDM: equations of Wang et al. 2025."""
    size = len(proposal)
    if own != mask:
        return [1 - sigma if v == own else sigma if v == mask else 0.0 for v in range(size)]
    stay = (1 - a_s - sigma * a_t) / (1 - a_t)
    return [stay if v == mask else proposal[v] * (a_s - (1 - sigma) * a_t) / (1 - a_t) for v in range(size)]


def loop_alpha(t: float) -> float:
    """ReMDM's loop: on from 0.55 to 0.05, at alpha 0.9."""
    if t > 0.55:
        return 0.9 - 0.9 * (t - 0.55) / 0.45
    return 0.9 if t > 0.05 else 0.9 + 0.1 * (0.05 - t) / 0.05


def posterior(own: int, proposal: Sequence[float], a_t: float, a_s: float) -> list[float]:
    """Duo: the posterior of a uniform-state model, equation by equation."""
    size, ratio = len(proposal), a_t / a_s
    below = a_t * size * proposal[own] + 1 - a_t
    law = []
    for v in range(size):
        is_own = float(v == own)
        above = a_t * size * proposal[v] * is_own + (ratio - a_t) * is_own + (a_s - a_t) * proposal[v]
        law.append((above + (1 - ratio) * (1 - a_s) / size) / below)
    return law


def mixture(own: int, proposal: Sequence[float], a_t: float, a_s: float, kappa: float) -> list[float]:
    """Duo's predictor-corrector: kappa times the posterior, and the forward process of the proposal."""
    size = len(proposal)
    forward = [a_s * p + (1 - a_s) / size for p in proposal]
    return [kappa * b + (1 - kappa) * f for b, f in zip(posterior(own, proposal, a_t, a_s), forward, strict=True)]


def kappa(mode: str, a_t: float, a_s: float, eta: float) -> float:
    """Weight of the posterior: given, or such that the share of remasked tokens is ReMDM's."""
    if mode in ("posterior", "pc", "constant"):
        return {"posterior": 1.0, "pc": 0.0}.get(mode, eta)
    share = eta if mode == "remdm" else sigma(mode, a_t, a_s, eta, [0.0])[0]
    return 1.0 if a_s == 1 else min(1.0, max(0.0, 1 - share / (1 - a_s)))


def revealed_counts(length: int, steps: int) -> list[int]:
    """LLaDA: the same number in each step, one more in the first ones."""
    return [length // steps + (step < length % steps) for step in range(steps)]


def most_confident(confidence: Sequence[float | None], count: int) -> set[int]:
    """Positions of the largest values, the leftmost of equal ones; None cannot be chosen."""
    order = sorted((-c, i) for i, c in enumerate(confidence) if c is not None)
    return {i for _, i in order[:count]}


def invert(probs: Sequence[float], uniform: float) -> int:
    """The token in whose part of [0, 1) the number lies."""
    above = 0.0
    for v, p in enumerate(probs):
        above += p
        if uniform < above:
            return v
    return max(v for v, p in enumerate(probs) if p > 0)
