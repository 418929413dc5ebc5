"""Servers that never end a reply, echo the key or answer with nonsense end in one error that names endpoint and field."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from openended.harness.backends.openai import client as client_module, identity, trust
from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.client import Client
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core.errors import DataError
from openended.harness.core.types import Generation
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from tests.harness.backends.openai.fake import ID, KEY, Fake, served, within
from tests.harness.backends.openai.hostile import ENDLESS, TOO_LARGE, listening, reply_bytes, send
from tests.helpers import generation

GOOD: dict[str, Any] = {
    "model": ID,
    "choices": [{"index": 0, "finish_reason": "length", "text": " a b", "token_ids": [10, 11, 12]}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 3},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(trust, "FIRST_PAUSE", 0.01)


def post(address: str, **options: Any) -> Any:
    async def work() -> Any:
        async with Client([address], timeout=0.4, retries=0, **options) as client:
            return await client.post("/v1/completions", {"prompt": "a"}, [0])

    return asyncio.run(work())


def generate(transport: httpx.AsyncBaseTransport, **options: Any) -> list[Generation]:
    """Three greedy tokens after one prompt; the endpoint is http://fake."""
    spec = ServerSpec(
        **{"path": ID, "base_url": "http://fake", "tokenizer": f"bundled:{ID}", "probe": False, "retries": 0} | options
    )
    texts: list[Generation] = []
    request = generation([Prompt("t/0", 0, (10, 20, 30))], Greedy(), seed=0, max_new_tokens=3, batch_size=1)
    ServerBackend(spec, transport=transport).generate(request, texts.extend)
    return texts


def answering(body: bytes, content_type: str = "application/json") -> httpx.MockTransport:
    """Answer completions with these bytes."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/completions":
            return httpx.Response(200, content=body, headers={"Content-Type": content_type})
        about = {"version": "0.33.0"} if request.url.path == "/version" else {"data": [{"id": ID}]}
        return httpx.Response(200, json=about)

    return httpx.MockTransport(answer)


def changed(**choice: Any) -> bytes:
    return json.dumps(GOOD | {"choices": [GOOD["choices"][0] | choice]}).encode()


@pytest.mark.parametrize("name", ENDLESS)
def test_one_deadline_covers_the_whole_request(name):
    start = time.monotonic()
    with listening(ENDLESS[name]) as address, pytest.raises(DataError, match=r"no answer in 0\.4 s|does not answer"):
        post(address)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name", TOO_LARGE)
def test_a_reply_is_bounded(name, monkeypatch):
    monkeypatch.setattr(client_module, "MAX_REPLY", 1 << 20)
    with (
        listening(TOO_LARGE[name]) as address,
        pytest.raises(DataError, match=r"larger than|content-encoding gzip|in 0\.4"),
    ):
        post(address)


@pytest.mark.parametrize("name", ENDLESS | TOO_LARGE)
def test_a_plan_does_not_wait_for_a_sick_server(name, monkeypatch):
    monkeypatch.setattr(identity, "_PLAN_TIMEOUT", 0.3)
    start = time.monotonic()
    with listening((ENDLESS | TOO_LARGE)[name]) as address:
        info = identity.fetch_info_for_plan((address,), None, "vllm", ID)
    assert info is None or info.version is None
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (changed(text=None), r"choices\[0\]: field text: expected text, got null"),
        (changed(text=["a"]), r"field text: expected text, got list"),
        (changed(message={"content": None}), r"field message\.content: expected text, got null"),
        (json.dumps(GOOD | {"model": "another"}).encode(), r"field model: it answers for 'another', 'docs-s' was"),
        (json.dumps(GOOD | {"choices": GOOD["choices"] * 2}).encode(), r"field choices: 2 texts, 1 requested"),
        (changed(token_ids=[10] * 10_000), r"field token_ids: it wrote 10000 tokens where 3 were asked for"),
        (changed(token_ids=[10, 10**6, 12]), r"field token_ids: expected token ids from 0 to \d+.*got 1000000"),
        (changed(token_ids=[10, -1, 12]), r"got -1"),
        (changed(token_ids=[10, True, 12]), r"got True"),
        (changed(token_ids=[10, 1.5, 12]), r"got 1\.5"),
        (changed(token_ids="10"), r"field token_ids: expected a list of token ids, got str"),
        (changed(token_ids=[10, 10**30, 12]), r"got 1000000"),
        (b"[" * 100_000, r"nested too deep"),
        (b"\xff\xfe" + json.dumps(GOOD).encode(), r"no JSON in UTF-8"),
        (json.dumps(GOOD).encode("utf-16"), r"no JSON in UTF-8"),
        (changed(text=" \ud800"), r"half of a surrogate pair"),
        (b"9" * 5000, r"no JSON in UTF-8|expected a JSON object"),
        (b"null", r"expected a JSON object, got 'None'"),
        (changed(finish_reason=None), r"finish_reason None"),
    ],
)
def test_a_wrong_reply_names_endpoint_and_field(body, message):
    with pytest.raises(DataError, match=message) as caught:
        generate(answering(body))
    assert "\n" not in str(caught.value)
    assert "http://fake" in str(caught.value)


def test_the_end_token_in_the_middle_is_refused():
    (end,) = ServerBackend(ServerSpec(path=ID, tokenizer=f"bundled:{ID}")).served.end_ids
    with pytest.raises(DataError, match=r"field token_ids: the end token comes before the end of the text"):
        generate(answering(changed(token_ids=[10, end, 12])))


def test_an_odd_charset_changes_nothing():
    for charset in ("application/json; charset=utf-7", "text/plain; charset=nonsense", ""):
        assert generate(answering(json.dumps(GOOD).encode(), charset))[0].token_ids == (10, 11, 12)


def test_the_key_is_removed_before_a_reply_is_parsed(monkeypatch):
    monkeypatch.setenv("SERVER_KEY", KEY)
    escaped = "".join(f"\\u{ord(c):04x}" for c in KEY)
    for key in (KEY, escaped):
        body = f'{{"text": "a {key} b", "{key}": ["{key}"]}}'.encode()
        for status in ("200 OK", "400 Bad Request"):
            with listening(send(reply_bytes(body, status))) as address:
                try:
                    value = str(post(address, key_name="SERVER_KEY"))
                except DataError as err:
                    value = str(err)
            assert KEY not in value
            assert "redacted" in value
            assert escaped not in value


class OtherModel(Fake):
    """Another model under the same name: it reads one more token than it shows."""

    def known(self, ids: list[int], body: dict[str, Any], step: int) -> Any:
        return super().known([77, *ids], body, step)

    def prompt_logprobs(self, ids: list[int], most: int, body: dict[str, Any]) -> list[dict[str, Any] | None]:
        return [None, *super().prompt_logprobs([77, *ids], most, body)[2:]]


def test_two_models_under_one_name_are_refused():
    with served(Fake(), Fake()) as urls:
        assert len(generate(None, endpoints=tuple(urls), probe=True)) == 1  # type: ignore[arg-type]
    with (
        served(Fake(), OtherModel()) as urls,
        pytest.raises(DataError, match=r"list different log-probabilities for the same prompts"),
    ):
        generate(None, endpoints=tuple(urls), probe=True)  # type: ignore[arg-type]


class Restarting(httpx.AsyncBaseTransport):
    """Loses one completion; `version` answers afterwards."""

    def __init__(self, version: str) -> None:
        self.fake, self.version, self.lost = Fake(), version, False
        self.inner = within(self.fake)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/completions" and not self.lost:
            self.lost, self.fake.told = True, self.version
            raise httpx.ConnectError("connection refused")
        return await self.inner.handle_async_request(request)


def test_an_endpoint_that_returns_is_asked_for_its_identity_again():
    assert len(generate(Restarting("0.33.0"), retries=2)) == 1
    with pytest.raises(
        DataError, match=r"vllm 0\.33\.0 stopped answering, and another server answers now \(vllm 0\.34"
    ):
        generate(Restarting("0.34.0"), retries=2)
