"""What the probe compares draws with: Q as far as the most probable tokens that a server lists determine it.

Q is that of `decoders.q`, read off the listed head of a row. The list decides where no unlisted token can be
in Q's support and none of them can move the cut: top-k with k listed tokens; nucleus where the listed mass
reaches p; min-p and epsilon where the last listed token is below the threshold. At a temperature other than 1 before
the truncation the row's normalizer is known within bounds only: the list decides where both bounds give the same cut.
"""

import math
from dataclasses import dataclass

import numpy as np

from openended.harness import decoders
from openended.harness.backends.openai.replies import Listing, Token
from openended.harness.core import F64
from openended.harness.decoders import Nucleus, QDecoder, TopK


@dataclass(frozen=True, slots=True, eq=False)
class ListedQ:
    """Q as far as the listed tokens determine it."""

    tokens: tuple[Token, ...]  # the listed tokens that Q keeps, the best first
    q: F64  # their probabilities: under Q where it is `decided`, else among themselves; sums to 1
    decided: bool  # true: Q's whole support is listed
    next: Token | None = None  # the first listed token beyond the cut, which a rounding may let in
    share: tuple[float, float] = (0.0, 1.0)  # least and greatest probability that Q can give to `tokens` together


def compute_listed_q(decoder: QDecoder, listing: Listing, vocab_size: int) -> ListedQ:
    """Return Q as far as a listing determines it."""
    tokens, logs = listing.tokens, listing.log_probs
    if not tokens or decoder.untruncated:
        temperature = decoder.temperature_and_order()[0]
        mass = float(np.exp(logs).sum())
        scaled = logs / temperature
        weights: F64 = np.exp(scaled - scaled.max()) if tokens else scaled
        share = (mass, mass) if temperature == 1 else (0.0, 1.0)
        return ListedQ(tokens, weights / weights.sum() if tokens else weights, decided=False, share=share)
    cuts = [_cut(decoder, logs, log_z, vocab_size) for log_z in _bound_normalizers(decoder, logs, vocab_size)]
    (hi, shares, _), decided = cuts[0], all(cut[2] for cut in cuts) and len({cut[0] for cut in cuts}) == 1
    after = tokens[hi] if decided and hi < len(tokens) else None
    share = (1.0, 1.0) if decided else _bound_share(decoder, logs)
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


def _bound_normalizers(decoder: QDecoder, logs: F64, vocab_size: int) -> set[float]:
    """Return the least and greatest log of the row's sum of exponentials that the listing allows."""
    temperature, is_before = decoder.temperature_and_order()
    if not is_before or temperature == 1:
        return {0.0}
    listed = float(np.exp(logs / temperature).sum())
    rest = max(vocab_size - len(logs), 0) * math.exp(float(logs[-1]) / temperature)
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
