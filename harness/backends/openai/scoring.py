"""Score given texts with a server: token losses, and statistics of Q that its lists determine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from openended.harness.backends.openai.client import run_concurrently
from openended.harness.backends.openai.listed_q import compute_listed_q
from openended.harness.backends.openai.replies import Listing, PromptLogProbs
from openended.harness.backends.openai.requests import CompletionRequest
from openended.harness.backends.openai.session import ServerSession
from openended.harness.core import DataError, UndefinedMetric
from openended.harness.decoders import QDecoder, QTable

EndpointOrder = Callable[[int], Sequence[int]]
"""Number of a row → the endpoints that it may go to, its own first."""


async def read_rows(
    server: ServerSession,
    rows: Sequence[tuple[int, ...]],
    endpoints: EndpointOrder,
    record: Callable[[int, PromptLogProbs], None],
    listed: int = 0,
) -> None:
    """Ask for the log-probabilities of every token of each row."""

    async def read_row(number: int) -> None:
        ids = rows[number]
        inside = ids[len(server.bos_prefix) :] if ids[: len(server.bos_prefix)] == server.bos_prefix else ids
        text = server.tokenizer.decode(inside) if server.tokenizer is not None and not server.served.sends_ids else ""
        request = CompletionRequest(ids=ids, text=text, max_tokens=1, echo=True, listed=listed)
        try:
            record(number, await server.send(request, endpoints(number), server.log_prob_reader(request)))
        except DataError as err:
            raise DataError(f"text {number} of {len(rows)}: {err}") from err

    await run_concurrently(range(len(rows)), read_row, server.workers)


class CertifiedQ:
    """Statistics of one decoder's Q, filled as rows come in."""

    def __init__(self, decoder: QDecoder, size: int, vocab_size: int, end_ids: Sequence[int], least: int) -> None:
        self.decoder, self.vocab_size, self.least = decoder, vocab_size, least
        self.end_ids = frozenset(end_ids)
        self.table = QTable.empty(size)
        self.missing = 0
        """Positions that the lists do not certify."""

    def add_text(self, start: int, ids: Sequence[int], first: int, read: PromptLogProbs) -> None:
        """Add the positions of a text from `first` on; `start` is the first one's index in the table."""
        for step, position in enumerate(range(first, len(ids))):
            self._add(start + step, step, ids[position], float(read.log_probs[position]), read.tops[position])

    def _add(self, at: int, step: int, gold: int, log_prob: float, top: Listing | None) -> None:
        banned = self.end_ids if step < self.least else frozenset[int]()
        statistics = self._compute(gold, log_prob, top, banned) if top is not None else None
        if statistics is None:
            self.missing += 1
            return
        self.table.gold_prob[at], self.table.sum_sq[at], self.table.support[at], self.table.argmax[at] = statistics

    def _compute(
        self, gold: int, log_prob: float, top: Listing, banned: frozenset[int]
    ) -> tuple[float, float, int, int] | None:
        decoder = self.decoder
        best = next((int(t) for t in top.tokens if t not in banned), None)
        if best is None:
            return None
        if decoder.untruncated and not decoder.one_hot:
            all_listed = banned <= set(top.tokens)
            if decoder.temperature_and_order()[0] != 1 or not all_listed:
                return None
            banned_mass = sum(float(np.exp(p)) for t, p in zip(top.tokens, top.log_probs, strict=True) if t in banned)
            gold_prob = 0.0 if gold in banned else float(np.exp(log_prob)) / (1.0 - banned_mass)
            return gold_prob, np.nan, self.vocab_size - len(banned), best  # the squares of the tail are not listed
        head = compute_listed_q(decoder, top, self.vocab_size, banned)
        if not head.decided:
            return None
        inside = {token: float(q) for token, q in zip(head.tokens, head.q, strict=True)}
        return inside.get(gold, 0.0), float(head.q @ head.q), len(head.tokens), best

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
