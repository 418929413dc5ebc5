"""Requests to one server or to several: at once, again where that can help, elsewhere where one has died.

No message holds a key: the body of an error is cut to its first line and the key is struck out of it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx

from openended.harness.core import STRUCK, DataError, plain_line, redacted

log = logging.getLogger(__name__)
for _name in ("httpx", "httpcore"):  # a line for every request
    logging.getLogger(_name).setLevel(logging.WARNING)

J = TypeVar("J")

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds before a request goes out again; doubled each time
PATIENCE = 900.0  # seconds that a server may ask to wait
AWAY = 30.0  # seconds for which an endpoint that does not answer is passed over
CONNECT = 10.0  # seconds that a connection may take
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
KEPT = "what is finished is kept: the same command goes on from here"


class UnreachableError(DataError):
    """An endpoint does not answer."""


class _Failed(Exception):  # noqa: N818 - never leaves this module
    """A try that another one may mend."""

    def __init__(self, said: str, *, wait: float | None = None, gone: bool = False, broken: bool = False) -> None:
        super().__init__(said)
        self.broken = broken
        """It answers, with an error of its own."""
        self.wait = wait
        """What the server asks for, seconds."""
        self.gone = gone
        """The endpoint itself does not answer."""


@dataclass
class Client:
    """Talks to the endpoints of one served model; an asynchronous context.

    Args:
        endpoints: Roots of the servers, without `/v1`.
        key_name: Environment variable with the key; None: none is sent.
        timeout: Seconds that a reply may take.
        retries: How often a request goes out again.
        concurrency: Requests under way at once, at each endpoint.
        transport: In place of the network, for tests.
    """

    endpoints: Sequence[str]
    key_name: str | None = None
    timeout: float = 600.0
    retries: int = 8
    concurrency: int = 64
    transport: httpx.AsyncBaseTransport | None = None
    _away: dict[int, float] = field(default_factory=dict)
    _http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Client:
        key = key_of(self.key_name)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        most = self.concurrency * len(self.endpoints)
        self._http = httpx.AsyncClient(
            headers=headers, transport=self.transport, follow_redirects=False,
            verify=any(one.startswith("https") for one in self.endpoints),  # else certificates are read for nothing
            timeout=httpx.Timeout(self.timeout, connect=min(CONNECT, self.timeout), pool=None),
            limits=httpx.Limits(max_connections=most, max_keepalive_connections=most),
        )  # fmt: skip
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def get(self, place: int, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return the JSON of an address, None where the server has none there.

        Raises:
            UnreachableError: If the endpoint does not answer.
        """
        try:
            return await self._once(place, path, None)
        except _Failed as err:
            if err.broken:
                return None
            raise UnreachableError(f"server {self.endpoints[place]}: {err}") from err
        except DataError:
            return None

    async def post(self, path: str, body: dict[str, Any], places: Sequence[int]) -> Any:  # noqa: ANN401 - JSON
        """Send a request to the first of these endpoints that answers.

        Raises:
            DataError: If the request is refused, or nobody answers after all retries.
        """
        tries, left = 0, list(places)
        while True:
            place = self._choose(left)
            try:
                made = await self._once(place, path, body)
            except _Failed as err:
                where = f"server {self.endpoints[place]}: {err}"
                if err.wait is not None and err.wait > PATIENCE:
                    raise DataError(f"{where} (wait {err.wait:.0f} s); {KEPT}") from err
                if err.gone:
                    self._leave(place, str(err))
                    if self._choose(left) != place:
                        continue
                tries += 1
                if tries > self.retries:
                    left.remove(place)
                    if not left:
                        others = f"; nor does another of its {len(places)} endpoints" if len(places) > 1 else ""
                        raise DataError(f"{where}{others}; {KEPT}") from err
                    self._leave(place, str(err))
                    tries = 0
                    continue
                pause = min(FIRST_PAUSE * 2 ** (tries - 1), LONGEST_PAUSE)
                await asyncio.sleep(pause if err.wait is None else err.wait)
            else:
                self._away.pop(place, None)
                return made

    def _choose(self, places: Sequence[int]) -> int:
        """The first endpoint that is not passed over; else the one that was left longest ago."""
        now = time.monotonic()
        away = {place: self._away.get(place, 0.0) for place in places}
        return next((place for place in places if away[place] <= now), min(away, key=lambda place: away[place]))

    def _leave(self, place: int, why: str) -> None:
        if place not in self._away and len(self.endpoints) > 1:
            log.warning("server %s: %s; the others take its texts", self.endpoints[place], why)
        self._away[place] = time.monotonic() + AWAY

    async def _once(self, place: int, path: str, body: dict[str, Any] | None) -> Any:  # noqa: ANN401
        if self._http is None:
            raise TypeError("the client is not open")
        url = self.endpoints[place] + path
        try:
            reply = await (self._http.get(url) if body is None else self._http.post(url, json=body))
        except httpx.TimeoutException as err:
            raise _Failed(f"no answer in {self.timeout:g} s ({type(err).__name__})", gone=True) from err
        except httpx.HTTPError as err:
            raise _Failed(f"does not answer ({type(err).__name__}: {self._safe(str(err))})", gone=True) from err
        if reply.status_code in _PASSING:
            told = f"answers {reply.status_code}: {self._safe(said(reply))}"
            raise _Failed(told, wait=_asked_to_wait(reply), broken=reply.status_code == 500)
        where = f"server {self.endpoints[place]}"
        if not reply.is_success:
            raise DataError(f"{where}: {reply.status_code} for {path}: {self._safe(said(reply))}")
        try:
            return reply.json()
        except ValueError as err:
            raise DataError(f"{where}: no JSON from {path}: {self._safe(reply.text[:80])}") from err

    def _safe(self, text: str) -> str:
        """One line without the key."""
        key = key_of(self.key_name, must=False)
        return plain_line(redacted(text.replace(key, STRUCK) if key else text))[:200]


def key_of(name: str | None, *, must: bool = True) -> str | None:
    """Return the key that an environment variable holds.

    Raises:
        DataError: If there is no such variable.
    """
    if name is None:
        return None
    found = os.environ.get(name, "").strip()
    if not found and must:
        raise DataError(f"api_key_env: no environment variable {name}; set it, or api_key_env=null for none")
    if not (found.isascii() and found.isprintable()) or " " in found:
        raise DataError(f"api_key_env: what the environment variable {name} holds is no key")
    return found or None


def said(reply: httpx.Response) -> str:
    """Return the first line of what a server says of an error."""
    text = reply.text
    try:
        told = reply.json()
        for name in ("error", "message", "detail"):
            if isinstance(told, dict) and told.get(name):
                told = told[name]
        text = told if isinstance(told, str) else text
    except ValueError:
        pass
    return next((line.strip() for line in text.splitlines() if line.strip()), reply.reason_phrase)


def _asked_to_wait(reply: httpx.Response) -> float | None:
    """Seconds by Retry-After, a number or a date; None where it says nothing."""
    told = reply.headers.get("retry-after")
    if not told:
        return None
    try:
        return max(0.0, float(told))
    except ValueError:
        try:
            return max(0.0, (parsedate_to_datetime(told) - datetime.now(UTC)).total_seconds())
        except (ValueError, TypeError):
            return None


async def at_once(jobs: Iterable[J], work: Callable[[J], Awaitable[None]], workers: int) -> None:
    """Do jobs, so many at a time; the first that fails stops the others."""
    waiting = iter(jobs)

    async def one() -> None:
        for job in waiting:
            await work(job)

    tasks = [asyncio.create_task(one()) for _ in range(max(1, workers))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
