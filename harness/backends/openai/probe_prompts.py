"""The prompts of the probe, and what the server itself says of the tokens that can follow them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from openended.harness.backends.openai.replies import Listing
from openended.harness.backends.openai.requests import Ask
from openended.harness.backends.openai.sampling import NEUTRAL, Sampling
from openended.harness.backends.openai.session import Exchange
from openended.harness.core import derive_seed

# Beginnings after which many words can come; ones that repeat themselves, so that a penalty shows.
BEGINNINGS = ("The", "In the", "She said that the", "We use a", "Return the", "This is one of the")
AGAIN = (
    "red blue green red blue green red blue green red blue",
    "the name and the name and the name and the",
    "a list of a list of a list of a",
)
DRAWS, MANY_DRAWS = 512, 1024
ALONG = 32
"""Tokens of the texts along which few tokens can come somewhere."""
FULL = 0.97
"""Listed mass at which a hidden top-p of 0.9 to 0.95 shows best: what it cuts off is not in the list."""


@dataclass
class ProbePrompts:
    """The prompts of one probe.

    Args:
        server: Asks the endpoint.
        salt: Names the draws.
    """

    server: Exchange
    salt: int = 0
    listings: dict[str, Listing] = field(default_factory=dict)
    """Prompt → the most probable next tokens, by the server."""

    def ask(self, text: str, *, max_tokens: int = 1, sampling: Sampling = NEUTRAL) -> Ask:
        """Return what asks for a continuation of a prompt."""
        ids = self.server.read(text)
        return Ask(ids=ids, text=text, max_tokens=max_tokens, sampling=sampling, seed=self.seed(text))

    def seed(self, *names: str | int) -> int:
        """Return the seed of these names."""
        return derive_seed(self.salt, "probe", *names)

    def seeds(self, *names: str | int) -> Callable[[int], int]:
        """Return the seeds of a series of draws."""
        return lambda number: self.seed(*names, number)

    async def look(self) -> bool:
        """Ask for the most probable tokens after each prompt; false where the server lists none."""
        made = {}
        for text in (*BEGINNINGS, *AGAIN):
            found = await self.server.top(self.ask(text))
            if found is None:
                return False
            made[text] = found
        self.listings = made
        if self.server.speech.chat:
            return True
        places: list[tuple[str, Listing]] = []
        for start in AGAIN:  # along the most probable text there are places where few tokens can come
            ask = self.ask(start, max_tokens=ALONG, sampling=Sampling(temperature=0.0))
            places += [(start + more, found) for more, found in await self.server.along(ask)]
        for text, _ in sorted(places, key=lambda place: abs(place[1].mass - FULL))[:1]:
            found = await self.server.top(self.ask(text))
            self.listings |= {text: found} if found is not None else {}
        return True

    @property
    def flat(self) -> str:
        """The prompt after which most can come, as far as is known."""
        return min(BEGINNINGS, key=lambda text: self.listings[text].mass if self.listings else 0.0)

    def chosen(self) -> list[tuple[str, int]]:
        """Prompts with many likely tokens, with few, and ones that repeat themselves; and how often to draw."""
        near = min(self.listings, key=lambda text: abs(self.listings[text].mass - FULL))
        again = sorted(AGAIN, key=lambda text: abs(float(np.exp(self.listings[text].log_probs[0])) - 0.6))[:2]
        return [*dict([(self.flat, DRAWS), (near, MANY_DRAWS), *((text, DRAWS) for text in again)]).items()]
