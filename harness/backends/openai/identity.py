"""Server information: product, version, model ids and context length, as the server reports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from anyio.from_thread import start_blocking_portal

from openended.harness.backends.openai.bodies import clean_line
from openended.harness.backends.openai.client import Client
from openended.harness.backends.openai.dialects import DIALECTS
from openended.harness.core import DataError, Json

_NAME_LENGTH = 120  # characters of a name that a server reports
_MAX_CONTEXT = 1 << 31
_PLAN_TIMEOUT = 3.0  # seconds that a plan waits for a server


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What one endpoint reports about itself."""

    product: str
    version: str | None
    """None if not reported."""
    models: tuple[str, ...]
    """Ids of the served models; empty if not reported."""
    context: int | None
    """Context length in tokens; None if not reported."""
    dtype: str | None = None
    """Precision, if reported."""

    @property
    def title(self) -> str:
        return f"{self.product} {self.version}" if self.version else f"{self.product}, version not told"

    def plain(self) -> dict[str, Json]:
        return {"product": self.product, "version": self.version, "context": self.context, "dtype": self.dtype}


async def fetch_info(client: Client, endpoint: int, dialect: str, model: str) -> ServerInfo:
    """Fetch an endpoint's product, version, models and context length."""
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

    async def fetch() -> ServerInfo | None:
        async with Client(endpoints, key_name, timeout=_PLAN_TIMEOUT, key_required=False) as client:
            for endpoint in range(len(endpoints)):
                try:
                    return await _fetch(client, endpoint, dialect, model)
                except DataError:
                    continue
        return None

    with start_blocking_portal() as portal:  # the caller may have an event loop already
        return portal.call(fetch)


async def _fetch(client: Client, endpoint: int, dialect: str, model: str) -> ServerInfo:
    source = DIALECTS[dialect]
    models = await client.get(endpoint, "/v1/models")
    about = await client.get(endpoint, source.version_path) if source.version_path is not None else None
    cards = models.get("data") if isinstance(models, Mapping) else None
    model_cards = [card for card in cards or [] if isinstance(card, Mapping)] if isinstance(cards, list) else []
    card = next((item for item in model_cards if item.get("id") == model), {})
    fields = about if isinstance(about, Mapping) else {}
    meta, defaults = card.get("meta"), fields.get("default_generation_settings")
    sizes = (
        card.get("max_model_len"),
        defaults.get("n_ctx") if isinstance(defaults, Mapping) else None,
        fields.get("max_total_tokens") or fields.get("context_length"),
        meta.get("n_ctx_train") if isinstance(meta, Mapping) else None,
    )
    return ServerInfo(
        source.product,
        _clean_name(fields.get(source.version_field)),
        tuple(item["id"] for item in model_cards if isinstance(item.get("id"), str)),
        next((size for size in sizes if type(size) is int and 0 < size < _MAX_CONTEXT), None),
        _clean_name(fields.get("model_dtype") or fields.get("dtype")),
    )


def _clean_name(value: Any) -> str | None:  # noqa: ANN401
    """Return a name that a server reports as one short line; None if it reports none."""
    return clean_line(str(value), None)[:_NAME_LENGTH] if isinstance(value, str | int | float) and value else None
