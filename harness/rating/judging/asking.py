"""Ask a judge behind a server: one chat turn per question, with the client that generates texts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from openended.harness.backends import Client, ServerSpec
from openended.harness.core import DataError, SpecError, construct

MOST_TOKENS = 512  # tokens of a reply: an answer to each question, after a word of reasoning
_BACKEND = "openai"


@dataclass(frozen=True, slots=True)
class ServerAsker:
    """Asks a served model with greedy decoding; the seed is sent for servers that break ties at random."""

    spec: ServerSpec
    transport: httpx.AsyncBaseTransport | None = None
    """In place of the network, for tests."""

    @property
    def title(self) -> str:
        """The model's name, without its server's kind."""
        return self.spec.label or self.spec.path.rstrip("/").rpartition("/")[2]

    def ask(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """Return a reply to each prompt."""
        return asyncio.run(self._ask_all(prompts, seeds))

    async def _ask_all(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        spec = self.spec
        endpoints = range(len(spec.roots))
        slots = asyncio.Semaphore(spec.concurrency * len(spec.roots))
        async with Client(
            spec.roots, key_name=spec.api_key_env, timeout=spec.timeout, retries=spec.retries,
            concurrency=spec.concurrency, patience=spec.patience, transport=self.transport,
        ) as client:  # fmt: skip

            async def ask_question(number: int, prompt: str, seed: int) -> str:
                order = [*endpoints[number % len(endpoints) :], *endpoints[: number % len(endpoints)]]
                async with slots:
                    return self._read_text(await client.post(self._path, self._build_body(prompt, seed), order))

            return await asyncio.gather(
                *(ask_question(i, p, s) for i, (p, s) in enumerate(zip(prompts, seeds, strict=True)))
            )

    @property
    def _path(self) -> str:
        return "/v1/chat/completions" if self.spec.chat else "/v1/completions"

    def _build_body(self, prompt: str, seed: int) -> dict[str, Any]:
        system = [{"role": "system", "content": self.spec.instruction}] if self.spec.instruction else []
        content = {"messages": [*system, {"role": "user", "content": prompt}]} if self.spec.chat else {"prompt": prompt}
        seeds = {"seed": seed} if self.spec.seeded else {}
        return {"model": self.spec.path, "temperature": 0.0, "max_tokens": MOST_TOKENS, **seeds, **content}

    def _read_text(self, reply: Any) -> str:  # noqa: ANN401 - JSON
        try:
            choice = reply["choices"][0]
            text = choice["message"]["content"] if self.spec.chat else choice["text"]
        except (KeyError, IndexError, TypeError) as err:
            raise DataError(f"judge {self.title}: expected a reply with choices, got {reply!s:.80}") from err
        return "" if text is None else str(text)


def make_asker(options: Mapping[str, Any]) -> ServerAsker:
    """Build the judge from its options: `model=openai` (the only one) and those of the server."""
    server_options = dict(options)
    model = server_options.pop("model", _BACKEND)
    if model != _BACKEND:
        raise SpecError(
            f"--model {model}: only openai is supported: a judge is a model behind a server (--base-url … --path …)"
        )
    return ServerAsker(construct(ServerSpec, {"chat": True, **server_options}, "judge"))
