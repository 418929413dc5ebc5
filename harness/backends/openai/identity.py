"""Who answers: what a server tells of itself, product and version, the model's id and how much fits its context."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httpx

from openended.harness.backends.openai.client import Client, key_of
from openended.harness.core import DataError, Json

# Dialect → where the server tells its version, under which name, and how the product is called.
_TOLD = {
    "vllm": ("/version", "version", "vllm"),
    "sglang": ("/get_server_info", "version", "sglang"),
    "llama_cpp": ("/props", "build_info", "llama.cpp"),
    "tgi": ("/info", "version", "text-generation-inference"),
    "transformers": (None, "", "transformers serve"),
    "openai": (None, "", "openai"),
}
_QUICK = 3.0  # seconds that a plan waits for a server


@dataclass(frozen=True, slots=True)
class Facts:
    """What one endpoint tells of itself."""

    product: str
    version: str | None
    """None where it does not tell."""
    models: tuple[str, ...]
    """The ids that it serves; empty where it does not tell."""
    context: int | None
    """Positions; None where it does not tell."""
    dtype: str | None = None
    """Precision, where it tells."""

    @property
    def title(self) -> str:
        """Product and version."""
        return f"{self.product} {self.version}" if self.version else f"{self.product}, version not told"

    def plain(self) -> dict[str, Json]:
        """Return plain JSON for the record."""
        return {"product": self.product, "version": self.version, "context": self.context, "dtype": self.dtype}


async def ask_facts(client: Client, place: int, dialect: str, model: str) -> Facts:
    """Ask an endpoint who it is.

    Raises:
        DataError: If it does not answer, or does not serve the model.
    """
    models = await client.get(place, "/v1/models")
    path, name, product = _TOLD[dialect]
    about = await client.get(place, path) if path is not None else None
    made = _facts(models, about, name, product, model)
    if made.models and model not in made.models:
        raise DataError(
            f"server {client.endpoints[place]}: it serves {', '.join(made.models[:5])}, not {model!r}; set path to "
            "what it calls the model"
        )
    return made


def _facts(models: Any, about: Any, name: str, product: str, model: str) -> Facts:  # noqa: ANN401 - JSON
    cards = models.get("data") if isinstance(models, Mapping) else None
    own = [card for card in cards or [] if isinstance(card, Mapping)] if isinstance(cards, list) else []
    card = next((one for one in own if one.get("id") == model), {})
    told = about if isinstance(about, Mapping) else {}
    version = told.get(name)
    meta, defaults = card.get("meta"), told.get("default_generation_settings")
    sizes = (
        card.get("max_model_len"),
        defaults.get("n_ctx") if isinstance(defaults, Mapping) else None,
        told.get("max_total_tokens") or told.get("context_length"),
        meta.get("n_ctx_train") if isinstance(meta, Mapping) else None,
    )
    dtype = told.get("model_dtype") or told.get("dtype")
    return Facts(
        product,
        str(version) if version else None,
        tuple(str(one.get("id")) for one in own),
        next((int(size) for size in sizes if isinstance(size, int) and size > 0), None),
        str(dtype) if dtype else None,
    )


@lru_cache(maxsize=32)
def quick_facts(endpoints: tuple[str, ...], key_name: str | None, dialect: str, model: str) -> Facts | None:
    """Ask the first endpoint that answers at once who it is, for a plan; None if none does.

    Asked once a process, whatever comes of it: the texts of an earlier run are found without any server.
    """
    key = key_of(key_name, must=False)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    path, name, product = _TOLD[dialect]
    with httpx.Client(headers=headers, timeout=_QUICK) as client:
        for endpoint in endpoints:
            try:
                models = client.get(f"{endpoint}/v1/models")
                about = client.get(endpoint + path) if path is not None else None
                return _facts(_json(models), _json(about), name, product, model)
            except (httpx.HTTPError, ValueError):
                continue
    return None


def _json(reply: httpx.Response | None) -> Any:  # noqa: ANN401
    return reply.json() if reply is not None and reply.is_success else None
