"""Requests to a server in its dialect, as used by probe, generation and scoring."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from openended.harness.backends.openai.client import Client, run_concurrently
from openended.harness.backends.openai.dialects import Dialect
from openended.harness.backends.openai.replies import (
    Listing,
    Token,
    check_reply,
    read_choices,
    read_first_tokens,
    read_listings,
    read_text,
    read_token_ids,
)
from openended.harness.backends.openai.requests import CompletionRequest, RequestBuilder
from openended.harness.core import DataError, Tokenizer
from openended.harness.models import get_bos_prefix

COPIES = 256
"""Draws of one request, at most."""


@dataclass
class ServerSession:
    """Sends requests to one endpoint, or to several in order when the first fails.

    Args:
        client: Open.
        builder: Builds the requests.
        endpoints: Which of the client's endpoints.
        tokenizer: The model's; None: texts alone.
        lead: What the model reads before every text.
    """

    client: Client
    builder: RequestBuilder
    endpoints: Sequence[int]
    tokenizer: Tokenizer | None = None
    bos_prefix: tuple[int, ...] = ()
    copies: bool = True
    """It gives as many draws of one request as were asked for; false once it did not."""
    most: int | None = None
    """Tokens that it lists at most, once it was asked."""
    named: bool = False
    """Tokens are told by listings alone: the replies hold no ids."""

    @property
    def dialect(self) -> Dialect:
        """Its dialect."""
        return self.builder.dialect

    @property
    def workers(self) -> int:
        """Requests under way at once."""
        return 1 if self.dialect.serial else self.client.concurrency * len(self.endpoints)

    def read(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a text as the model is to read them; none without a tokenizer."""
        if self.tokenizer is None:
            return ()
        ids = self.tokenizer.encode(text)
        return (*get_bos_prefix(self.bos_prefix, ids), *ids)

    async def send(
        self,
        ask: CompletionRequest,
        endpoints: Sequence[int] | None = None,
        read: Callable[[Any], Any] | None = None,
    ) -> Any:  # noqa: ANN401 - JSON, or what `read` makes of it
        """Send a request, check the reply, and return what `read` makes of it; by default its JSON."""

        def check_and_read(reply: Any) -> Any:  # noqa: ANN401
            check_reply(reply, self.builder, ask)
            return reply if read is None else read(reply)

        return await self.client.post(
            self.builder.path(ask), self.builder.body(ask), endpoints or self.endpoints, limit=ask.max_reply,
            read=check_and_read,
        )  # fmt: skip

    def echo(self, ask: CompletionRequest, more: tuple[int, ...] = (), listed: int = 0) -> CompletionRequest:
        """Return what asks for the log-probabilities of a prompt, with more tokens behind it."""
        text = self.tokenizer.decode(more) if self.tokenizer is not None and more else ""
        return dataclasses.replace(ask, ids=(*ask.ids, *more), text=ask.text + text, echo=True, listed=listed)

    async def top(self, ask: CompletionRequest) -> Listing | None:
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
            self.named = self.dialect.keyed_by_text or not read_token_ids(reply, read_choices(reply)[0])
            return next(iter(read_listings(read_choices(reply)[0], most)), None)
        self.most = 0
        return None

    async def list_along_text(self, ask: CompletionRequest) -> list[tuple[str, Listing]]:
        """Return what was written up to each position, with the most probable tokens there."""
        if not self.most or self.tokenizer is None:
            return []
        reply = await self.send(dataclasses.replace(ask, listed=self.most))
        choice = read_choices(reply)[0]
        ids, listings = read_token_ids(reply, choice) or (), read_listings(choice, self.most)
        before = [self.tokenizer.decode(ids[:at]) for at in range(len(ids))]
        return [(text, listing) for text, listing in zip(before, listings, strict=False) if listing is not None]

    async def draw(self, ask: CompletionRequest, count: int, seed: Callable[[int], int]) -> list[Token]:
        """Return the first tokens of `count` independent draws."""
        tokens: list[Token] = []
        named = 1 if self.named else 0  # a listing names tokens as no text does

        async def draw_one(number: int) -> None:
            tokens.extend(read_first_tokens(await self.send(dataclasses.replace(ask, seed=seed(number), listed=named))))

        if self.dialect.copies and self.copies and count > 1 and not ask.sampling.greedy:
            for start in range(0, count, COPIES):
                size = min(COPIES, count - start)
                reply = await self.send(dataclasses.replace(ask, seed=seed(start), copies=size, listed=named))
                tokens.extend(read_first_tokens(reply))
                if len(tokens) < start + size:
                    self.copies = False
                    break
            else:
                return tokens
            tokens.clear()
        await run_concurrently(range(count), draw_one, self.workers)
        return tokens

    async def write(self, ask: CompletionRequest, seed: int) -> tuple[Any, ...]:
        """Return a text by its tokens, or by itself where the server gives none."""
        reply = await self.send(dataclasses.replace(ask, seed=seed))
        choice = read_choices(reply)[0]
        return read_token_ids(reply, choice) or (read_text(choice),)
