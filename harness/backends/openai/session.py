"""Requests to a server in its dialect, as used by probe, generation and scoring."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from openended.harness.backends.openai import replies
from openended.harness.backends.openai.client import Client, clean_line, run_concurrently
from openended.harness.backends.openai.dialects import DIALECTS, CompletionRequest
from openended.harness.backends.openai.replies import Listing, Reply, Token, read_reply
from openended.harness.core import F64, DataError

if TYPE_CHECKING:
    from openended.harness.backends.openai.backend import ServerBackend

Reader = Callable[[Reply], Any]
COPIES = 256  # maximum number of draws per request
_NAME_LENGTH = 120  # characters of a name that a server reports
_MAX_CONTEXT = 1 << 31
_PLAN_TIMEOUT = 3.0  # seconds that a plan waits for a server


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What one endpoint reports about itself; None where it does not."""

    product: str
    version: str | None
    models: tuple[str, ...]  # ids of the served models; empty if not reported
    context: int | None  # context length in tokens
    dtype: str | None = None

    @property
    def title(self) -> str:
        return f"{self.product} {self.version}" if self.version else f"{self.product}, version unknown"


async def fetch_info(client: Client, endpoint: int, dialect: str, model: str) -> ServerInfo:
    """Fetch an endpoint's product, version, models and context length; refuse one that lists other models."""
    info = await _fetch(client, endpoint, dialect, model)
    if info.models and model not in info.models:
        names = clean_line(", ".join(info.models[:5]), None)
        raise DataError(
            f"server {client.endpoints[endpoint]}: it serves {names}, not {model!r}; "
            "set path to what it calls the model"
        )
    return info


@lru_cache(maxsize=32)
def fetch_info_for_plan(
    endpoints: tuple[str, ...], key_name: str | None, dialect: str, model: str
) -> ServerInfo | None:
    """Fetch the information of the first endpoint that answers quickly, for a plan; None if none does.

    The result is kept for the process. A plan needs no server: the texts of an earlier run are cached.
    """
    from anyio.from_thread import start_blocking_portal

    async def fetch() -> ServerInfo | None:
        async with Client(endpoints, key_name, timeout=_PLAN_TIMEOUT, key_required=False) as client:
            for endpoint in range(len(endpoints)):
                with suppress(DataError):
                    return await _fetch(client, endpoint, dialect, model)
        return None

    with start_blocking_portal() as portal:  # the caller may have an event loop already
        return portal.call(fetch)


async def _fetch(client: Client, endpoint: int, dialect: str, model: str) -> ServerInfo:
    source = DIALECTS[dialect]
    models = _require_mapping(await client.get(endpoint, "/v1/models"))
    fields = _require_mapping(await client.get(endpoint, source.version_path) if source.version_path else None)
    cards = models.get("data")
    model_cards = [card for card in cards if isinstance(card, Mapping)] if isinstance(cards, list) else []
    card = next((item for item in model_cards if item.get("id") == model), {})
    sizes = (
        card.get("max_model_len"),
        _require_mapping(fields.get("default_generation_settings")).get("n_ctx"),
        fields.get("max_total_tokens") or fields.get("context_length"),
        _require_mapping(card.get("meta")).get("n_ctx_train"),
    )
    return ServerInfo(
        source.product,
        _clean_name(fields.get(source.version_field)),
        tuple(item["id"] for item in model_cards if isinstance(item.get("id"), str)),
        next((size for size in sizes if type(size) is int and 0 < size < _MAX_CONTEXT), None),
        _clean_name(fields.get("model_dtype") or fields.get("dtype")),
    )


def _require_mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    return value if isinstance(value, Mapping) else {}


def _clean_name(value: Any) -> str | None:  # noqa: ANN401
    """Return a name that a server reports as one short line; None if it reports none."""
    return clean_line(str(value), None)[:_NAME_LENGTH] if isinstance(value, str | int | float) and value else None


@dataclass
class ServerSession:
    """Sends requests to one endpoint, or to several in order when the first fails."""

    client: Client
    lm: "ServerBackend"
    endpoints: Sequence[int]
    copies: bool = True
    """The server honors the number of draws per request; set to false once it refused it or a reply had fewer."""
    most: int | None = None
    """Maximum number of tokens that the server lists; None until the first listing was requested."""
    named: bool = False  # replies have no token ids, so tokens are read from the listings

    def __post_init__(self) -> None:
        self.served, self.tokenizer, self.dialect = self.lm.served, self.lm.tokenizer, self.lm.spec.server_dialect

    @property
    def workers(self) -> int:
        return 1 if self.dialect.serial else self.client.concurrency * len(self.endpoints)

    def order_endpoints(self, name: str) -> list[int]:
        """Order the endpoints for a text by a hash of both, so that the order of the texts does not matter."""
        return sorted(self.endpoints, key=lambda i: hashlib.sha256(f"{i}\x1f{name}".encode()).digest())

    async def send(
        self, request: CompletionRequest, endpoints: Sequence[int] | None = None, read: Reader = lambda reply: reply
    ) -> Any:  # noqa: ANN401 - what `read` makes of it
        """Send a request, check the reply, and return what `read` makes of it; by default the reply."""

        def check(value: Any) -> Any:  # noqa: ANN401 - JSON
            reply = read_reply(self.dialect, self.served, request, value)
            self.lm.trust.note_model(reply.json.get("model"))
            return read(reply)

        path, body = self.dialect.path(self.served, request), self.dialect.body(self.served, request)
        return await self.client.post(path, body, endpoints or self.endpoints, check, request.max_reply)

    async def top(self, request: CompletionRequest) -> Listing | None:
        """Return the most probable next tokens, as many as the server lists; None where it lists none."""
        limit = self.most if self.most is not None else self.served.listed
        while limit:
            try:
                reply: Reply = await self.send(replace(request, listed=limit))
            except DataError:
                if self.most is not None:
                    raise
                limit = 5 if limit > 5 else 0  # a server may allow fewer
                continue
            self.most = limit
            self.named = self.dialect.keyed_by_text or not reply.choices[0].ids
            return next(iter(replies.read_listings(reply.choices[0], limit)), None)
        self.most = 0
        return None

    async def list_tokens_along_text(self, request: CompletionRequest) -> list[tuple[str, Listing]]:
        """Return the generated text before each position with the most probable tokens at that position."""
        if not self.most or self.tokenizer is None:
            return []
        reply: Reply = await self.send(replace(request, listed=self.most))
        ids, listings = reply.choices[0].ids or (), replies.read_listings(reply.choices[0], self.most)
        before = [self.tokenizer.decode(ids[:at]) for at in range(len(ids))]
        return [(text, listing) for text, listing in zip(before, listings, strict=False) if listing is not None]

    async def draw(
        self, request: CompletionRequest, count: int, seed: Callable[[int], int], single: int
    ) -> list[Token]:
        """Return the first tokens of `count` independent draws, at most `single` where each takes a request."""
        tokens: list[Token] = []
        # A listing identifies tokens exactly; a text may not.
        request = replace(request, listed=1 if self.named else 0, repeats=count > 1)

        async def draw_one(number: int) -> None:
            tokens.extend(replies.read_first_tokens(await self.send(replace(request, seed=seed(number)))))

        if self.dialect.copies and self.copies and count > 1 and not request.sampling.greedy:
            for start in range(0, count, COPIES):
                size = min(COPIES, count - start)
                with suppress(DataError):  # a server may allow fewer; what else is wrong shows in single draws too
                    together = replace(request, seed=seed(start), copies=size)
                    tokens.extend(replies.read_first_tokens(await self.send(together)))
                if len(tokens) < start + size:
                    self.copies = False
                    break
            else:
                return tokens
            tokens.clear()
        await run_concurrently(range(min(count, single)), draw_one, self.workers)
        return tokens

    async def write(self, request: CompletionRequest, seed: int) -> tuple[Any, ...]:
        """Generate a text; return its token ids, or a tuple with the text if the server returns no ids."""
        reply: Reply = await self.send(replace(request, seed=seed))
        return reply.choices[0].ids or (reply.choices[0].text,)

    async def score(self, ids: tuple[int, ...], name: str) -> F64:
        """Ask for the log-probability of every token of a text; `name` decides which endpoint is asked first."""
        text = ""
        if self.tokenizer is not None and not self.served.sends_ids:
            at = 0 if self.tokenizer.find_prefix(ids) else len(self.tokenizer.bos_prefix)
            text = self.tokenizer.decode(ids[at:])
        request = CompletionRequest(ids=ids, text=text, max_tokens=1, echo=True)
        read = partial(replies.read_prompt_log_probs, self.dialect, self.served, request)
        log_probs: F64 = await self.send(request, self.order_endpoints(name), read)
        return log_probs
