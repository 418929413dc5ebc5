"""One endpoint, asked in its dialect: the small exchanges of which probe and scoring are made."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from openended.harness.backends.openai.client import Client, at_once
from openended.harness.backends.openai.dialects import Dialect
from openended.harness.backends.openai.replies import Listing, Token, choices, drawn, ids_of, listings, text_of
from openended.harness.backends.openai.requests import Ask, Speech
from openended.harness.core import DataError, Tokenizer
from openended.harness.models import lead_before

COPIES = 256
"""Draws of one request, at most."""


@dataclass
class Exchange:
    """Asks one endpoint, or several in order where the first dies.

    Args:
        client: Open.
        speech: How to talk to it.
        places: Which of the client's endpoints.
        tokenizer: The model's; None: texts alone.
        lead: What the model reads before every text.
    """

    client: Client
    speech: Speech
    places: Sequence[int]
    tokenizer: Tokenizer | None = None
    lead: tuple[int, ...] = ()
    copies: bool = True
    """It gives as many draws of one request as were asked for; false once it did not."""
    most: int | None = None
    """Tokens that it lists at most, once it was asked."""
    named: bool = False
    """Tokens are told by listings alone: the replies hold no ids."""

    @property
    def dialect(self) -> Dialect:
        """Its dialect."""
        return self.speech.dialect

    @property
    def workers(self) -> int:
        """Requests under way at once."""
        return 1 if self.dialect.serial else self.client.concurrency * len(self.places)

    def read(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text as the model is to read them; none without a tokenizer."""
        if self.tokenizer is None:
            return ()
        ids = self.tokenizer.encode(text)
        return (*lead_before(self.lead, ids), *ids)

    async def send(self, ask: Ask, places: Sequence[int] | None = None) -> Any:  # noqa: ANN401 - JSON
        """Ask, and return the JSON that comes."""
        return await self.client.post(self.speech.path(ask), self.speech.body(ask), places or self.places)

    def echo(self, ask: Ask, more: tuple[int, ...] = (), listed: int = 0) -> Ask:
        """Return what asks for the log-probabilities of a prompt, with more tokens behind it."""
        text = self.tokenizer.decode(more) if self.tokenizer is not None and more else ""
        return dataclasses.replace(ask, ids=(*ask.ids, *more), text=ask.text + text, echo=True, listed=listed)

    async def top(self, ask: Ask) -> Listing | None:
        """Return the most probable next tokens, as many as the server lists; None where it lists none."""
        most = self.most if self.most is not None else self.dialect.listed
        while most:
            try:
                reply = await self.send(dataclasses.replace(ask, listed=most))
            except DataError:
                if self.most is not None:
                    raise
                most = 5 if most > 5 else 0  # a server may allow fewer
                continue
            self.most = most
            self.named = self.dialect.keyed_by_text or not ids_of(reply, choices(reply)[0])
            return next(iter(listings(choices(reply)[0], most)), None)
        self.most = 0
        return None

    async def along(self, ask: Ask) -> list[tuple[str, Listing]]:
        """Return what was written up to each position, with the most probable tokens there."""
        if not self.most or self.tokenizer is None:
            return []
        reply = await self.send(dataclasses.replace(ask, listed=self.most))
        choice = choices(reply)[0]
        ids, found = ids_of(reply, choice) or (), listings(choice, self.most)
        before = [self.tokenizer.decode(ids[:at]) for at in range(len(ids))]
        return [(text, one) for text, one in zip(before, found, strict=False) if one is not None]

    async def draw(self, ask: Ask, count: int, seed: Callable[[int], int]) -> list[Token]:
        """Return the first tokens of `count` independent draws."""
        made: list[Token] = []
        named = 1 if self.named else 0  # a listing names tokens as no text does

        async def one(number: int) -> None:
            made.extend(drawn(await self.send(dataclasses.replace(ask, seed=seed(number), listed=named))))

        if self.dialect.copies and self.copies and count > 1 and not ask.sampling.greedy:
            for start in range(0, count, COPIES):
                size = min(COPIES, count - start)
                reply = await self.send(dataclasses.replace(ask, seed=seed(start), copies=size, listed=named))
                made.extend(drawn(reply))
                if len(made) < start + size:
                    self.copies = False
                    break
            else:
                return made
            made.clear()
        await at_once(range(count), one, self.workers)
        return made

    async def write(self, ask: Ask, seed: int) -> tuple[Any, ...]:
        """Return a text by its tokens, or by itself where the server gives none."""
        reply = await self.send(dataclasses.replace(ask, seed=seed))
        choice = choices(reply)[0]
        return ids_of(reply, choice) or (text_of(choice),)
