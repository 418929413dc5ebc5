"""The truncation rules: each maps rows in descending order to the part `[lo, hi)` that Q keeps, or to weights.

Thresholds on a probability or on a logit keep tokens equal to the threshold, so ties are kept together; nucleus (mass
strictly before below p), top_h and mirostat cut by position, so of equal logits the lower ids stay, as those go that
xtc leaves out. At least the most probable token stays (typical: the one nearest to the entropy).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openended.harness.decoders.descending_logits import DescendingLogits, Truncation, sum_before

if TYPE_CHECKING:
    from torch import Tensor


def keep_all(ranked: DescendingLogits) -> Truncation:
    """No truncation."""
    del ranked
    return Truncation(None, None)


def top_k(ranked: DescendingLogits, k: int) -> Truncation:
    """Keep the k best and all tokens equal to the k-th (Fan et al. 2018)."""
    surprisal = ranked.surprisal
    k = min(k, surprisal.shape[1])
    return Truncation(None, ranked.count_within(surprisal[:, k - 1 : k]))


def nucleus(ranked: DescendingLogits, p: float) -> Truncation:
    """Keep the smallest set of best tokens whose mass reaches p (Holtzman et al. 2020)."""
    import torch

    if p >= 1:
        return Truncation(None, None)
    limit = torch.full_like(ranked.log_z, p)
    return Truncation(None, torch.searchsorted(ranked.mass_before, limit).squeeze(-1).clamp_(1, ranked.z.shape[1]))


def min_p(ranked: DescendingLogits, p: float) -> Truncation:
    """Keep tokens with at least p times the best one's probability (Nguyen et al. 2025)."""
    if p <= 0:
        return Truncation(None, None)
    return Truncation(None, ranked.count_within(ranked.surprisal[:, :1] - math.log(p)))


def epsilon(ranked: DescendingLogits, eps: float) -> Truncation:
    """Keep tokens with probability at least eps (Hewitt et al. 2022)."""
    return Truncation(None, ranked.count_within(ranked.surprisal[:, :1].clamp(min=-math.log(eps))))


def eta(ranked: DescendingLogits, eps: float) -> Truncation:
    """Keep tokens with probability at least min(eps, sqrt(eps) exp(-entropy)) (Hewitt et al. 2022)."""
    limit = (ranked.entropy - 0.5 * math.log(eps)).clamp(min=-math.log(eps))
    return Truncation(None, ranked.count_within(limit.maximum(ranked.surprisal[:, :1])))


def top_n_sigma(ranked: DescendingLogits, n: float) -> Truncation:
    """Keep logits within n standard deviations of the best (Tang et al. 2025)."""
    return Truncation(None, ranked.count_within(ranked.surprisal[:, :1] + n * ranked.sigma()))


def top_h(ranked: DescendingLogits, h: float, candidates: int) -> Truncation:
    """Keep the best tokens while their summed entropy terms stay within h of the entropy.

    Both are of the softmax over the `candidates` best tokens alone (Potraghloo et al. 2025, as in transformers).
    """
    log_p = ranked.z[:, :candidates].log_softmax(-1)
    used = (-log_p.exp() * log_p).nan_to_num().cumsum(-1)
    count = (used <= used[:, -1:] * h).sum(-1).clamp_min_(1)
    head_decides = ranked.complete or candidates <= ranked.z.shape[1]
    return Truncation(None, count if head_decides else count.fill_(ranked.z.shape[1]))


def p_less(ranked: DescendingLogits, *, norm: bool) -> Truncation:
    """Keep tokens at least as probable as two draws are to agree, p >= Σp²; `norm`: p >= (V Σp² - 1) / (V - 1).

    The best token always is, but for rounding; of a uniform row everything stays (Tan et al. 2025).
    """
    chance = ranked.collision
    if norm:
        chance = ((ranked.vocab_size * chance - 1) / (ranked.vocab_size - 1)).clamp_min_(0.0)
    return Truncation(None, ranked.count_within((-chance.log()).maximum(ranked.surprisal[:, :1])))


def min_k(ranked: DescendingLogits, tau: float) -> Truncation:
    """Keep the tokens above the steepest step of the ordered logits, the step after rank i counting 1 / i.

    At least floor(tau / (z_(1) - z_(V))) stay, which matters on nearly flat rows, and tokens equal to the last one kept
    (Ding et al. 2026, Algorithm 1). Forbidden tokens count as the lowest of the others.
    """
    import torch

    size, lowest = ranked.z.shape[1], ranked.lowest()
    z = torch.maximum(ranked.z, lowest)
    steepest = ((z[:, :-1] - z[:, 1:]) / torch.arange(1, size, device=z.device)).max(-1)
    flat = (tau / (z[:, 0] - lowest[:, 0] + 1e-8)).floor().clamp(max=ranked.vocab_size).long()
    last = torch.maximum(steepest.indices, flat - 1)
    count = ranked.count_within(ranked.surprisal.gather(1, last.clamp(max=size - 1)[:, None]))
    if ranked.complete:
        return Truncation(None, count)
    beyond = steepest.values < (z[:, -1] - lowest[:, 0]) / size  # a step after the head could be steeper
    return Truncation(None, count.masked_fill(beyond | (last >= size), size))


def xtc(ranked: DescendingLogits, threshold: float, probability: float, temperature: float) -> Truncation:
    """Mix the softmax with one that lacks all tokens of p >= threshold but the least probable of them."""
    import torch

    reached = ranked.count_within(torch.full_like(ranked.log_z, -math.log(threshold)))
    gone = (reached - 1).clamp_min(0)[:, None]
    p, mass_before = ranked.p, ranked.mass_before
    if temperature != 1:
        p = (ranked.z / temperature - (ranked.logits.double() / temperature).logsumexp(-1, keepdim=True)).exp_()
        mass_before = sum_before(p)
    cut = p * (1 - probability)
    left = cut + p * (probability / (1 - mass_before.gather(1, gone)))
    weights = torch.where(torch.arange(p.shape[1], device=p.device) < gone, cut, left)
    raised = weights.gather(1, gone) > weights[:, :1]
    return Truncation(None, None, weights, gone.where(raised, 0).squeeze(1))


def typical(ranked: DescendingLogits, mass: float) -> Truncation:
    """Keep the tokens whose surprisal is nearest to the entropy until their mass reaches `mass` (Meister et al. 2023).

    In descending order these are the positions with |surprisal - H| <= t for the smallest t that has the mass; t is
    bisected, which needs no second sort.
    """
    import torch

    if mass >= 1:
        return Truncation(None, None)
    surprisal, entropy = ranked.surprisal, ranked.entropy
    last = surprisal[:, -1:].clamp(max=1e6)
    low = torch.zeros_like(entropy)
    high = torch.maximum((last - entropy).abs(), (entropy - surprisal[:, :1]).abs()) + 1.0

    def interval(t: Tensor) -> tuple[Tensor, Tensor]:
        lo = torch.searchsorted(surprisal, (entropy - t).contiguous())
        return lo.squeeze(-1), torch.searchsorted(surprisal, (entropy + t).contiguous(), right=True).squeeze(-1)

    for _ in range(60):
        middle = (low + high) / 2
        lo, hi = interval(middle)
        enough = ((ranked.mass(hi) - ranked.mass(lo)) >= mass)[:, None]
        high, low = torch.where(enough, middle, high), torch.where(enough, low, middle)
    lo, hi = interval(high)
    return Truncation(lo, torch.maximum(hi, lo + 1))


def mirostat_top_k(ranked: DescendingLogits, candidates: int) -> Truncation:
    """Keep as many best tokens as give the surprise limit under a Zipf law fitted to the best (Basu et al. 2021).

    State: the limit mu in bits. s = Σ t b / Σ t² over the `candidates` best, t_i = log((i + 1) / i),
    b_i = log(p_i / p_{i+1}); k = (ε 2^mu / (1 - V^-ε))^(1/s) with ε = s - 1.
    """
    import torch

    assert ranked.state is not None  # noqa: S101 - a decoder without state never calls this
    rank = torch.arange(1, min(candidates, ranked.z.shape[1]), dtype=torch.float64, device=ranked.z.device)
    t = ((rank + 1) / rank).log()
    z = ranked.z[:, : len(rank) + 1].clamp_min(-1e30)
    s = ((z[:, :-1] - z[:, 1:]) * t).sum(-1) / (t * t).sum()
    gap = s - 1
    near = gap.abs() < 1e-9  # the limit of ε / (1 - V^-ε) at 0
    size = math.log(ranked.vocab_size)
    scale = torch.where(near, 1 / size, gap / -torch.expm1(-gap * size))
    k = ((scale.log() + ranked.state[:, 0] * math.log(2)) / s.clamp_min(1e-9)).clamp(max=40).exp()
    return Truncation(None, k.round().clamp(1, ranked.vocab_size).to(torch.int64))


def mirostat_threshold(ranked: DescendingLogits) -> Truncation:
    """Keep tokens with surprise at most the limit (the second form of mirostat). State: the limit mu in bits."""
    assert ranked.state is not None  # noqa: S101
    return Truncation(None, ranked.count_within((ranked.state[:, :1] * math.log(2)).maximum(ranked.surprisal[:, :1])))


def _raise_to_power(x: Tensor, exponent: float) -> Tensor:
    """Raise to a power, 0 below 0. `pow` rounds the last columns differently, and `sum` by their number."""
    return x.clamp_min(0).log().mul(exponent).exp()


def entmax(ranked: DescendingLogits, alpha: float) -> Truncation:
    """Q_i = [(alpha - 1) z_i - tau]_+^(1 / (alpha - 1)), tau so that it sums to 1 (Peters et al. 2019).

    alpha = 2 is sparsemax (Martins and Astudillo 2016), alpha → 1 softmax. tau is bisected over the tokens that can be
    in the support, those within 1 / (alpha - 1) of the best logit.
    """
    reach = 1 / (alpha - 1)
    candidates = ranked.count_within(ranked.surprisal[:, :1] + reach)
    # An accelerator looks at the whole head: asking how many candidates there are would make the host wait.
    width = int(candidates.max()) if candidates.device.type == "cpu" else ranked.z.shape[1]
    x = ((ranked.z[:, :width] - ranked.z[:, :1]) * (alpha - 1)).clamp_min(-1.0)
    low, high = -x.new_ones(len(x), 1), x.new_zeros(len(x), 1)
    for _ in range(60):
        tau = (low + high) / 2
        over = _raise_to_power(x - tau, reach).cumsum(-1)[:, -1:] >= 1
        low, high = tau.where(over, low), tau.where(~over, high)
    weights = _raise_to_power(x - low, reach)
    support = (weights > 0).sum(-1)
    undecided = (candidates >= ranked.z.shape[1]) & (not ranked.complete)
    return Truncation(None, candidates.where(undecided, support), weights)
