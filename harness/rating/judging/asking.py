"""A judge behind a server that speaks the chat or the completions protocol: one request a question, greedily."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import httpx

from openended.harness.contract import Spec
from openended.harness.errors import DataError, SpecError
from openended.harness.registry import construct
from openended.harness.text import redacted

MOST_TOKENS = 512  # of a reply: an answer to each question, and some words before it
_BACKEND = "openai"
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST = 30.0  # seconds between two tries


@dataclass(frozen=True, kw_only=True)
class JudgeServer(Spec):
    """Where the judge is; the options have the names that those of a served model have."""

    group: ClassVar[str] = "judge"
    name: ClassVar[str] = "judge"

    path: str
    """The id by which the server knows the model."""
    base_url: str
    """Address of the server, with or without `/v1`."""
    chat: bool = True
    """Ask the chat endpoint; false: the completions endpoint, for a model without a chat template."""
    instruction: str | None = None
    """What the system's turn says, where `chat` is true."""
    seeded: bool = True
    """Send a seed with each question; false for servers that refuse one."""
    api_key_env: str | None = None
    """Environment variable that holds the key."""
    concurrency: int = 16
    """Requests under way at once."""
    timeout: float = 600.0
    """Seconds that one reply may take."""
    retries: int = 8
    """How often a request goes out again after an overload or a lost connection."""
    label: str | None = None
    """Name in tables; null: the last part of the path."""

    def check(self) -> None:
        """Refuse what is no address, and a key in place of its variable's name."""
        self.require(self.base_url.startswith(("http://", "https://")), "base_url", "an address, http://host:8000")
        self.require("@" not in self.base_url, "base_url", "an address without a password")
        self.require(self.concurrency >= 1, "concurrency", "1 or more")
        self.require(self.timeout > 0, "timeout", "seconds, above 0")
        self.require(self.retries >= 0, "retries", "0 or more")
        if self.api_key_env is not None and self.api_key_env not in os.environ:
            raise SpecError(f"judge.api_key_env: no environment variable {redacted(self.api_key_env)!r:.40}")


@dataclass(frozen=True)
class ServerAsker:
    """Asks a served model."""

    spec: JudgeServer
    transport: httpx.BaseTransport | None = None
    """In place of the network, for tests."""
    pause: float = 0.5
    """Seconds before a request goes out again; doubled each time."""

    @property
    def title(self) -> str:
        """The judge's name."""
        return self.spec.label or self.spec.path.rstrip("/").rpartition("/")[2]

    def ask(self, prompts: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """Return a reply to each prompt.

        Raises:
            DataError: If the server does not answer, refuses, or answers in another form.
        """
        key = os.environ.get(self.spec.api_key_env or "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        with (
            httpx.Client(timeout=self.spec.timeout, headers=headers, transport=self.transport) as client,
            ThreadPoolExecutor(self.spec.concurrency) as many,
        ):
            return list(many.map(lambda p, s: self._text(self._post(client, p, s)), prompts, seeds))

    def _post(self, client: httpx.Client, prompt: str, seed: int) -> Any:  # noqa: ANN401 - JSON
        root = self.spec.base_url.rstrip("/").removesuffix("/v1").rstrip("/")
        url = f"{root}/v1/{'chat/' if self.spec.chat else ''}completions"
        said = ""
        for number in range(self.spec.retries + 1):
            if number:
                time.sleep(min(self.pause * 2 ** (number - 1), _LONGEST))
            try:
                reply = client.post(url, json=self._body(prompt, seed))
            except httpx.HTTPError as err:
                said = f"does not answer ({type(err).__name__})"
                continue
            if reply.status_code in _PASSING:
                said = f"answers {reply.status_code}"
                continue
            if reply.status_code != httpx.codes.OK:
                raise DataError(f"judge {root}: answers {reply.status_code}: {redacted(reply.text)[:120]!r}")
            try:
                return reply.json()
            except ValueError as err:
                raise DataError(f"judge {root}: the answer is not JSON") from err
        raise DataError(f"judge {root}: {said}, {self.spec.retries + 1} times; the same command goes on from here")

    def _body(self, prompt: str, seed: int) -> dict[str, Any]:
        system = [{"role": "system", "content": self.spec.instruction}] if self.spec.instruction else []
        asked = {"messages": [*system, {"role": "user", "content": prompt}]} if self.spec.chat else {"prompt": prompt}
        seeds = {"seed": seed} if self.spec.seeded else {}
        return {"model": self.spec.path, "temperature": 0.0, "max_tokens": MOST_TOKENS, **seeds, **asked}

    def _text(self, reply: Any) -> str:  # noqa: ANN401 - JSON
        try:
            choice = reply["choices"][0]
            text = choice["message"]["content"] if self.spec.chat else choice["text"]
        except (KeyError, IndexError, TypeError) as err:
            raise DataError(f"judge {self.title}: expected a reply with choices, got {reply!s:.80}") from err
        return "" if text is None else str(text)


def option_names() -> list[str]:
    """Return the options of the server that can be given."""
    return [f.name for f in dataclasses.fields(JudgeServer)]


def asker_of(options: Mapping[str, Any]) -> ServerAsker:
    """Make the judge of its options: `model=openai` (the one there is) and where it is.

    Raises:
        SpecError: If an option is missing or not accepted.
    """
    given = dict(options)
    model = given.pop("model", _BACKEND)
    if model != _BACKEND:
        raise SpecError(f"model={model}: a judge is a model behind a server: model={_BACKEND} base_url=… path=…")
    return ServerAsker(construct(JudgeServer, given, "judge"))
