"""Prompts of the probe, with the server's own list of the most probable next tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from openended.harness.backends.openai.replies import Listing
from openended.harness.backends.openai.requests import CompletionRequest
from openended.harness.backends.openai.sampling import NEUTRAL, Sampling
from openended.harness.backends.openai.session import ServerSession
from openended.harness.core import derive_seed

# Beginnings after which many words are likely, and repetitive ones, which reveal a penalty.
BEGINNINGS = ("The", "In the", "She said that the", "We use a", "Return the", "This is one of the")
REPETITIVE = (
    "red blue green red blue green red blue green red blue",
    "the name and the name and the name and the",
    "a list of a list of a list of a",
)
DRAWS, MANY_DRAWS = 512, 1024
RAW = 0.2
"""Nats by which two readings of one log-probability may differ (half precision, another batch)."""
PATH_LENGTH = 32
"""Tokens of the texts that are searched for a position where few tokens are likely."""
FULL = 0.97
"""Listed mass at which a hidden top-p of 0.9 to 0.95 shows best: what it cuts off is not in the list."""


@dataclass
class ProbePrompts:
    """The prompts of one probe."""

    server: ServerSession
    salt: int = 0
    listings: dict[str, Listing] = field(default_factory=dict)
    """Prompt → the most probable next tokens, by the server."""

    def make_request(self, text: str, *, max_tokens: int = 1, sampling: Sampling = NEUTRAL) -> CompletionRequest:
        """Return the request for a continuation of a prompt."""
        ids = self.server.read(text)
        return CompletionRequest(ids=ids, text=text, max_tokens=max_tokens, sampling=sampling, seed=self.seed(text))

    def seed(self, *names: str | int) -> int:
        """Return the seed of these names."""
        return derive_seed(self.salt, "probe", *names)

    def seeds(self, *names: str | int) -> Callable[[int], int]:
        """Return the seeds of a series of draws."""
        return lambda number: self.seed(*names, number)

    async def fetch_listings(self) -> bool:
        """Ask for the most probable tokens after each prompt; false where the server lists none."""
        listings = {}
        for text in (*BEGINNINGS, *REPETITIVE):
            listing = await self.server.top(self.make_request(text))
            if listing is None:
                return False
            listings[text] = listing
        self.listings = listings
        if self.server.builder.chat:
            return True
        candidates: list[tuple[str, Listing]] = []
        for start in REPETITIVE:  # the most probable text has positions where few tokens are likely
            request = self.make_request(start, max_tokens=PATH_LENGTH, sampling=Sampling(temperature=0.0))
            candidates += [
                (start + more, listing) for more, listing in await self.server.list_tokens_along_text(request)
            ]
        for text, _ in sorted(candidates, key=lambda candidate: abs(candidate[1].mass - FULL))[:1]:
            listing = await self.server.top(self.make_request(text))
            self.listings |= {text: listing} if listing is not None else {}
        return True

    @property
    def flattest_prompt(self) -> str:
        """The prompt whose listed next tokens have the smallest total probability."""
        return min(BEGINNINGS, key=lambda text: self.listings[text].mass if self.listings else 0.0)

    def select_prompts(self) -> list[tuple[str, int]]:
        """Return prompts with many, with few and with repetitive likely tokens, each with its number of draws."""
        near = min(self.listings, key=lambda text: abs(self.listings[text].mass - FULL))
        again = sorted(REPETITIVE, key=lambda text: abs(float(np.exp(self.listings[text].log_probs[0])) - 0.6))[:2]
        return [*dict([(self.flattest_prompt, DRAWS), (near, MANY_DRAWS), *((text, DRAWS) for text in again)]).items()]


def are_same_model(first: Mapping[str, Listing], second: Mapping[str, Listing]) -> bool | None:
    """Compare the log-probabilities that two endpoints list for the same prompts; None if one lists none."""
    shared = first.keys() & second.keys()
    differences = [median_difference(first[text], second[text]) for text in shared]
    return float(np.median(differences)) <= RAW if differences else None


def median_difference(first: Listing, other: Listing) -> float:
    """Return the median difference of the log-probabilities that two listings share, in nats."""
    second = dict(zip(other.tokens, other.log_probs, strict=True))
    shared = [abs(p - second[t]) for t, p in zip(first.tokens, first.log_probs, strict=True) if t in second]
    return float(np.median(shared)) if len(shared) * 2 > len(first.tokens) else float("inf")
