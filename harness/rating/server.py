"""Serve a study over HTTP: the form, the next item, storing an answer. Every request needs a token."""

import asyncio
import json
import logging
import math
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from openended.harness.core import SpecError, open_for_replacement
from openended.harness.rating.answers import DATABASE_ERRORS
from openended.harness.rating.design import StudyKey, make_private
from openended.harness.rating.item_pool import ANSWERS, AnswerRefused, ItemPool
from openended.harness.rating.study import build_form_policy, build_items, render_form

log = logging.getLogger(__name__)

LINKS = "links.txt"
_MOST_KEPT = 10_000  # buckets; the oldest are dropped


class RateLimit:
    """`burst` requests at once, then `rate` a second, for each name."""

    def __init__(self, *, burst: float, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.burst, self.rate, self.clock = burst, rate, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """Take a token and return 0, or return the seconds until one is available."""
        now = self.clock()
        level, then = self._buckets.pop(name, (self.burst, now))
        level = min(self.burst, level + (now - then) * self.rate)
        allowed = level >= 1.0
        self._buckets[name] = (level - 1.0 if allowed else level, now)
        while len(self._buckets) > _MOST_KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else math.ceil((1.0 - level) / self.rate)


class TimedProtocol(H11Protocol):
    """Closes a connection if a request, headers and body, takes longer than `request_seconds` to arrive."""

    request_seconds = 20.0
    _request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Start the timer of a request at its first byte, and stop it at the last."""
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _update_timer(self) -> None:
        is_complete = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete
        if is_complete:
            self._stop_timer()
        elif self._request_timer is None:
            self._request_timer = self.loop.call_later(self.request_seconds, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None


_LARGEST = 64 * 1024  # bytes of a request
_UNKNOWN = "This link is not known. Ask the person who sent it to you."
_BUSY = "Too many requests."
_FRONT_PAGE = "Raters use their personal link, http://…/s/…/. Ask the person who runs this study for yours.\n"
Handler = Callable[[Request], Awaitable[Response]]
RaterHandler = Callable[[Request, ItemPool, str], Awaitable[Response]]


def make_app(pool: ItemPool, host: str) -> Starlette:
    """Return the application: tokens are checked and request rates limited, strictly for unknown clients."""
    raters, strangers = RateLimit(burst=40, rate=10), RateLimit(burst=20, rate=0.2)

    def require_rater(answer: RaterHandler) -> Handler:
        async def handle(request: Request) -> Response:
            try:
                rater = await run_in_threadpool(pool.find_rater, request.path_params["token"])
                if rater is None:
                    wait = strangers.wait(request.client.host if request.client else "")
                    return _make_error(429, _BUSY, wait) if wait else _make_error(404, _UNKNOWN)
                wait = raters.wait(rater)
                return _make_error(429, _BUSY, wait) if wait else await answer(request, pool, rater)
            except DATABASE_ERRORS as err:
                log.error("%s: %s: the request was refused, the rater's page sends it again", pool.path, err)
                return _make_error(503, "The answers cannot be stored right now.")

        return handle

    routes = [
        Route("/", lambda _: PlainTextResponse(_FRONT_PAGE)),
        Route("/s/{token}", lambda request: RedirectResponse(f"{request.url.path}/", status_code=308)),
        Route("/s/{token}/", require_rater(_send_page), methods=["GET"]),
        Route("/s/{token}/next", require_rater(_send_next_item), methods=["POST"]),
        Route("/s/{token}/answer", require_rater(_store_answer), methods=["POST"]),
    ]
    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=[host, "127.0.0.1", "localhost"], www_redirect=False),
        Middleware(BaseHTTPMiddleware, dispatch=_guard_request),
    ]
    unknown = dict.fromkeys((404, 405), lambda *_: _make_error(404, _UNKNOWN))
    return Starlette(routes=routes, middleware=middleware, exception_handlers=unknown)


async def _guard_request(request: Request, call_next: Handler) -> Response:
    """Refuse requests from other origins or of excessive size; add security headers to every reply."""
    reply = _refuse(request) or await call_next(request)
    reply.headers.update(
        {
            "content-security-policy": build_form_policy(connect=True) + "; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",  # the address holds the token
            "cache-control": "no-store",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
        }
    )
    return reply


def _refuse(request: Request) -> Response | None:
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    host = request.headers.get("host", "")
    if request.method != "GET" and (
        site not in ("same-origin", "none") or (origin and origin.partition("://")[2] != host)
    ):
        return _make_error(403, "Requests must come from this server's own page.")
    length = request.headers.get("content-length", "0")
    if request.method == "POST" and (not length.isdigit() or int(length) > _LARGEST):
        return _make_error(413, "Too large.")
    if request.method == "POST" and "transfer-encoding" in request.headers:
        return _make_error(411, "A content-length header is required.")
    return None


def _make_error(status: int, why: str, wait: float = 0.0) -> JSONResponse:
    headers = {"retry-after": f"{wait:.0f}"} if wait else None
    return JSONResponse({"error": why}, status_code=status, headers=headers)


async def _send_page(_: Request, pool: ItemPool, rater: str) -> Response:
    """Send the form; items are fetched one by one."""
    return HTMLResponse(render_form(pool.key, rater, None))


async def _send_next_item(_: Request, pool: ItemPool, rater: str) -> Response:
    dealt = await run_in_threadpool(pool.next_item, rater)
    body: dict[str, Any] = {"done": dealt.done, "total": dealt.total, "item": None, "waiting": dealt.waiting}
    if dealt.task is not None:
        body["item"] = {**build_items(pool.key, [dealt.task])[0], "lease": dealt.lease}
    return JSONResponse(body)


async def _store_answer(request: Request, pool: ItemPool, rater: str) -> Response:
    """Store an answer; the reply is sent when it is on the disk."""
    try:
        body = json.loads(await request.body())
    except ClientDisconnect:
        return _make_error(400, "The connection was closed.")
    except (ValueError, RecursionError):
        return _make_error(400, "Not JSON.")
    if not isinstance(body, dict):
        return _make_error(400, "Not an answer.")
    try:
        new = await run_in_threadpool(
            pool.store, rater, body.get("id"), body.get("lease"), body.get("answers"), body.get("ms")
        )
    except AnswerRefused as why:
        return _make_error(why.status, str(why))
    return JSONResponse({"stored": True, "new": new})


def serve_study(key: StudyKey, folder: Path, *, host: str, port: int, raters: int | None) -> None:
    """Serve a study until the process is interrupted."""
    pool = ItemPool(folder / ANSWERS, key)
    config = uvicorn.Config(
        make_app(pool, host), host=host, port=port, access_log=False, log_level="warning", server_header=False,
        http=TimedProtocol, timeout_keep_alive=30, timeout_graceful_shutdown=5,
        lifespan="off",  # the application has none, and Ctrl-C while it starts would print a traceback
    )  # fmt: skip
    try:
        sock = config.bind_socket()
    except SystemExit as err:
        raise SpecError(f"--host {host} --port {port}: cannot listen on this address; try --port 0") from err
    sock.listen(128)  # connections wait in the queue from now on
    base = f"http://{host}:{sock.getsockname()[1]}"
    links = write_links(folder, pool, raters or len(key.sheets), base)
    answered, items = pool.counts()
    sys.stdout.write(
        f"{links}: one link per rater; anyone with a link can answer as that rater\n"
        f"{pool.path}: {answered} of {items} items answered; collect it at any time: openended rate collect {folder}\n"
        f"serving on {base} (Ctrl-C ends it)\n"
    )
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[sock])


def write_links(folder: Path, pool: ItemPool, raters: int, base: str) -> Path:
    """Write the raters' links, readable by the owner alone; tokens of an earlier start stay valid."""
    path = folder / LINKS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    tokens = {name: link.rstrip("/").rpartition("/")[2] for name, _, link in (line.partition(" ") for line in lines)}
    tokens |= pool.add_raters(raters, tokens)
    with open_for_replacement(path) as handle:
        make_private(handle)
        handle.writelines(f"{name} {base}/s/{token}/\n" for name, token in sorted(tokens.items()))
    return path
