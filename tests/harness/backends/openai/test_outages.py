"""A server that refuses connections is waited for once in a process, not once a job."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from openended.harness.backends.openai import client as client_module, trust
from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.client import Client
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core.errors import DataError
from openended.harness.core.types import Generation
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from tests.harness.backends.openai.fake import ID, Fake, served
from tests.helpers import generation

PATIENCE = 1.5


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(client_module, "_outages", {})
    monkeypatch.setattr(client_module, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(trust, "FIRST_PAUSE", 0.05)


@pytest.fixture
def dead() -> str:
    """The address of a server that has ended."""
    with served(Fake()) as (address,):
        pass
    return address


def run_job(*addresses: str, **options: float) -> float:
    """Generate one text as a job of a grid does; returns the seconds it took."""
    spec = ServerSpec(
        path=ID, endpoints=addresses, tokenizer=f"bundled:{ID}", probe=False, **{"patience": PATIENCE, **options}
    )
    began = time.monotonic()
    request = generation([Prompt("t/0", 0, (10, 20))], Greedy(), seed=0, max_new_tokens=2, batch_size=1)
    message = ""
    try:
        ServerBackend(spec).generate(request, lambda _: None)
    except DataError as err:
        message = str(err)
    if not message:
        return -1.0
    assert f"retried for {PATIENCE:g} s (model.patience)" in message
    assert "refused since " in message
    assert "\n" not in message
    return time.monotonic() - began


def test_the_first_job_waits_and_the_others_fail_at_once(dead):
    first, second, third = (run_job(dead, retries=30) for _ in range(3))
    assert PATIENCE <= first < 4 * PATIENCE
    assert 0 <= second < PATIENCE
    assert 0 <= third < PATIENCE


def test_a_server_that_comes_back_is_used_again_and_waited_for_anew(dead):
    assert run_job(dead, retries=30) > 0
    with served(Fake()) as (address,):
        assert run_job(address) == -1.0
        client_module.note_refusal(address, PATIENCE)
        assert run_job(address) == -1.0
        assert address not in client_module._outages


def test_another_endpoint_takes_over_however_long_one_is_dead(dead):
    assert run_job(dead, retries=30) > 0
    with served(Fake()) as (address,):
        assert run_job(dead, address) == -1.0


def test_a_request_under_way_is_retried_no_longer_than_the_patience():
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    async def post() -> None:
        async with Client(["http://fake"], patience=PATIENCE, transport=httpx.MockTransport(refuse)) as client:
            await client.post("/v1/completions", {}, [0])

    began = time.monotonic()
    with pytest.raises(DataError, match=r"refused since \d\d:\d\d:\d\d, retried for 1.5 s .*finished texts are kept"):
        asyncio.run(post())
    assert PATIENCE <= time.monotonic() - began < 4 * PATIENCE


def test_a_server_that_dies_in_the_middle_is_waited_for_no_longer_than_the_patience():
    fake, kept = Fake(), list[Generation]()
    with served(fake) as (address,):

        def emit(texts: list[Generation]) -> None:
            kept.extend(texts)
            fake.stop()

        spec = ServerSpec(
            path=ID, base_url=address, tokenizer=f"bundled:{ID}", probe=False, patience=PATIENCE, concurrency=1
        )
        prompts = [Prompt(f"t/{i}", 0, (10, 20)) for i in range(400)]
        request = generation(prompts, Greedy(), seed=0, max_new_tokens=2, batch_size=1)
        began = time.monotonic()
        with pytest.raises(DataError, match=r"retried for 1.5 s .model.patience."):
            ServerBackend(spec).generate(request, emit)
    assert time.monotonic() - began < 10 * PATIENCE  # eight retries with growing pauses would be two minutes
    assert 0 < len(kept) < 400


def test_seconds_count_from_the_first_refusal(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(client_module.time, "monotonic", lambda: now[0])
    assert client_module.note_refusal("http://a", 60)[0] == 60
    now[0] = 150
    assert client_module.note_refusal("http://a", 60)[0] == 10
    assert client_module.note_refusal("http://b", 60)[0] == 60
    now[0] = 161
    left, message = client_module.note_refusal("http://a", 60)
    assert left == 0
    assert "retried for 60 s" in message
    client_module._outages.pop("http://a")
    assert client_module.note_refusal("http://a", 60)[0] == 60
