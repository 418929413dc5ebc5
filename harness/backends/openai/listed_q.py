"""Compute Q from the most probable tokens that a server lists: exact where the list determines it.

Q is that of `decoders.q`, read off the listed head of a row. The list decides where no unlisted token can be
in Q's support and none of them can move the cut: greedy; top-k with k listed tokens; nucleus where the listed mass
reaches p; min-p and epsilon where the last listed token is below the threshold. At a temperature other than 1 before
the truncation, and where the end of text is forbidden but not listed, the row's normalizer is known within bounds only:
the list decides where both bounds give the same cut.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from openended.harness import decoders
from openended.harness.backends.openai.replies import Listing, PromptLogProbs, Token
from openended.harness.core import F64, UndefinedMetric
from openended.harness.decoders import Nucleus, QDecoder, QTable, TopK


@dataclass(frozen=True, slots=True, eq=False)
class ListedQ:
    """Q as far as the listed tokens determine it."""

    tokens: tuple[Token, ...]  # the listed tokens that Q keeps, the best first
    q: F64  # their probabilities: under Q where it is `decided`, else among themselves; sums to 1
    decided: bool  # true: Q's whole support is listed
    next: Token | None = None  # the first listed token beyond the cut, which a rounding may let in
    share: tuple[float, float] = (0.0, 1.0)  # least and greatest probability that Q can give to `tokens` together


def compute_listed_q(decoder: QDecoder, listing: Listing, vocab_size: int, banned: Collection[int] = ()) -> ListedQ:
    """Return Q as far as a listing determines it."""
    allowed = [i for i, token in enumerate(listing.tokens) if token not in banned]
    tokens = tuple(listing.tokens[i] for i in allowed)
    logs = listing.log_probs[allowed]
    if decoder.one_hot and tokens:
        return ListedQ(tokens[:1], np.ones(1), True, tokens[1] if len(tokens) > 1 else None, (1.0, 1.0))
    if not tokens or decoder.untruncated:
        temperature = decoder.temperature_and_order()[0]
        whole = float(np.exp(logs).sum()) if temperature == 1 and not banned else None
        share = (0.0, 1.0) if whole is None else (whole, whole)
        scaled = logs / temperature
        weights: F64 = np.exp(scaled - scaled.max()) if tokens else scaled
        return ListedQ(tokens, weights / weights.sum() if tokens else weights, decided=False, share=share)
    unseen = len(set(banned)) - (len(listing.tokens) - len(allowed))
    seen = np.delete(listing.log_probs, allowed)
    cuts = [_cut(decoder, logs, z, vocab_size) for z in _bound_normalizers(decoder, logs, seen, unseen, vocab_size)]
    (hi, shares, _), decided = cuts[0], all(cut[2] for cut in cuts) and len({cut[0] for cut in cuts}) == 1
    after = tokens[hi] if decided and hi < len(tokens) else None
    share = (1.0, 1.0) if decided else _bound_share(decoder, logs) if not banned else (0.0, 1.0)
    return ListedQ(tokens[:hi], shares, decided=decided, next=after, share=share)


def _bound_share(decoder: QDecoder, logs: F64) -> tuple[float, float]:
    """Return bounds of what Q gives to all listed tokens, where it keeps them all and some unlisted ones."""
    temperature, _ = decoder.temperature_and_order()
    weights = np.exp((logs - logs[0]) / temperature)
    if isinstance(decoder, TopK):
        return float(weights.sum() / (weights.sum() + (decoder.k - len(logs)) * weights[-1])), 1.0
    if isinstance(decoder, Nucleus) and temperature == 1:
        mass, last = float(np.exp(logs).sum()), float(np.exp(logs[-1]))
        return mass / min(1.0, decoder.p + last), min(1.0, mass / decoder.p)
    return 0.0, 1.0


def _bound_normalizers(decoder: QDecoder, logs: F64, banned: F64, unseen: int, vocab_size: int) -> set[float]:
    """Return the least and greatest log of the row's sum of exponentials that the listing allows."""
    temperature, is_before = decoder.temperature_and_order()
    last = float(logs[-1])
    if not is_before or temperature == 1:
        banned_mass = float(np.exp(banned).sum())
        low = 1.0 - banned_mass - unseen * math.exp(last)
        return {math.log(max(low, 1e-12)), math.log(max(1.0 - banned_mass, 1e-12))}
    listed = float(np.exp(logs / temperature).sum())
    rest = max(vocab_size - len(logs), 0) * math.exp(last / temperature)
    return {math.log(listed), math.log(listed + rest)}


def _cut(decoder: QDecoder, logs: F64, log_z: float, vocab_size: int) -> tuple[int, F64, bool]:
    """Return the listed tokens that Q keeps, their shares, and whether Q can keep no other token."""
    import torch

    temperature, is_before = decoder.temperature_and_order()
    z = torch.from_numpy(logs / temperature if is_before else logs.copy())[None]
    row = torch.empty((1, max(vocab_size, len(logs) + 1)), device="meta")  # only its width is read
    truncated = decoders.truncate_and_renormalize(
        decoder, decoders.build_descending_logits(z, torch.tensor([[log_z]], dtype=torch.float64), row)
    )
    hi = min(int(truncated.hi), len(logs))
    if isinstance(decoder, TopK):
        decided = decoder.k <= len(logs)  # a tie beyond the list cannot be seen
    elif isinstance(decoder, Nucleus):
        decided = float(truncated.view.p.sum()) >= decoder.p
    else:
        decided = not bool(truncated.needs_whole_row)
    weights = truncated.weights[0, :hi].numpy()
    return hi, weights / weights.sum(), decided


class CertifiedQ:
    """Statistics of one decoder's Q, filled as rows come in."""

    def __init__(self, decoder: QDecoder, size: int, vocab_size: int, end_ids: Sequence[int], least: int) -> None:
        self.decoder, self.vocab_size, self.least = decoder, vocab_size, least
        self.end_ids = frozenset(end_ids)
        self.table = QTable.empty(size)
        self.missing = 0  # positions that the lists do not certify

    def add_text(self, start: int, ids: Sequence[int], first: int, read: PromptLogProbs) -> None:
        """Add the positions of a text from `first` on; `start` is the first one's index in the table."""
        table = self.table
        for step, position in enumerate(range(first, len(ids))):
            top, at = read.tops[position], start + step
            banned = self.end_ids if step < self.least else frozenset[int]()
            best = next((int(t) for t in top.tokens if t not in banned), None) if top is not None else None
            if top is None or best is None:
                self.missing += 1
                continue
            row = self._compute(ids[position], float(read.log_probs[position]), top, banned)
            if row is None:
                self.missing += 1
                continue
            table.gold_prob[at], table.sum_sq[at], table.support[at] = row
            table.argmax[at] = best

    def _compute(
        self, gold: int, log_prob: float, top: Listing, banned: frozenset[int]
    ) -> tuple[float, float, int] | None:
        """Return the true token's probability, the sum of squares and the support; None if the list decides none."""
        decoder = self.decoder
        if decoder.untruncated and not decoder.one_hot:
            if decoder.temperature_and_order()[0] != 1 or not banned <= set(top.tokens):
                return None
            banned_mass = sum(float(np.exp(p)) for t, p in zip(top.tokens, top.log_probs, strict=True) if t in banned)
            gold_prob = 0.0 if gold in banned else float(np.exp(log_prob)) / (1.0 - banned_mass)
            return gold_prob, np.nan, self.vocab_size - len(banned)  # the squares of the tail are not listed
        head = compute_listed_q(decoder, top, self.vocab_size, banned)
        if not head.decided:
            return None
        inside = {token: float(q) for token, q in zip(head.tokens, head.q, strict=True)}
        return inside.get(gold, 0.0), float(head.q @ head.q), len(head.tokens)

    def finish(self) -> QTable:
        total = len(self.table.gold_prob)
        if self.missing:
            raise UndefinedMetric(
                f"the tokens that the server lists do not determine Q at {self.missing} of {total} positions "
                f"({self.missing / total:.1%}): more listed tokens may (model.logprobs, vllm serve --max-logprobs), or "
                "a model in this process"
            )
        return self.table


def count_listed_tokens(decoders: Sequence[QDecoder], most: int, spare: int = 0) -> int:
    """Return how many tokens to ask for at each position; `spare` of them may be forbidden."""
    needed = [1 if d.one_hot or d.untruncated else getattr(d, "k", most) for d in decoders]
    return max(1, min(most, max(needed, default=1) + spare))
