"""Read reply bodies safely: bounded size, no compression, no key, and JSON of which no value can crash a reader."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openended.harness.core import REDACTED, DataError, escape_controls_in_line, redact_keys

if TYPE_CHECKING:
    import httpx

MAX_REPLY = 16 << 20
"""Bytes of a reply, unless the request allows for more."""

_ESCAPED = re.compile(rb"\\[u/]")
_SHOWN = 200  # characters of a reply in a message


@dataclass(frozen=True, slots=True)
class Body:
    """Status, headers and bytes of a reply, without the key."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    key: str | None = None

    @property
    def text(self) -> str:
        """The bytes decoded as UTF-8; the server's charset is ignored."""
        return self.content.decode("utf-8", "replace")

    def decode_json(self) -> Any:  # noqa: ANN401 - JSON
        try:
            value = json.loads(self.content.decode("utf-8-sig"))
            if _ESCAPED.search(self.content):  # escapes can hide the key or half of a surrogate pair
                text = json.dumps(value, ensure_ascii=False)
                text.encode()
                value = json.loads(text.replace(self.key, REDACTED)) if self.key and self.key in text else value
        except UnicodeEncodeError as err:
            raise DataError("its reply holds half of a surrogate pair; it is not valid text") from err
        except RecursionError as err:
            raise DataError("its reply is JSON nested too deep") from err
        except ValueError as err:
            raise DataError(f"no JSON in UTF-8: {clean_line(self.text[:80], self.key)}") from err
        return value

    def error_line(self) -> str:
        text = self.text
        try:
            content = self.decode_json()
        except DataError:
            content = None
        for name in ("error", "message", "detail"):
            if isinstance(content, dict) and content.get(name):
                content = content[name]
        if isinstance(content, str):
            text = content
        elif content is not None and _ESCAPED.search(self.content):  # without the key, however it was escaped
            text = json.dumps(content, ensure_ascii=False)
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
        return clean_line(line, self.key)


async def read_body(reply: httpx.Response, key: str | None, limit: int) -> Body:
    """Read a streamed reply, at most `limit` bytes of it; the key is removed from its bytes and headers."""
    coding = reply.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise DataError(f"its reply has content-encoding {clean_line(coding, key):.40}; expected none, as requested")
    content = bytearray()
    async for block in reply.aiter_bytes():  # the bytes as sent: no coding, see above
        content += block
        if len(content) > limit:
            raise DataError(f"its reply is larger than {limit:,} bytes")
    data = bytes(content).replace(key.encode(), REDACTED.encode()) if key else bytes(content)
    return Body(reply.status_code, dict(reply.headers), data, key)


def clean_line(text: str, key: str | None) -> str:
    """Return text as one short line without the key."""
    return escape_controls_in_line(redact_keys(text.replace(key, REDACTED) if key else text))[:_SHOWN]
