"""Logits → Q(· | context): the one place where every truncation rule is written.

A row is looked at in *descending order*: the most probable token first, equal logits by lower token id. In that order
every rule keeps one contiguous part `[lo, hi)`, so Q is (order, lo, hi, weights) and one function serves the sampler,
which looks at the few hundred best tokens (the *head*) and sorts a whole row only where that does not decide, and the
teacher-forced statistics, which share one sorted row among many decoders.

Boundary rules. nucleus keeps a token iff the mass strictly before it is below p (in exact arithmetic the rule of
transformers: drop ascending cumulative mass <= 1 - p). Thresholds on a probability (min_p, epsilon, eta, top_n_sigma,
typical) and the k-th logit of top_k keep tokens equal to the threshold, so ties are kept together; nucleus, top_h and
mirostat cut by position, so of equal logits the lower ids stay. At least the most probable token stays (typical: the
one nearest to the entropy).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from harness.decoding.base import QDecoder

SORT_ALL = 8192
"""Up to this vocabulary a whole row is sorted faster than its head is selected."""


@dataclass(slots=True)
class View:
    """Rows in descending order, whole or only their head."""

    z: Tensor
    """Descending logits after penalties and temperature, shape (n, k), float64."""
    log_z: Tensor
    """Log of the full row's sum of exponentials, shape (n, 1), float64."""
    p: Tensor
    """Softmax over the full row at these positions, shape (n, k), float64."""
    above: Tensor
    """Mass strictly before each position, shape (n, k + 1), float64; starts with 0."""
    logits: Tensor
    """The full rows in token order, shape (n, V), float32."""
    state: Tensor | None = None
    """State of decoders that have one, shape (n, s), float64."""
    memo: dict[str, Tensor] = field(default_factory=dict)
    """What rules derive from the rows, made once."""

    @property
    def complete(self) -> bool:
        """True where `z` holds the whole row."""
        return self.z.shape[1] == self.logits.shape[1]

    @property
    def vocab_size(self) -> int:
        """Size of the logits."""
        return self.logits.shape[1]

    @property
    def surprisal(self) -> Tensor:
        """-log p in nats, ascending, shape (n, k)."""
        if "surprisal" not in self.memo:
            self.memo["surprisal"] = self.log_z - self.z
        return self.memo["surprisal"]

    @property
    def squares_above(self) -> Tensor:
        """Sum of p squared strictly before each position, shape (n, k + 1)."""
        if "squares_above" not in self.memo:
            self.memo["squares_above"] = mass_before(self.p * self.p)
        return self.memo["squares_above"]

    def entropy(self) -> Tensor:
        """Entropy of the full softmax in nats, shape (n, 1), float64."""
        if "entropy" not in self.memo:
            if self.complete:
                terms = self.p * self.surprisal.clamp(max=1e30)
            else:
                surprisal = (self.log_z - self.logits.double()).clamp_(max=1e30)
                terms = (-surprisal).exp_().mul_(surprisal)
            self.memo["entropy"] = terms.sum(-1, keepdim=True)
        return self.memo["entropy"]

    def sigma(self) -> Tensor:
        """Standard deviation (n - 1) of the finite logits of the full row, shape (n, 1), float64."""
        logits = self.logits.double()
        finite = logits.isfinite()
        count = finite.sum(-1, keepdim=True)
        logits = logits.masked_fill(~finite, 0.0)
        mean = logits.sum(-1, keepdim=True) / count
        spread = ((logits - mean) ** 2).masked_fill(~finite, 0.0).sum(-1, keepdim=True)
        return (spread / (count - 1).clamp_min(1)).sqrt()

    def within(self, limit: Tensor) -> Tensor:
        """Number of positions with surprisal <= limit (n, 1); shape (n,); k means `perhaps more`."""
        import torch

        return torch.searchsorted(self.surprisal, limit.contiguous(), right=True).squeeze(-1)

    def mass(self, position: Tensor) -> Tensor:
        """Mass strictly before `position` (n,), shape (n,)."""
        return self.above.gather(1, position.clamp(max=self.z.shape[1])[:, None]).squeeze(1)


@dataclass(slots=True)
class Cut:
    """What Q keeps of each row's descending order."""

    lo: Tensor | None
    """First position kept, shape (n,), int64; None: 0."""
    hi: Tensor | None
    """First position after it, shape (n,), int64; None: the whole vocabulary."""
    weights: Tensor | None = None
    """Unnormalised Q of the first positions, shape (n, w), where it is not the softmax's."""


def all_of(view: View) -> Cut:
    """No truncation."""
    del view
    return Cut(None, None)


def top_k(view: View, k: int) -> Cut:
    """Keep the k best and all tokens equal to the k-th (Fan et al. 2018)."""
    surprisal = view.surprisal
    k = min(k, surprisal.shape[1])
    return Cut(None, view.within(surprisal[:, k - 1 : k]))


def nucleus(view: View, p: float) -> Cut:
    """Keep the smallest set of best tokens whose mass reaches p (Holtzman et al. 2020)."""
    import torch

    if p >= 1:
        return Cut(None, None)
    limit = torch.full_like(view.log_z, p)
    kept = torch.searchsorted(view.above[:, :-1].contiguous(), limit).squeeze(-1)
    return Cut(None, kept.clamp_min_(1))


def min_p(view: View, ratio: float) -> Cut:
    """Keep tokens with at least `ratio` times the best one's probability (Nguyen et al. 2025)."""
    if ratio <= 0:
        return Cut(None, None)
    return Cut(None, view.within(view.surprisal[:, :1] - math.log(ratio)))


def epsilon(view: View, eps: float) -> Cut:
    """Keep tokens with probability at least eps (Hewitt et al. 2022)."""
    import torch

    best = view.surprisal[:, :1]
    return Cut(None, view.within(torch.clamp(best, min=-math.log(eps))))


def eta(view: View, eps: float) -> Cut:
    """Keep tokens with probability at least min(eps, sqrt(eps) exp(-entropy)) (Hewitt et al. 2022)."""
    import torch

    limit = torch.clamp(view.entropy() - 0.5 * math.log(eps), min=-math.log(eps))
    return Cut(None, view.within(torch.maximum(limit, view.surprisal[:, :1])))


def top_n_sigma(view: View, n: float) -> Cut:
    """Keep logits within n standard deviations of the best (Tang et al. 2025)."""
    return Cut(None, view.within(view.surprisal[:, :1] + n * view.sigma()))


def top_h(view: View, ratio: float, candidates: int) -> Cut:
    """Keep the best tokens while their summed entropy terms stay within `ratio` of the entropy.

    Both are of the softmax over the `candidates` best tokens alone (Potraghloo et al. 2025, as in transformers).
    """
    import torch

    log_p = torch.log_softmax(view.z[:, :candidates], dim=-1)
    terms = torch.nan_to_num(-log_p.exp() * log_p)
    budget = terms.sum(-1, keepdim=True) * ratio
    kept = (terms.cumsum(-1) <= budget).sum(-1)
    return Cut(None, kept.clamp_min_(1))


def typical(view: View, mass: float) -> Cut:
    """Keep the tokens whose surprisal is nearest to the entropy until their mass reaches `mass` (Meister et al. 2023).

    In descending order these are the positions with |surprisal - H| <= t for the smallest t that has the mass; t is
    bisected, which needs no second sort.
    """
    import torch

    if mass >= 1:
        return Cut(None, None)
    surprisal, entropy = view.surprisal, view.entropy()
    last = surprisal[:, -1:].clamp(max=1e6)
    low = torch.zeros_like(entropy)
    high = torch.maximum((last - entropy).abs(), (entropy - surprisal[:, :1]).abs()) + 1.0

    def interval(t: Tensor) -> tuple[Tensor, Tensor]:
        lo = torch.searchsorted(surprisal, (entropy - t).contiguous())
        return lo.squeeze(-1), torch.searchsorted(surprisal, (entropy + t).contiguous(), right=True).squeeze(-1)

    for _ in range(60):
        middle = (low + high) / 2
        lo, hi = interval(middle)
        enough = ((view.mass(hi) - view.mass(lo)) >= mass)[:, None]
        high, low = torch.where(enough, middle, high), torch.where(enough, low, middle)
    lo, hi = interval(high)
    return Cut(lo, torch.maximum(hi, lo + 1))


def mirostat_top_k(view: View, candidates: int) -> Cut:
    """Keep as many best tokens as give the surprise limit under a Zipf law fitted to the best (Basu et al. 2021).

    State: the limit mu in bits. s = Σ t b / Σ t² over the `candidates` best, t_i = log((i + 1) / i),
    b_i = log(p_i / p_{i+1}); k = (ε 2^mu / (1 - V^-ε))^(1/s) with ε = s - 1.
    """
    import torch

    assert view.state is not None  # noqa: S101 - a decoder without state never calls this
    rank = torch.arange(1, min(candidates, view.z.shape[1]), dtype=torch.float64, device=view.z.device)
    t = ((rank + 1) / rank).log()
    z = view.z[:, : len(rank) + 1].clamp_min(-1e30)
    s = ((z[:, :-1] - z[:, 1:]) * t).sum(-1) / (t * t).sum()
    gap = s - 1
    near = gap.abs() < 1e-9  # the limit of ε / (1 - V^-ε) at 0
    size = math.log(view.vocab_size)
    scale = torch.where(near, 1 / size, gap / -torch.expm1(-gap * size))
    k = ((scale.log() + view.state[:, 0] * math.log(2)) / s.clamp_min(1e-9)).clamp(max=40).exp()
    return Cut(None, k.round().clamp(1, view.vocab_size).to(torch.int64))


def mirostat_threshold(view: View) -> Cut:
    """Keep tokens with surprise at most the limit (the second form of mirostat). State: the limit mu in bits."""
    import torch

    assert view.state is not None  # noqa: S101
    return Cut(None, view.within(torch.maximum(view.state[:, :1] * math.log(2), view.surprisal[:, :1])))


def entmax(view: View, alpha: float) -> Cut:
    """Q_i = [(alpha - 1) z_i - tau]_+^(1 / (alpha - 1)), tau so that it sums to 1 (Peters et al. 2019).

    alpha = 2 is sparsemax (Martins and Astudillo 2016), alpha → 1 softmax. tau is bisected over the tokens that can be
    in the support, those within 1 / (alpha - 1) of the best logit.
    """
    reach = 1 / (alpha - 1)
    candidates = view.within(view.surprisal[:, :1] + reach)
    width = int(candidates.max())
    x = ((view.z[:, :width] - view.z[:, :1]) * (alpha - 1)).clamp_min(-1.0)
    low, high = -x.new_ones(len(x), 1), x.new_zeros(len(x), 1)
    for _ in range(60):
        tau = (low + high) / 2
        over = (x - tau).clamp_min(0).pow(reach).sum(-1, keepdim=True) >= 1
        low, high = tau.where(over, low), tau.where(~over, high)
    weights = (x - low).clamp_min(0).pow(reach)
    support = (weights > 0).sum(-1)
    undecided = (candidates >= view.z.shape[1]) & (not view.complete)
    return Cut(None, candidates.where(undecided, support), weights)


def look(logits: Tensor, head: int | None, state: Tensor | None = None, ordered: Tensor | None = None) -> View:
    """Order rows after penalties and temperature.

    Args:
        logits: Shape (n, V), float32.
        head: Number of best tokens to look at; None: all.
        state: Shape (n, s), of decoders that have one.
        ordered: The best logits descending, if they are known already.
    """
    import torch

    k = logits.shape[1] if head is None else min(head, logits.shape[1])
    best = torch.softmax(logits, dim=-1).amax(-1, keepdim=True).double()
    z = (descending(logits, k) if ordered is None else ordered).double()
    return view_of(z, z[:, :1] - best.log(), logits, state)


def view_of(z: Tensor, log_z: Tensor, logits: Tensor, state: Tensor | None = None) -> View:
    """Build a view from descending logits and the log-sum-exp of the row."""
    import torch

    p = (z - log_z).exp_()
    above = torch.zeros((len(z), z.shape[1] + 1), dtype=torch.float64, device=z.device)
    torch.cumsum(p, dim=-1, out=above[:, 1:])
    return View(z, log_z, p, above, logits, state)


def descending(logits: Tensor, k: int) -> Tensor:
    """The k largest values of each row, descending; on CPU by NumPy, whose vectorised sorts are far faster."""
    import numpy as np
    import torch

    size = logits.shape[1]
    if logits.device.type != "cpu":
        return torch.topk(logits, k).values if k < size else torch.sort(logits, descending=True).values
    rows = logits.numpy()
    if k == size or size <= SORT_ALL:
        ordered = np.sort(rows, axis=-1)[:, size - k :]
    else:
        ordered = np.sort(np.partition(rows, size - k, axis=-1)[:, size - k :], axis=-1)
    return torch.from_numpy(np.ascontiguousarray(ordered[:, ::-1]))


def argmax(logits: Tensor) -> Tensor:
    """Lowest id of the largest logit of each row, shape (n,); on CPU by NumPy, which is far faster."""
    import torch

    if logits.device.type != "cpu":
        return logits.argmax(-1)
    return torch.from_numpy(logits.numpy().argmax(-1))


@dataclass(slots=True)
class Weighed:
    """Q of rows, ready to be drawn from or read: positions are those of the descending order."""

    view: View
    lo: Tensor
    hi: Tensor
    weights: Tensor
    """Unnormalised Q, shape (n, k), right inside [lo, hi) only."""
    before: Tensor
    """Sum of weights strictly before each position, shape (n, w + 1)."""
    total: Tensor
    """Sum of weights over [lo, hi), shape (n,)."""
    undecided: Tensor
    """True where the head is too short for this row's Q, shape (n,)."""
    whole: bool
    """True where Q is the untruncated softmax."""

    def draw(self, u: Tensor) -> tuple[Tensor, Tensor]:
        """Return positions (n,) of the inverse CDF at u (n,) in [0, 1), and which rows the head does not reach."""
        import torch

        start = self.before.gather(1, self.lo[:, None]).squeeze(1)
        target = start + u * self.total
        position = torch.searchsorted(self.before, target[:, None].contiguous(), right=True).squeeze(1) - 1
        beyond = self.undecided
        if self.whole:
            beyond = (target >= self.before[:, -1]) & (not self.view.complete)
        last = self.hi.clamp(max=self.weights.shape[1]) - 1
        return torch.minimum(torch.maximum(position, self.lo), last), beyond

    def log_prob(self, position: Tensor) -> Tensor:
        """Natural log of Q at positions (n,) inside [lo, hi)."""
        return (self.weights.gather(1, position[:, None]).squeeze(1) / self.total).log()


def weigh(decoder: QDecoder, view: View) -> Weighed:
    """Apply a decoder's truncation to ordered rows and renormalise."""
    import torch

    cut = decoder.cut(view)
    rows, k = view.z.shape
    lo = torch.zeros(rows, dtype=torch.int64, device=view.z.device) if cut.lo is None else cut.lo
    whole = cut.hi is None and cut.lo is None and cut.weights is None
    hi = torch.full_like(lo, view.vocab_size) if cut.hi is None else cut.hi
    undecided = (hi >= k) & (not view.complete)
    weights, before = view.p, view.above
    temperature, first = decoder.heat()
    if cut.weights is not None:
        weights, before = cut.weights, mass_before(cut.weights)
    elif not first and temperature != 1 and not whole:
        weights = ((view.z - view.z[:, :1]) / temperature).exp_()
        before = mass_before(weights)
    end = hi.clamp(max=weights.shape[1])
    total = (before.gather(1, end[:, None]) - before.gather(1, lo.clamp(max=k - 1)[:, None])).squeeze(1)
    if whole and not view.complete:
        total = torch.ones_like(total)
    return Weighed(view, lo.clamp(max=k - 1), hi, weights, before, total, undecided, whole)


def mass_before(weights: Tensor) -> Tensor:
    """Sum of weights (n, w) strictly before each position, shape (n, w + 1), float64."""
    import torch

    out = torch.zeros((len(weights), weights.shape[1] + 1), dtype=torch.float64, device=weights.device)
    torch.cumsum(weights, dim=-1, out=out[:, 1:])
    return out


def heated(decoder: QDecoder, logits: Tensor) -> Tensor:
    """Apply the temperature where it comes before truncation (or where there is none to come before)."""
    temperature, first = decoder.heat()
    return logits / temperature if temperature != 1 and (first or decoder.untruncated) else logits


def draw(
    decoder: QDecoder, logits: Tensor, u: Tensor, state: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Draw one token a row by inverse CDF along the descending order.

    Two decoders with the same u choose the same token wherever their Q agree, and mostly where they are close.

    Args:
        decoder: Any decoder with a Q.
        logits: Shape (n, V), float32, penalties applied.
        u: Shape (n,), float64 in [0, 1).
        state: Shape (n, s), float64, of decoders that have one.

    Returns:
        Token ids (n,) int64, natural log of Q (n,) float64, the next state.
    """
    import torch

    if decoder.one_hot:
        token = argmax(logits)
        return token, torch.zeros(len(token), dtype=torch.float64, device=logits.device), None
    hot = heated(decoder, logits)
    q = weigh(decoder, look(hot, decoder.head, state))
    position, beyond = q.draw(u)
    value, log_q = q.view.z.gather(1, position[:, None]).squeeze(1), q.log_prob(position)
    rank = position - torch.searchsorted(q.view.surprisal, (q.view.log_z - value[:, None]).contiguous()).squeeze(1)
    if not q.view.complete and bool(beyond.any()):
        rows = beyond.nonzero().squeeze(1)
        full = weigh(decoder, look(hot[rows], None, None if state is None else state[rows]))
        at, _ = full.draw(u[rows])
        found = full.view.z.gather(1, at[:, None]).squeeze(1)
        value[rows], log_q[rows] = found, full.log_prob(at)
        rank[rows] = at - torch.searchsorted(
            full.view.surprisal, (full.view.log_z - found[:, None]).contiguous()
        ).squeeze(1)
    token = _nth_equal(hot, value, rank)
    surprise = None if state is None else (q.view.log_z.squeeze(1) - value)
    return token, log_q, decoder.next_state(state, surprise)


def _nth_equal(logits: Tensor, value: Tensor, rank: Tensor) -> Tensor:
    """Token id of the rank-th (from 0) logit equal to `value`, by ascending id; shape (n,)."""
    import torch

    equal = logits == value.to(logits.dtype)[:, None]
    if not bool(rank.any()):
        return equal.to(torch.uint8).argmax(-1)
    order = equal.cumsum(-1, dtype=torch.int32)
    return ((order == (rank + 1)[:, None]) & equal).to(torch.uint8).argmax(-1)


def dense(decoder: QDecoder, logits: Tensor, state: Tensor | None = None) -> Tensor:
    """Q over the whole vocabulary in token order, shape (n, V), float64: the definition, for tests and small uses.

    Args:
        decoder: Any decoder with a Q.
        logits: Shape (n, V), float32, penalties applied.
        state: Shape (n, s) of decoders that have one.
    """
    import torch

    out = torch.zeros(logits.shape, dtype=torch.float64, device=logits.device)
    if decoder.one_hot:
        return out.scatter_(1, logits.argmax(-1, keepdim=True), 1.0)
    hot = heated(decoder, logits)
    q = weigh(decoder, look(hot, None, state))
    ids = torch.sort(hot, dim=-1, descending=True, stable=True).indices
    at = torch.arange(q.weights.shape[1], device=logits.device)
    inside = (at >= q.lo[:, None]) & (at < q.hi[:, None])
    kept = torch.where(inside, q.weights, 0.0) / q.total[:, None]
    return out.scatter_(1, ids[:, : kept.shape[1]], kept)
