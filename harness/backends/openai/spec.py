"""Spec of a model behind a completions API: vLLM, SGLang, llama.cpp, transformers serve, or a compatible server.

Planning needs no server: the texts of an earlier run stay cached after the server is gone.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from openended.harness import core
from openended.harness.backends.openai import dialects
from openended.harness.backends.openai.dialects import DIALECTS, Dialect, DialectName
from openended.harness.core import (
    REQUIRED,
    Json,
    JsonOptions,
    SpecError,
    Thinking,
    model,
    option,
    ranged,
    require_package,
)
from openended.harness.decoders import Decoder
from openended.harness.models import Ability, BackendSpec, ModelService, ModelSpec, tokenizer_digest

if TYPE_CHECKING:
    from openended.harness.backends.openai.session import ServerInfo

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@model
class ServerSpec(BackendSpec):
    """A model on a server: vLLM, SGLang, llama.cpp, transformers serve, or OpenAI's protocol (docs/servers.md)."""

    name = "openai"
    loader = "openended.harness.backends.openai.backend:load_server"
    abilities: ClassVar[frozenset[Ability]] = frozenset({"generate", "score"})
    connection_fields: ClassVar[frozenset[str]] = frozenset(
        {"base_url", "endpoints", "api_key_env", "concurrency", "timeout", "retries", "patience", "logprobs"}
    )

    path: str = option(REQUIRED, str.strip, "the id by which the server knows the model")
    """The id by which the server knows the model."""
    base_url: str = "http://127.0.0.1:8000"
    """With or without /v1."""
    endpoints: tuple[str, ...] = ()
    """Several servers of one model, instead of base_url."""
    dialect: DialectName = "vllm"
    """Which server it is, and so what it calls things."""
    tokenizer: str | None = None
    """Hub id or folder; null: prompts are sent as text, and nothing can be scored."""
    revision: str | None = None
    """Commit of tokenizer and weights on the hub."""
    server: str | None = None
    """Required product and version, such as "vllm 0.33.0"; null: any, written to the record."""
    chat: bool = False
    """true: use the chat endpoint with the prompt as the user's turn."""
    instruction: str | None = None
    """System message before the prompt."""
    chat_template_kwargs: JsonOptions | None = None
    """Arguments of the chat template, such as `enable_thinking`; sent with each request."""
    thinking: Thinking = "drop"
    """What is scored of texts with reasoning: `drop` the answer, `keep` the whole text, `only` the reasoning."""
    prompts_as_text: bool = False
    """true: send text even if the dialect accepts token ids (llama-cpp-python)."""
    seeded: bool = True
    """false: for a server that ignores seeds; noted in the signature."""
    probe: bool = True
    """false: skip the sampling check; noted in the signature."""
    logprobs: int = ranged(20, "[1, 10000]", "1 to 10000")
    """Tokens that the server may list at a position (vLLM: --max-logprobs)."""
    api_key_env: str | None = None
    """Environment variable that holds the key."""
    concurrency: int = ranged(64, "[1, inf)", "1 or more")
    """Parallel requests per endpoint."""
    timeout: float = ranged(600.0, "(0, inf)", "seconds, above 0")
    """Seconds allowed for one reply."""
    retries: int = ranged(8, "[0, inf)", "0 or more")
    """How often a request goes out again after an overload or a lost connection."""
    patience: float = ranged(60.0, "[0, inf)", "seconds, 0 or more")
    """Seconds for which refused connections are retried, in all jobs of a process together."""
    label: str | None = None
    """Name in tables; null: the last part of the path."""

    def check(self) -> None:
        label = self.label_option("endpoints" if self.endpoints else "base_url")
        for address in self.addresses:
            try:
                parts, _ = urlsplit(address), urlsplit(address).port
            except ValueError:  # the address is not shown, because it may hold a password
                raise SpecError(f"{label}: expected http://host:8000, with a port up to 65535") from None
            if "@" in parts.netloc or parts.query or parts.fragment:
                raise SpecError(
                    f"{label}: an address of {parts.hostname} holds a password or a query; put the key into "
                    "an environment variable and its name into api_key_env"
                )
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise SpecError(f"{label}: expected an address as http://host:8000, got {address!r:.80}")
        twice = len(set(self.roots)) < len(self.roots)
        self.require(not twice, "endpoints", "each address once")
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            # The value is not shown, because it may be the key itself.
            raise SpecError(f"{self.error_name}.api_key_env: expected the name of an environment variable, not a key")
        self.require(self.instruction is None or self.chat, "instruction", "null where chat is false")
        is_read = not self.chat_template_kwargs or (self.chat and self.server_dialect.template_arguments)
        self.require(is_read, "chat_template_kwargs", "null unless chat=true and dialect is vllm, sglang or llama_cpp")
        self.tokenizer_spec()

    @property
    def addresses(self) -> tuple[str, ...]:
        return self.endpoints or (self.base_url,)

    @property
    def roots(self) -> tuple[str, ...]:
        """The servers' addresses without `/v1`."""
        return tuple(address.rstrip("/").removesuffix("/v1").rstrip("/") for address in self.addresses)

    @property
    def reads_messages(self) -> bool:
        return self.chat

    @property
    def server_dialect(self) -> Dialect:
        return DIALECTS[self.dialect]

    @property
    def listed(self) -> int:
        """Most probable tokens that the server lists at a position."""
        return min(self.server_dialect.listed, self.logprobs)

    @property
    def title(self) -> str:
        name = self.label or self.path.rstrip("/").rpartition("/")[2]
        return f"{name} ({self.dialect}{' chat' if self.chat else ''})"

    @property
    def signature_note(self) -> str:
        marks = ("chat" if self.chat else "", "" if self.probe else "not probed", "" if self.seeded else "no seeds")
        return ", ".join(filter(None, marks))

    def tokenizer_spec(self) -> ModelSpec | None:
        if self.tokenizer is None:
            return None
        spec = ModelSpec(path=self.tokenizer)
        return spec if spec.folder is not None else dataclasses.replace(spec, revision=self.revision)

    def identity(self) -> dict[str, Json]:
        """Return what can change a text and is known without asking a server; never an address."""
        tokenizer, arguments = self.tokenizer_spec(), core.canonicalize(self.chat_template_kwargs)
        facts: dict[str, Json] = {n: getattr(self, n) for n in ("revision", "server", "dialect", "seeded", "probe")}
        facts |= {"backend": self.name, "served": self.path, "sampler": self.server_dialect.sampler}
        facts |= {"text": self.prompts_as_text, "chat": [self.chat, self.instruction]}
        facts["tokenizer"] = tokenizer_digest(tokenizer) if tokenizer is not None else None
        return facts | ({"chat_template_kwargs": arguments} if arguments else {})

    def fetch_info(self) -> "ServerInfo | None":
        """Return what the server reports about itself if it answers quickly; requested once per process."""
        from openended.harness.backends.openai.session import fetch_info_for_plan

        return fetch_info_for_plan(self.roots, self.api_key_env, self.dialect, self.path)

    def describe_service(self) -> ModelService:
        info = self.fetch_info()
        return ModelService(self.dialect, self.roots, info.title if info is not None else None, self.api_key_env)

    def explain_change(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
        from openended.harness.backends.openai import probe

        first, second = (probe.parse_answers(part.get("known_answers", {})) for part in (before, now))
        if probe.are_same_model(first, second) is not False:
            return None
        return (
            "the server's log-probabilities for known prompts are not those of earlier texts, so two models answered "
            f"as {self.path!r}; make all texts again with another outputs_dir, or with a revision for each model"
        )

    def context_length(self) -> int | None:
        info = self.fetch_info()
        return info.context if info is not None else None

    def check_ready(self) -> None:
        require_package("httpx", "servers")
        tokenizer = self.tokenizer_spec()
        if tokenizer is not None:
            tokenizer_digest(tokenizer)

    def cannot(self, ability: Ability, decoder: Decoder | None = None) -> str | None:
        if ability == "score":
            if not self.server_dialect.echo or self.chat:
                chat = " at its chat endpoint" if self.chat else ""
                return f"the dialect {self.dialect} gives no log-probabilities of a given text{chat}: it cannot score"
            if self.tokenizer is None:
                return "to score, a server needs tokenizer=HUB_ID_OR_FOLDER: tokens are matched one by one"
        if ability == "q_statistics":
            return "Q needs the whole distribution; a server lists its best tokens alone"
        if ability == "generate" and decoder is not None:
            return dialects.explain_refusal(self.server_dialect, decoder)
        return super().cannot(ability)

    def check_lengths(self, decoder: Decoder, *, max_new_tokens: int, min_new_tokens: int) -> None:
        del decoder
        if reason := dialects.explain_min_tokens_refusal(self.server_dialect, min_new_tokens, max_new_tokens):
            raise SpecError(f"{self.error_name} {self.title}: {reason}")
