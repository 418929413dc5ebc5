"""HTTP client for one or several endpoints: concurrent requests, retries, and failover when an endpoint dies.

The key is removed from a reply's bytes before they are parsed, so that no message, text or record holds it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from openended.harness.core import REDACTED, DataError, escape_controls_in_line, redact_keys

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)
for _name in ("httpx", "httpcore"):  # they log a line for every request
    logging.getLogger(_name).setLevel(logging.WARNING)

J = TypeVar("J")
Reader = Callable[[Any], Any]

MAX_REPLY = 16 << 20  # bytes of a reply, unless the request allows for more
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds before the first retry (doubled each time), and the maximum
MAX_RETRY_AFTER = 900.0  # longest Retry-After that is obeyed, in seconds
UNAVAILABLE_SECONDS = 30.0  # seconds for which an endpoint that does not answer is not used
CONNECT_TIMEOUT = 10.0  # connection timeout, in seconds
RESUME_HINT = "finished texts are kept; repeat the command to resume"
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
_SECRET = 12  # characters; a shorter key could be a word of a text, and is removed from messages alone
_SHOWN = 200  # characters of a reply in a message
_outages: dict[str, tuple[float, str]] = {}
"""Server that refuses connections → when it refused first: by the monotonic clock, and for people."""


def clean_line(text: str, key: str | None) -> str:
    """Return text as one short line without the key."""
    return escape_controls_in_line(redact_keys(remove_key(text, key)))[:_SHOWN]


def remove_key(text: str, key: str | None) -> str:
    """Replace a key in any of the forms in which a server may repeat it."""
    if not key:
        return text
    if len(key) < _SECRET:
        return text.replace(key, REDACTED)
    return _remove_key_forms(text.encode("utf-8", "surrogatepass"), key).decode("utf-8", "surrogatepass")


def _remove_key_forms(content: bytes, key: str) -> bytes:
    parts, end = [], 0
    for match in _compile_key_forms(key).finditer(content.lower()):
        parts += [content[end : match.start()], REDACTED.encode()]
        end = match.end()
    return b"".join([*parts, content[end:]])


@cache
def _compile_key_forms(key: str) -> re.Pattern[bytes]:
    """Compile a pattern for a key in lower case: escaped for JSON, HTML or an address, in UTF-16, Base64 or hex."""
    hidden = []
    for c in key:
        codes = {ord(c.lower()), ord(c.upper())}
        of_16, of_10 = "|".join(f"{code:x}" for code in codes), "|".join(map(str, codes))
        hidden.append(
            rf"(?:{re.escape(c.lower())}|%(?:{of_16})|\\+(?:u00|x)(?:{of_16})|&#(?:x0*(?:{of_16})|0*(?:{of_10}));)"
        )
    forms = [r"\0?\\*".join(hidden), key.encode().hex()]
    for before in range(3):  # bytes in front of the key in a group of three; characters that only the key decides
        encoded = base64.b64encode(bytes(before) + key.encode() + bytes(2)).decode().lower()
        part = encoded[-(-8 * before // 6) : 8 * (before + len(key)) // 6]
        forms += [re.escape(part), re.escape(part.translate(str.maketrans("+/", "-_")))]
    return re.compile("|".join(forms).encode())


async def read_body(reply: httpx.Response, key: str | None, limit: int) -> bytes:
    """Read a streamed reply, at most `limit` bytes of it; the key is removed from its bytes."""
    coding = reply.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise DataError(f"its reply has content-encoding {clean_line(coding, key):.40}; expected none, as requested")
    content = bytearray()
    async for block in reply.aiter_bytes():  # the bytes as sent: no coding, see above
        content += block
        if len(content) > limit:
            raise DataError(f"its reply is larger than {limit:,} bytes")
    if key is None or len(key) < _SECRET:
        return bytes(content)
    return _remove_key_forms(bytes(content), key)


def decode_json(content: bytes, key: str | None) -> Any:  # noqa: ANN401 - JSON
    """Decode a reply's JSON as UTF-8, whatever charset the server names."""
    try:
        value = json.loads(content.decode("utf-8-sig"))
        if b"\\u" in content:  # an escape can be half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as err:
        raise DataError("its reply holds half of a surrogate pair; it is not valid text") from err
    except RecursionError as err:
        raise DataError("its reply is JSON nested too deep") from err
    except ValueError as err:
        raise DataError(f"no JSON in UTF-8: {clean_line(content.decode('utf-8', 'replace')[:80], key)}") from err
    return value


def find_error_line(content: bytes, key: str | None) -> str:
    """Return the first line of what a reply says is wrong."""
    text = content.decode("utf-8", "replace")
    try:
        value = decode_json(content, key)
    except DataError:
        value = None
    for name in ("error", "message", "detail", "msg"):
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, dict) and value.get(name):
            value = value[name]
    if isinstance(value, str):
        text = value
    return clean_line(next((line.strip() for line in text.splitlines() if line.strip()), "no reason given"), key)


class UnreachableError(DataError):
    """A failed attempt that a retry may fix.

    `wait`: the server's Retry-After; `gone`: no answer; `left`: seconds for which it may be tried again, None where
    nothing limits them.
    """

    def __init__(
        self, message: str, *, wait: float | None = None, gone: bool = False, left: float | None = None
    ) -> None:
        super().__init__(message)
        self.wait, self.gone, self.left = wait, gone, left


def compute_pause(attempt: int, left: float | None = None) -> float:
    """Return the seconds before a retry: doubled each time, and no more than `left`."""
    return min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE, LONGEST_PAUSE if left is None else left)


@dataclass
class Client:
    """Client for the endpoints of one served model; an asynchronous context manager."""

    endpoints: Sequence[str]  # roots of the servers, without `/v1`
    key_name: str | None = None  # environment variable with the key; None: no key is sent
    timeout: float = 600.0  # seconds that a request may take, from connecting to the last byte of the reply
    retries: int = 8  # number of retries per request
    concurrency: int = 64  # number of concurrent requests per endpoint
    patience: float = 60.0  # seconds for which refused connections are retried, in all jobs of the process together
    transport: httpx.AsyncBaseTransport | None = None  # replaces the network in tests
    key_required: bool = True  # refuse to open without the key; false for plans
    _key: str | None = None
    _unavailable_until: dict[int, float] = field(default_factory=dict)
    _http: httpx.AsyncClient | None = None
    _waited: set[int] = field(default_factory=set)  # endpoints of which a line said that they are waited for

    async def __aenter__(self) -> Client:
        import httpx

        self._key = read_key(self.key_name, required=self.key_required)
        headers = {"Accept-Encoding": "identity"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        most = self.concurrency * len(self.endpoints)
        # Loading certificates is slow and needed only for https.
        options: dict[str, Any] = {"verify": any(address.startswith("https") for address in self.endpoints)}
        options["timeout"] = httpx.Timeout(self.timeout, connect=min(CONNECT_TIMEOUT, self.timeout), pool=None)
        options["limits"] = httpx.Limits(max_connections=most, max_keepalive_connections=most)
        self._http = httpx.AsyncClient(headers=headers, transport=self.transport, follow_redirects=False, **options)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def get(self, endpoint: int, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return the JSON at a path; None if the server does not serve it."""
        try:
            return await self._send_once(endpoint, path, None, MAX_REPLY)
        except UnreachableError:
            raise
        except DataError:
            return None

    async def post(
        self, path: str, body: dict[str, Any], endpoints: Sequence[int], read: Reader, limit: int = MAX_REPLY
    ) -> Any:  # noqa: ANN401 - JSON
        """Send a request to the first of these endpoints that answers.

        Args:
            path: Below the endpoint's root.
            body: The request's JSON.
            endpoints: Indices of the endpoints, in the order in which they are tried.
            read: Converts the reply to the result; the endpoint is added to its error messages.
            limit: Bytes of the reply at most.

        Raises:
            DataError: If the request is refused, no endpoint answers after all retries, or a reply is not as requested.
        """
        tries, left = 0, list(endpoints)
        while True:
            endpoint = self._choose(left)
            try:
                reply = await self._send_once(endpoint, path, body, limit)
            except UnreachableError as err:
                if err.wait is not None and err.wait > MAX_RETRY_AFTER:
                    raise DataError(f"{err} (wait {err.wait:.0f} s); {RESUME_HINT}") from err
                if err.gone:
                    self._set_aside(endpoint, err)
                    if self._choose(left) != endpoint:
                        continue
                tries += 1
                if tries > self.retries or err.left == 0:
                    left.remove(endpoint)
                    if not left:
                        others = f"; none of its {len(endpoints)} endpoints answers" if len(endpoints) > 1 else ""
                        raise DataError(f"{err}{others}; {RESUME_HINT}") from err
                    self._set_aside(endpoint, err)
                    tries = 0
                    continue
                if err.left is not None and endpoint not in self._waited:
                    self._waited.add(endpoint)
                    log.warning("%s; waiting up to %.0f s for it", str(err).partition(" (")[0], err.left)
                await asyncio.sleep(compute_pause(tries - 1, err.left) if err.wait is None else err.wait)
            else:
                self._unavailable_until.pop(endpoint, None)
                try:
                    return read(reply)
                except DataError as err:
                    raise DataError(f"server {self.endpoints[endpoint]}: {remove_key(str(err), self._key)}") from err

    def _choose(self, endpoints: Sequence[int]) -> int:
        """Return the first endpoint that is available, else the one that becomes available first."""
        now = time.monotonic()
        return min(endpoints, key=lambda endpoint: max(self._unavailable_until.get(endpoint, 0.0), now))

    def _set_aside(self, endpoint: int, why: UnreachableError) -> None:
        if endpoint not in self._unavailable_until and len(self.endpoints) > 1:
            log.warning("%s; its texts go to the other endpoints", why)
        self._unavailable_until[endpoint] = time.monotonic() + UNAVAILABLE_SECONDS

    async def _send_once(self, endpoint: int, path: str, body: dict[str, Any] | None, limit: int) -> Any:  # noqa: ANN401
        import httpx

        if self._http is None:
            raise TypeError("the client is not open")
        root = self.endpoints[endpoint]
        where = f"server {root}"
        request = self._http.build_request("GET" if body is None else "POST", root + path, json=body)
        if body is None:  # a server may close the connection after an error: the next request must not be sent on it
            request.headers["Connection"] = "close"
        try:
            async with asyncio.timeout(self.timeout):  # limits the whole request: connect, wait and read
                reply = await self._http.send(request, stream=True)
                try:
                    content = await read_body(reply, self._key, limit)
                finally:
                    await reply.aclose()
            _outages.pop(root, None)
            if 200 <= reply.status_code < 300:
                return decode_json(content, self._key)
        except (httpx.TimeoutException, TimeoutError) as err:
            reason = f"no answer in {self.timeout:g} s ({type(err).__name__})"
            raise UnreachableError(f"{where}: {reason}", gone=True) from err
        except httpx.HTTPError as err:
            left: float | None = None
            reason = f"{type(err).__name__}: {clean_line(str(err), self._key)}"
            if isinstance(err, httpx.ConnectError):
                left, since = note_refusal(root, self.patience)
                reason += f"; {since}"
            raise UnreachableError(f"{where}: does not answer ({reason})", gone=True, left=left) from err
        except DataError as err:
            raise DataError(f"{where}: {path}: {err}") from err
        status, line = reply.status_code, find_error_line(content, self._key)
        if status in _TRANSIENT and (status != 500 or body is not None):
            wait = _parse_retry_after(reply.headers.get("retry-after"))
            raise UnreachableError(f"{where}: answers {status}: {line}", wait=wait)
        raise DataError(f"{where}: {status} for {path}: {line}")


def read_key(name: str | None, *, required: bool = True) -> str | None:
    """Read the API key from an environment variable; None without a name."""
    if name is None:
        return None
    key = os.environ.get(name, "").strip()
    if not key and required:
        raise DataError(f"api_key_env: no environment variable {name}; set it, or api_key_env=null for none")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise DataError(f"api_key_env: what the environment variable {name} holds is no key")
    return key or None


def note_refusal(root: str, patience: float) -> tuple[float, str]:
    """Note that a server refused a connection; return for how long it may be tried again, and words for a message.

    The jobs of a process wait for a dead server once.
    """
    now = time.monotonic()
    began, clock = _outages.setdefault(root, (now, datetime.now().astimezone().strftime("%H:%M:%S")))
    left = max(began + patience - now, 0.0)
    since = f"refused since {clock}"
    return left, since if left else f"{since}, retried for {patience:g} s (model.patience)"


def _parse_retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header (a number or a date); None without one."""
    try:
        return max(0.0, float(value)) if value else None
    except ValueError:
        try:
            return max(0.0, (parsedate_to_datetime(str(value)) - datetime.now(UTC)).total_seconds())
        except (ValueError, TypeError, OverflowError):
            return None


async def run_concurrently(jobs: Iterable[J], work: Callable[[J], Awaitable[None]], workers: int) -> None:
    """Run jobs, at most `workers` at a time; the first failure cancels the others.

    Raises:
        DataError: If a job ended as cancelled although none had failed, so that its result is missing.
    """
    pending = iter(jobs)

    async def run_jobs() -> None:
        for job in pending:
            await work(job)

    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(run_jobs()) for _ in range(max(1, workers))]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures.exceptions[0].__cause__
    if any(task.cancelled() for task in running):  # a task group raises nothing for them
        raise DataError(f"a request was cancelled; {RESUME_HINT}")
