"""Requests over real sockets: overloads, deaths, outages and hostile replies; and never a key in a message."""

import asyncio
import base64
import json
import re
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from openended.harness.backends.openai import client as module, session
from openended.harness.backends.openai.backend import ServerBackend
from openended.harness.backends.openai.client import Client, clean_line, find_error_line, read_body, read_key
from openended.harness.backends.openai.spec import ServerSpec
from openended.harness.core import REDACTED, DataError, Generation
from openended.harness.decoders.base import Prompt
from openended.harness.decoders.sampling import Greedy
from tests.harness.backends.openai.fake import ID, KEY, Fake, Fault, OtherModel, served, within
from tests.harness.backends.openai.hostile import ENDLESS, TOO_LARGE, listening, reply_bytes, send
from tests.helpers import cases, check_error, generation

PROMPTS = [Prompt(f"t/{i:02d}", 0, (10 + i, 20, 30)) for i in range(12)]
PATIENCE = 0.6
GOOD: dict[str, Any] = {
    "model": ID,
    "choices": [{"index": 0, "finish_reason": "length", "text": "*+,", "token_ids": [10, 11, 12]}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 3},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "_outages", {})
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)


def write(*addresses, transport=None, prompts=PROMPTS, emit=None, **options):
    """Greedy texts of prompts, three tokens each."""
    chosen = {"endpoints": tuple(addresses or ["http://fake"]), "tokenizer": f"bundled:{ID}", "probe": False} | options
    texts: list[Generation] = []
    request = generation(prompts, Greedy(), seed=0, max_new_tokens=3, batch_size=1)
    ServerBackend(ServerSpec(path=ID, **chosen), transport=transport).generate(request, emit or texts.extend)
    return {g.example_id: g.token_ids for g in texts}


def write_one(transport: Any, *addresses: str, **options: Any) -> tuple[int, ...]:
    prompts = [Prompt("t/0", 0, (10, 20, 30))]
    return write(*addresses, transport=transport, prompts=prompts, **{"retries": 0} | options)["t/0"]


def post(address: str, transport: Any = None, **options: Any) -> Any:
    async def work() -> Any:
        async with Client([address], transport=transport, **options) as client:
            return await client.post("/v1/completions", {"prompt": "a"}, [0], lambda reply: reply)

    return asyncio.run(work())


@pytest.fixture(scope="module")
def right() -> dict[str, tuple[int, ...]]:
    texts = write(transport=within(Fake()))
    assert len(texts) == len(PROMPTS)
    return texts


@pytest.mark.parametrize("fault", [{"fail": 3, "busy": 3, "retry_after": "0.02"}, {"hang": 1}], ids=str)
def test_an_overload_is_waited_for_and_a_lost_reply_asked_for_again(right, fault):
    fake = Fake(Fault(**fault))
    with served(fake) as urls:
        assert write(*urls, timeout=0.5) == right
    assert len(fake.bodies) == len(PROMPTS) + fault.get("fail", 0) + fault.get("busy", 0) + fault.get("hang", 0)


def test_retries_wait_as_long_as_told_and_end_with_what_to_do():
    for year in ("2015", "9" * 20):
        write(transport=within(Fake(Fault(busy=1, retry_after=f"Wed, 21 Oct {year} 07:28:00 GMT"))))
    with pytest.raises(DataError, match=r"429: overloaded \(wait 7200 s\); finished texts are kept"):
        write(transport=within(Fake(Fault(busy=1, retry_after="7200"))))

    with pytest.raises(DataError, match=r"answers 500: overloaded; finished texts are kept; repeat the command to"):
        write(transport=within(Fake(Fault(fail=99))), retries=2)
    check_error(TypeError, "not open", asyncio.run, Client(["http://fake"]).get(0, "/v1/models"))


def test_an_endpoint_that_stays_overloaded_gives_its_texts_to_the_others(right):
    with served(Fake(Fault(fail=10**6)), Fake()) as urls:
        assert write(*urls, retries=1) == right


def test_one_of_three_endpoints_dies_in_the_middle(right, caplog):
    fakes = [Fake(), Fake(Fault(dies_after=1)), Fake()]
    with served(*fakes) as urls:
        assert write(*urls, timeout=5.0) == right
    assert fakes[1].answered == 1
    assert sum(f.answered for f in fakes) == len(PROMPTS)
    assert "its texts go to the other endpoints" in caplog.text


def test_who_serves_whom_depends_on_no_order():
    """Each text goes to the same endpoint whatever else is asked for, and all endpoints have some."""
    fakes = [Fake() for _ in range(3)]
    sent = []
    with served(*fakes) as urls:
        for prompts in (PROMPTS, PROMPTS[::-1]):
            write(*urls, prompts=prompts)
            sent.append([{tuple(b["prompt"]) for b in f.bodies} for f in fakes])
            for fake in fakes:
                fake.bodies.clear()
    assert sent[0] == sent[1]
    assert all(sent[0])


def test_an_endpoint_that_is_not_there_is_left_out_and_none_at_all_is_an_error(right, caplog):
    with served(Fake()) as urls:
        assert write("http://127.0.0.1:9", *urls) == right
    assert "127.0.0.1:9: does not answer" in caplog.text
    check_error(DataError, r"server http://127.0.0.1:9: does not answer", write, "http://127.0.0.1:9", retries=1)


def test_endpoints_of_two_versions_and_another_model_are_refused():
    with served(Fake(), Fake(version="0.34.0")) as urls, pytest.raises(DataError, match=r"vllm 0.33.0 and vllm 0.34.0"):
        write(*urls)
    with served(Fake(), Fake(Fault(other_id=True))) as urls, pytest.raises(DataError, match="it serves another-model"):
        write(*urls)
    with pytest.raises(DataError, match=r"expected server 'vllm 0.1', 'vllm 0.33.0' answers"):
        write(transport=within(Fake()), server="vllm 0.1")


@pytest.mark.slow
def test_two_models_under_one_name_are_refused():
    with served(Fake(), Fake()) as urls:
        assert write_one(None, *urls, probe=True)
    with served(Fake(), OtherModel()) as urls, pytest.raises(DataError, match="different log-probabilities for the"):
        write_one(None, *urls, probe=True)


def test_a_plan_asks_once_and_does_without_an_answer():
    with served(Fake(context=77)) as urls:
        info = session.fetch_info_for_plan(tuple(urls), None, "vllm", ID)
    assert info is not None
    assert (info.title, info.context, info.models) == ("vllm 0.33.0", 77, (ID,))
    assert session.fetch_info_for_plan(("http://127.0.0.1:9",), None, "vllm", ID) is None


# Servers that refuse connections.


def wait_for(call: Callable[[], object]) -> float:
    """Return how long a call waited for a dead server, which its error tells."""
    began = time.monotonic()
    check_error(DataError, r"refused since \d\d:\d\d:\d\d, retried for 0.6 s \(model.patience\)", call)
    return time.monotonic() - began


@pytest.fixture
def dead() -> str:
    """The address of a server that has ended."""
    with served(Fake()) as (address,):
        pass
    return address


@pytest.mark.slow
def test_the_first_job_waits_and_the_others_fail_at_once_until_a_server_answers(dead):
    seconds = [wait_for(lambda: write_one(None, dead, retries=30, patience=PATIENCE)) for _ in range(3)]
    assert PATIENCE <= seconds[0] < 4 * PATIENCE
    assert max(seconds[1:]) < PATIENCE
    with served(Fake()) as (address,):
        assert write_one(None, dead, address)  # another endpoint takes over
        module.note_refusal(address, PATIENCE)
        assert write_one(None, address)
        assert address not in module._outages


@pytest.mark.slow
def test_a_request_under_way_is_retried_no_longer_than_the_patience_which_is_said_once(caplog):
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    seconds = wait_for(lambda: post("http://fake", httpx.MockTransport(refuse), patience=PATIENCE))
    (message,) = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(r"server http://fake: does not answer; waiting up to 1 s for it", message)
    assert PATIENCE <= seconds < 4 * PATIENCE


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle_is_waited_for_no_longer_than_the_patience():
    fake, kept = Fake(), list[Generation]()

    def emit(texts: list[Generation]) -> None:
        kept.extend(texts)
        fake.stop()

    prompts = [Prompt(f"t/{i}", 0, (10, 20)) for i in range(400)]
    with served(fake) as (address,):
        options = {"patience": PATIENCE, "concurrency": 1}
        seconds = wait_for(lambda: write(address, prompts=prompts, emit=emit, **options))
    assert seconds < 10 * PATIENCE  # eight retries with growing pauses would be two minutes
    assert 0 < len(kept) < 400


# Hostile servers.


@pytest.mark.parametrize("name", ENDLESS)
def test_one_deadline_covers_the_whole_request(name):
    start = time.monotonic()
    with listening(ENDLESS[name]) as address, pytest.raises(DataError, match=r"no answer in 0\.2 s|does not answer"):
        post(address, timeout=0.2, retries=0)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("name", ENDLESS | TOO_LARGE)
def test_a_plan_does_not_wait_for_a_sick_server(name, monkeypatch):
    monkeypatch.setattr(session, "_PLAN_TIMEOUT", 0.15)
    start = time.monotonic()
    with listening((ENDLESS | TOO_LARGE)[name]) as address:
        info = session.fetch_info_for_plan((address,), None, "vllm", ID)
    assert info is None or info.version is None
    assert time.monotonic() - start < 5


def make_transport(body: bytes, content_type="application/json", *, path="/v1/completions") -> httpx.MockTransport:
    """Answer completions with these bytes."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == path:
            return httpx.Response(200, content=body, headers={"Content-Type": content_type})
        about = {"version": "0.33.0"} if request.url.path == "/version" else {"data": [{"id": ID}]}
        return httpx.Response(200, json=about)

    return httpx.MockTransport(answer)


def changed(**choice: Any) -> bytes:
    return json.dumps(GOOD | {"choices": [GOOD["choices"][0] | choice]}).encode()


END = ServerBackend(ServerSpec(path=ID, tokenizer=f"bundled:{ID}")).served.end_ids[0]


@cases(
    "body, message",
    (changed(text=None), r"choices\[0\]: field text: expected text, got null"),
    (changed(text=["a"]), r"field text: expected text, got list"),
    (json.dumps(GOOD | {"model": "another"}).encode(), r"field model: it answers for 'another', 'docs-s' was"),
    (json.dumps(GOOD | {"choices": GOOD["choices"] * 2}).encode(), r"field choices: 2 texts, 1 requested"),
    (changed(token_ids=[10] * 10_000), r"field token_ids: it wrote 10000 tokens where 3 were asked for"),
    (changed(token_ids=[10, 10**6, 12]), r"field token_ids: expected token ids from 0 to \d+.*got 1000000"),
    (changed(token_ids=[10, -1, 12]), r"got -1"), (changed(token_ids=[10, True, 12]), r"got True"),
    (changed(token_ids=[10, 1.5, 12]), r"got 1\.5"), (changed(token_ids=[10, None, 12]), r"got None"),
    (changed(token_ids="10"), r"field token_ids: expected a list of token ids, got str"),
    (changed(token_ids=[10, 10**30, 12]), r"got 1000000"),
    (changed(token_ids=[10, END, 12]), r"field token_ids: the end token comes before the end of the text"),
    (b"[" * 100_000, r"nested too deep"), (b"\xff\xfe" + json.dumps(GOOD).encode(), r"no JSON in UTF-8"),
    (json.dumps(GOOD).encode("utf-16"), r"no JSON in UTF-8"),
    (changed(text=" \ud800"), r"half of a surrogate pair"),
    (b"9" * 5000, r"no JSON in UTF-8|expected a JSON object"), (b"null", r"expected a JSON object, got 'None'"),
    (changed(finish_reason=None), r"finish_reason None"),
    (changed(finish_reason="x" * 9999), r"finish_reason 'x{39}; expected stop or length$"),
)  # fmt: skip
def test_a_wrong_reply_names_endpoint_and_field(body, message):
    assert "http://fake" in check_error(DataError, message, write_one, make_transport(body))


NOTHING = {"message": {"role": "assistant", "content": ""}}


@pytest.mark.parametrize("details", [[1], {"reasoning_tokens": [2]}, {"reasoning_tokens": 2}, None], ids=str)
def test_details_of_any_form_in_an_answer_without_text(details):
    body = json.loads(changed(text=None, token_ids=None, **NOTHING))
    body["usage"]["completion_tokens_details"] = details
    transport = make_transport(json.dumps(body).encode(), path="/v1/chat/completions")
    assert write_one(transport, chat=True) == ()


@pytest.mark.parametrize("text", ["a " * 500_000, "a" * 500_000], ids=["words", "one word"])
@pytest.mark.parametrize("form", ["text", "message"])
def test_a_text_far_longer_than_its_count_says_is_refused(text, form):
    choice = {"text": text} if form == "text" else {"text": None, "message": {"content": "a", "reasoning": text}}
    path = "/v1/completions" if form == "text" else "/v1/chat/completions"
    transport = make_transport(changed(token_ids=None, **choice), path=path)
    with pytest.raises(DataError, match=r"field text: .* characters where 3 tokens were asked for: it ignores"):
        write_one(transport, tokenizer=None, chat=form == "message")


def test_a_body_has_a_bound_and_its_charset_changes_nothing():
    for charset in ("application/json; charset=utf-7", "text/plain; charset=nonsense", ""):
        assert write_one(make_transport(json.dumps(GOOD).encode(), charset)) == (10, 11, 12)

    def read(reply: httpx.Response) -> str:
        return asyncio.run(read_body(reply, None, 1000)).decode()

    assert read(httpx.Response(200, content=b"x" * 1000)) == "x" * 1000
    check_error(DataError, "larger than 1,000 bytes", read, httpx.Response(200, content=b"x" * 1001))
    with pytest.raises(DataError, match="content-encoding gzip; expected none"):
        read(httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"x")))


@cases(
    "content, line",
    (b'{"error": {"message": "too long\\nmore"}}', "too long"),
    (b'{"detail": "not found"}', "not found"),
    (b'{"detail": [{"loc": ["body", "n"], "msg": "too large"}]}', "too large"),
    (b"<html>\n\n oops", "<html>"),
    (b"  \n", "no reason given"),
    (b"a\x1b[31m" + b"b" * 1000, "a\\x1b[31m" + "b" * 191),
)
def test_the_first_line_of_an_error_is_short_and_has_no_control_characters(content, line):
    assert find_error_line(content, None) == line


def test_no_message_holds_the_key(monkeypatch):
    monkeypatch.setenv("FAKE_API_KEY", KEY)
    fake = Fake(Fault(refuses=True))
    with pytest.raises(DataError) as caught:
        write(transport=within(fake), api_key_env="FAKE_API_KEY")
    assert fake.keys == {f"Bearer {KEY}"}
    assert "400 for /v1/completions: no: Bearer [redacted]" in str(caught.value)
    assert KEY not in repr(caught.getrepr())
    assert clean_line(f"a {KEY}", KEY) == f"a {REDACTED}"
    monkeypatch.setenv("FAKE_API_KEY", f"{KEY}\nmore")
    assert KEY not in check_error(DataError, "holds is no key", read_key, "FAKE_API_KEY")
    check_error(DataError, "no environment variable ABSENT_KEY", read_key, "ABSENT_KEY")


FORMS = {
    "plain": KEY,
    "upper case": KEY.upper(),
    "JSON": "".join(f"\\u{ord(c):04x}" for c in KEY),
    "address": "".join(f"%{ord(c):02X}" for c in KEY),
    "partly escaped": KEY.replace("-", "%2D"),
    "HTML": "".join(f"&#x{ord(c):X};" for c in KEY[:9]) + "".join(f"&#{ord(c)};" for c in KEY[9:]),
    "Base64": base64.b64encode(KEY.encode()).decode().rstrip("="),
    "Base64 behind a word": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "Base64 behind two characters": base64.urlsafe_b64encode(f"u:{KEY}".encode()).decode(),
    "hexadecimal": KEY.encode().hex(),
}


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
@pytest.mark.parametrize("form", FORMS)
def test_the_key_is_removed_before_a_reply_is_parsed(monkeypatch, form, status):
    monkeypatch.setenv("SERVER_KEY", KEY)
    shown = FORMS[form]
    with listening(send(reply_bytes(f'{{"text": "a {shown} b", "{shown}": ["{shown}"]}}'.encode(), status))) as address:
        try:
            value = str(post(address, timeout=0.4, retries=0, key_name="SERVER_KEY"))
        except DataError as err:
            value = str(err)
    assert "redacted" in value
    assert KEY not in value
    assert shown not in value


@pytest.mark.parametrize("form", FORMS)
def test_the_key_is_removed_from_what_is_said_of_headers(monkeypatch, form):
    monkeypatch.setenv("SERVER_KEY", KEY)
    for more in (f"Content-Encoding: {FORMS[form]}\r\n", f"\x01{FORMS[form]}\r\n"):
        with listening(send(reply_bytes(b"{}", more=more))) as address, pytest.raises(DataError) as caught:
            post(address, timeout=0.4, retries=0, key_name="SERVER_KEY")
        assert "redacted" in str(caught.value)
        assert FORMS[form].lower() not in str(caught.value).lower()
    assert REDACTED in clean_line(KEY.encode("utf-16").decode("latin-1"), KEY)


def test_a_key_that_is_a_word_changes_no_text(monkeypatch):
    monkeypatch.setenv("SERVER_KEY", "empty")
    with listening(send(reply_bytes(b'{"text": "an empty list"}'))) as address:
        assert post(address, timeout=5, key_name="SERVER_KEY") == {"text": "an empty list"}


def test_a_job_that_is_cancelled_is_no_silent_loss():
    finished: list[int] = []

    async def work(job: int) -> None:
        await asyncio.sleep(0)
        if job == 2:
            raise asyncio.CancelledError
        finished.append(job)

    for workers in (1, 3):
        jobs = module.run_concurrently(range(6), work, workers)
        check_error(
            DataError, "a request was cancelled; finished texts are kept; repeat the command", asyncio.run, jobs
        )
    assert finished == [0, 1, 0, 1, 3, 4, 5]
