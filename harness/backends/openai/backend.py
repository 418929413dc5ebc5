"""A `Backend` whose model runs in a server: asked in its dialect, checked before it is believed."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import numpy as np
from anyio.from_thread import start_blocking_portal

from openended.harness.backends.openai.client import Client, at_once
from openended.harness.backends.openai.replies import finished
from openended.harness.backends.openai.requests import Ask, Speech
from openended.harness.backends.openai.sampling import Sampling, sampling_of
from openended.harness.backends.openai.scoring import Certified, listed_for, put_certified, put_losses, read_rows
from openended.harness.backends.openai.session import Exchange
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.backends.openai.trust import Belief
from openended.harness.core import Advance, DataError, Generation, NextToken, Ragged, SpecError, derive_seed
from openended.harness.decoders import Decoder, Emit, GenerationRequest, Prompt
from openended.harness.models import (
    Embedded,
    EmbeddingRequest,
    QStatisticsRequest,
    ScoringRequest,
    TextTokenizer,
    lead_before,
    load_tokenizer,
    scoring_rows,
)

if TYPE_CHECKING:
    from openended.harness.core import DeviceMap

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """In place of a device: the model is in another process, on another machine perhaps."""

    type: str = "server"

    def __str__(self) -> str:
        return self.type


class ServerBackend:
    """A model that a server runs.

    Args:
        spec: Which one.
        transport: In place of the network, for tests.
    """

    def __init__(self, spec: ServerSpec, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self.spec = spec
        own = spec.tokenizer_spec()
        self.tokenizer: TextTokenizer | None = load_tokenizer(own) if own is not None else None
        self.device = Elsewhere()
        config = own.config() if own is not None else {}
        self.vocab_size = int(config.get("vocab_size") or 0)
        if self.tokenizer is not None and not self.vocab_size:
            self.vocab_size = len(self.tokenizer.vocabulary())
        self._bos = config.get("bos_token_id")
        self._transport = transport
        self.belief = Belief(spec, self.tokenizer, self.vocab_size)
        self._encoded = 0
        ends = self.tokenizer.eos_ids if self.tokenizer is not None else ()
        self.speech = Speech(
            dialect=spec.speaks, model=spec.path, chat=spec.chat, instruction=spec.instruction, seeded=spec.seeded,
            as_text=spec.prompts_as_text or own is None, end_ids=ends,
        )  # fmt: skip

    @property
    def context_length(self) -> int | None:
        """Positions for a text that is scored: the server needs one for the token that it writes behind it."""
        told = self.belief.context
        return told - 1 if told is not None else None

    @property
    def start_id(self) -> int:
        """What stands before an empty text."""
        return self._bos if isinstance(self._bos, int) else next(iter(self.speech.end_ids), 0)

    def lead(self, ids: Sequence[int] | np.ndarray[Any, Any]) -> tuple[int, ...]:
        """Return the beginning-of-text token, unless a text has it already or the model reads none."""
        return lead_before(self.belief.lead, ids)

    def provenance(self) -> dict[str, Any]:
        """Return who answered and what the probe found."""
        return self.belief.provenance(self._encoded)

    def generate(self, request: GenerationRequest, emit: Emit, advance: Advance | None = None) -> None:
        """Ask for every text, one a request; its seed is of (run seed, example, sample) alone."""
        decoder, prompts = request.decoder, request.prompts
        self.spec.demand("generate", decoder)
        sampling = sampling_of(decoder)
        if sampling is None:
            raise SpecError(f"model {self.spec.title}: no words for {decoder.title}")

        async def one(server: Exchange, prompt: Prompt) -> None:
            made = await self._text(server, sampling, prompt, request)
            emit([made])
            if advance is not None:
                advance(max(len(made.token_ids), 1))

        async def work(server: Exchange) -> None:
            longest = max((len(self.lead(p.token_ids)) + len(p.token_ids) for p in prompts), default=0)
            decoder.plan_check(self.belief.context, request.max_new_tokens, longest)
            await at_once(prompts, partial(one, server), server.workers)

        self._with_server(decoder, work)

    async def _text(
        self, server: Exchange, sampling: Sampling, prompt: Prompt, request: GenerationRequest
    ) -> Generation:
        ids = (*self.lead(prompt.token_ids), *prompt.token_ids) if self.tokenizer is not None else ()
        if self.tokenizer is not None and not ids:
            ids = (self.start_id,)
        text = prompt.text
        if not text and self.tokenizer is not None:
            text = self.tokenizer.decode(prompt.token_ids)
        name = f"{prompt.example_id}/{prompt.sample}"
        ask = Ask(
            ids=ids, text=text, max_tokens=request.max_new_tokens, min_tokens=request.min_new_tokens,
            sampling=sampling, seed=derive_seed(request.seed, "server", prompt.example_id, prompt.sample),
        )  # fmt: skip
        try:
            reply = await server.send(ask, self._places(server, name))
            made = finished(reply, self.speech, ask, self.tokenizer, text)
        except DataError as err:
            raise DataError(f"model {self.spec.title}: text {name}: {err}") from err
        self._encoded += made.encoded
        return Generation(prompt.example_id, prompt.sample, made.text, made.ids, made.stop, float("nan"))

    def score(self, request: ScoringRequest, advance: Advance | None = None) -> Ragged:
        """-log p of the continuations' tokens in nats, as the server tells it of a given text."""
        self.spec.demand("score")
        made: list[Ragged] = []

        async def work(server: Exchange) -> None:
            jobs, out = scoring_rows(self, request)
            put = put_losses(jobs, out.values)

            def done(number: int, read: Any) -> None:  # noqa: ANN401
                put(number, read)
                if advance is not None and jobs[number].row >= 0:
                    advance(1)

            rows = [tuple(job.ids.tolist()) for job in jobs]
            await read_rows(server, rows, lambda i: self._places(server, f"score {i}"), done)
            made.append(out)

        self._with_server(None, work)
        return made[0]

    def q_statistics(self, request: QStatisticsRequest, advance: Advance | None = None) -> list[NextToken]:
        """Statistics of each decoder's Q, where the tokens that the server lists certify them.

        Raises:
            UndefinedMetric: If they do not at every position; says at how many.
        """
        prompts, continuations, least = request.prompts, request.continuations, request.min_new_tokens
        for decoder in request.decoders:
            self.spec.demand("q_statistics", decoder)
        heads = [(*self.lead(row), *row.tolist()) or (self.start_id,) for row in prompts]
        rows = [(*head, *tail.tolist()) for head, tail in zip(heads, continuations, strict=True)]
        size = len(continuations.values)
        tables = [Certified(d, size, self.vocab_size, self.speech.end_ids, least) for d in request.decoders]
        put = put_certified(tables, continuations.offsets, [len(head) for head in heads], rows)

        async def work(server: Exchange) -> None:
            def done(number: int, read: Any) -> None:  # noqa: ANN401
                put(number, read)
                if advance is not None:
                    advance(1)

            spare = len(self.speech.end_ids) if least else 0
            listed = listed_for(request.decoders, server.dialect.listed, spare)
            await read_rows(server, rows, lambda i: self._places(server, f"score {i}"), done, listed)

        self._with_server(None, work)
        gold = np.asarray(continuations.values, dtype=np.int64)
        return [
            NextToken(
                continuations.offsets, t.gold_prob, t.sum_sq, t.support, t.argmax, gold, prompts,
                vocab_size=self.vocab_size,
            )
            for t in (table.finish() for table in tables)
        ]  # fmt: skip

    def embed(self, request: EmbeddingRequest, advance: Advance | None = None) -> dict[int | None, Embedded]:
        """A server gives no hidden states."""
        del request, advance
        raise SpecError(f"model {self.spec.title}: a server gives no hidden states")

    def embed_and_score(
        self, request: EmbeddingRequest, *, include_prompt: bool = False, advance: Advance | None = None
    ) -> tuple[Embedded, Ragged]:
        """A server gives no hidden states."""
        del request, include_prompt, advance
        raise SpecError(f"model {self.spec.title}: a server gives no hidden states")

    def _with_server(self, decoder: Decoder | None, work: Callable[[Exchange], Awaitable[None]]) -> None:
        """Do work with a server that is believed; in a thread of its own, for the caller may have a loop already."""

        async def main() -> None:
            async with self.client() as client:
                alive = await self.belief.of(client, self.speech, decoder)
                await work(Exchange(client, self.speech, alive, self.tokenizer, self.belief.lead))

        with start_blocking_portal() as portal:
            portal.call(main)

    def client(self) -> Client:
        """Return who talks to the endpoints."""
        s = self.spec
        return Client(
            s.roots, key_name=s.api_key_env, timeout=s.timeout, retries=s.retries, concurrency=s.concurrency,
            transport=self._transport,
        )  # fmt: skip

    def _places(self, server: Exchange, name: str) -> list[int]:
        """The endpoints for a text, its own first: by a hash of both, so that no order of the texts counts."""

        def weight(place: int) -> bytes:
            return hashlib.sha256(f"{place}\x1f{name}".encode()).digest()

        return sorted(server.places, key=weight)


def load_server(spec: ServerSpec, *, device: str = "cpu", device_map: DeviceMap | None = None) -> ServerBackend:
    """Load the tokenizer; the server is asked when it is needed."""
    del device, device_map
    return ServerBackend(spec)


__all__ = ["ServerBackend", "load_server"]
