"""Test how bodies of replies are read."""

import asyncio
import json

import httpx
import pytest

from openended.harness.backends.openai.bodies import Body, clean_line, read_body
from openended.harness.core import REDACTED, DataError

KEY = "sk-a-secret-key"


def body(content, key=None):
    return Body(200, {}, content if isinstance(content, bytes) else json.dumps(content).encode(), key)


def read(reply, limit=1000, key=None):
    return asyncio.run(read_body(reply, key, limit))


def test_a_body_of_the_limit_is_read_and_a_larger_one_refused():
    assert read(httpx.Response(200, content=b"x" * 1000)).text == "x" * 1000
    with pytest.raises(DataError, match="larger than 1,000 bytes"):
        read(httpx.Response(200, content=b"x" * 1001))


def test_a_compressed_body_is_refused():
    reply = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"x"))
    with pytest.raises(DataError, match="content-encoding gzip; expected none"):
        read(reply)


def test_the_key_is_removed_however_it_is_written():
    assert KEY not in read(httpx.Response(200, content=f"no key {KEY}".encode()), key=KEY).text
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    hidden = body(f'{{"error": "wrong key {escaped}"}}'.encode(), KEY)
    assert hidden.decode_json() == {"error": f"wrong key {REDACTED}"}
    assert KEY not in hidden.error_line()
    assert clean_line(f"a {KEY}", KEY) == f"a {REDACTED}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "nested too deep"),
        (b"no json", "no JSON in UTF-8: no json"),
        (b'"\\ud800"', "half of a surrogate pair"),
        (b"\xff\xfe", "no JSON in UTF-8"),
    ],
)
def test_json_that_cannot_be_read(content, message):
    with pytest.raises(DataError, match=message):
        body(content).decode_json()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ({"error": {"message": "too long\nmore"}}, "too long"),
        ({"detail": "not found"}, "not found"),
        (b"<html>\n\n oops", "<html>"),
        (b"  \n", "no reason given"),
    ],
)
def test_the_first_line_of_an_error(content, line):
    assert body(content).error_line() == line


def test_a_line_is_short_and_has_no_control_characters():
    line = clean_line("a\x1b[31m" + "b" * 1000, None)
    assert len(line) == 200
    assert line.isprintable()
