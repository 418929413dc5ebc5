"""Requests over a real socket: again after an overload, elsewhere after a death, and never a key in a message."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from openended.harness.backends.openai import client as module, trust
from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.client import Client, read_key
from openended.harness.backends.openai.identity import fetch_info_for_plan
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core.errors import DataError
from openended.harness.core.types import Generation
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from tests.harness.backends.openai.fake import ID, KEY, Fake, Fault, served, within
from tests.helpers import generation

PROMPTS = [Prompt(f"t/{i:02d}", 0, (10 + i, 20, 30)) for i in range(12)]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(trust, "FIRST_PAUSE", 0.01)


def texts(*addresses: str, transport: Any = None, **options: Any) -> dict[str, tuple[int, ...]]:
    """Greedy texts of all prompts, three tokens each."""
    spec = ServerSpec(path=ID, endpoints=tuple(addresses), tokenizer=f"bundled:{ID}", **{"probe": False} | options)
    made: list[Generation] = []
    ServerBackend(spec, transport=transport).generate(
        generation(PROMPTS, Greedy(), seed=0, max_new_tokens=3, batch_size=1), made.extend
    )
    assert len({g.example_id for g in made}) == len(made) == len(PROMPTS)
    return {g.example_id: g.token_ids for g in made}


@pytest.fixture(scope="module")
def right() -> dict[str, tuple[int, ...]]:
    return texts("http://fake", transport=within(Fake()))


def test_an_overload_is_waited_for(right):
    fake = Fake(Fault(fail=3, busy=3, retry_after="0.02"))
    with served(fake) as urls:
        assert texts(*urls) == right
    assert len(fake.bodies) == len(PROMPTS) + 6


def test_a_date_and_a_long_pause_in_retry_after():
    stays = Fault(busy=1, retry_after="Wed, 21 Oct 2015 07:28:00 GMT")
    texts("http://fake", transport=within(Fake(stays)))
    with pytest.raises(DataError, match=r"429: overloaded \(wait 7200 s\); finished texts are kept"):
        texts("http://fake", transport=within(Fake(Fault(busy=1, retry_after="7200"))))


def test_retries_end_with_what_to_do():
    with pytest.raises(DataError, match=r"answers 500: overloaded; finished texts are kept; repeat the command to"):
        texts("http://fake", transport=within(Fake(Fault(fail=99))), retries=2)


def test_an_endpoint_that_stays_overloaded_gives_its_texts_to_the_others(right):
    with served(Fake(Fault(fail=10**6)), Fake()) as urls:
        assert texts(*urls, retries=1) == right


def test_a_reply_that_never_comes_is_asked_for_again(right):
    fake = Fake(Fault(hang=1))
    with served(fake) as urls:
        assert texts(*urls, timeout=0.5) == right
    assert len(fake.bodies) == len(PROMPTS) + 1


def test_one_of_three_endpoints_dies_in_the_middle(right, caplog):
    fakes = [Fake(), Fake(Fault(dies_after=1)), Fake()]
    with served(*fakes) as urls:
        assert texts(*urls, timeout=5.0) == right
    assert fakes[1].answered == 1
    assert sum(f.answered for f in fakes) == len(PROMPTS)
    assert "its texts go to the other endpoints" in caplog.text


def test_who_serves_whom_depends_on_no_order(right):
    """Each text goes to the same endpoint whatever else is asked for, and all endpoints have some."""
    fakes = [Fake() for _ in range(3)]
    with served(*fakes) as urls:
        texts(*urls)
        first = [{tuple(b["prompt"]) for b in f.bodies} for f in fakes]
        for fake in fakes:
            fake.bodies.clear()
        PROMPTS.reverse()
        texts(*urls)
        assert [{tuple(b["prompt"]) for b in f.bodies} for f in fakes] == first
        assert all(first)


def test_an_endpoint_that_is_not_there_is_left_out_and_none_at_all_is_an_error(right, caplog):
    with served(Fake()) as urls:
        assert texts("http://127.0.0.1:9", *urls) == right
    assert "127.0.0.1:9: does not answer" in caplog.text
    with pytest.raises(DataError, match=r"server http://127.0.0.1:9: does not answer"):
        texts("http://127.0.0.1:9", retries=1)


def test_endpoints_of_two_versions_and_another_model_are_refused():
    with served(Fake(), Fake(version="0.34.0")) as urls, pytest.raises(DataError, match=r"vllm 0.33.0 and vllm 0.34.0"):
        texts(*urls)
    with served(Fake(), Fake(Fault(other_id=True))) as urls, pytest.raises(DataError, match="it serves another-model"):
        texts(*urls)
    with pytest.raises(DataError, match=r"expected server 'vllm 0.1', 'vllm 0.33.0' answers"):
        texts("http://fake", transport=within(Fake()), server="vllm 0.1")


def test_no_message_holds_the_key(monkeypatch):
    monkeypatch.setenv("FAKE_API_KEY", KEY)
    fake = Fake(Fault(refuses=True))
    with pytest.raises(DataError) as caught:
        texts("http://fake", transport=within(fake), api_key_env="FAKE_API_KEY")
    assert fake.keys == {f"Bearer {KEY}"}
    assert "400 for /v1/completions: no: Bearer [redacted]" in str(caught.value)
    assert KEY not in repr(caught.getrepr())
    monkeypatch.setenv("FAKE_API_KEY", f"{KEY}\nmore")
    with pytest.raises(DataError, match="holds is no key") as wrong:
        read_key("FAKE_API_KEY")
    assert KEY not in str(wrong.value)
    with pytest.raises(DataError, match="no environment variable ABSENT_KEY"):
        read_key("ABSENT_KEY")


def test_a_plan_asks_once_and_does_without_an_answer():
    with served(Fake(context=77)) as urls:
        told = fetch_info_for_plan(tuple(urls), None, "vllm", ID)
        assert told is not None
        assert (told.title, told.context, told.models) == ("vllm 0.33.0", 77, (ID,))
    assert fetch_info_for_plan(("http://127.0.0.1:9",), None, "vllm", ID) is None


def test_a_client_must_be_open():
    with pytest.raises(TypeError, match="not open"):
        asyncio.run(Client(["http://fake"]).get(0, "/v1/models"))
