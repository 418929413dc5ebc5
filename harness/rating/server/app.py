"""Web application of a study: the form, the next item, storing an answer. Every request needs a token."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from openended.harness.rating.collect.answers_database import DATABASE_ERRORS
from openended.harness.rating.server.limits import RateLimit
from openended.harness.rating.server.pool import AnswerRefused, ItemPool
from openended.harness.rating.sheet import build_form_policy, build_items, render_form

log = logging.getLogger(__name__)

_LARGEST = 64 * 1024  # bytes of a request
_UNKNOWN = "This link is not known. Ask the person who sent it to you."
_FRONT_PAGE = "Raters use their personal link, http://…/s/…/. Ask the person who runs this study for yours.\n"
Handler = Callable[[Request], Awaitable[Response]]
RaterHandler = Callable[[Request, str], Awaitable[Response]]


def make_app(pool: ItemPool, host: str) -> Starlette:
    """Return the application."""
    guard = _RequestGuard(pool)
    routes = [
        Route("/", _send_front_page, methods=["GET"]),
        Route("/s/{token}", _redirect_to_slash, methods=["GET"]),
        Route("/s/{token}/", guard.require_rater(_send_page), methods=["GET"]),
        Route("/s/{token}/next", guard.require_rater(_send_next_item), methods=["POST"]),
        Route("/s/{token}/answer", guard.require_rater(_store_answer), methods=["POST"]),
    ]
    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=[host, "127.0.0.1", "localhost"], www_redirect=False),
        Middleware(BaseHTTPMiddleware, dispatch=_guard_request),
    ]
    app = Starlette(
        routes=routes, middleware=middleware, exception_handlers={404: _reply_not_found, 405: _reply_not_found}
    )
    app.state.pool = pool
    return app


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
        site not in ("same-origin", "none") or (origin and urlsplit(origin).netloc != host)
    ):
        return _make_error(403, "Requests must come from this server's own page.")
    length = request.headers.get("content-length", "0")
    if request.method == "POST" and (not length.isdigit() or int(length) > _LARGEST):
        return _make_error(413, "Too large.")
    if request.method == "POST" and "transfer-encoding" in request.headers:
        return _make_error(411, "A content-length header is required.")
    return None


def _make_error(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status_code=status)


async def _reply_not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the form that Starlette calls
    return _make_error(404, _UNKNOWN)


class _RequestGuard:
    """Checks tokens and limits request rates, strictly for unknown clients."""

    def __init__(self, pool: ItemPool) -> None:
        self.pool = pool
        self.raters = RateLimit(burst=40, rate=10)
        self.strangers = RateLimit(burst=20, rate=0.2)

    def require_rater(self, answer: RaterHandler) -> Handler:
        async def handle(request: Request) -> Response:
            try:
                return await reply_to_rater(request)
            except DATABASE_ERRORS as err:
                log.error("%s: %s: the request was refused, the rater's page sends it again", self.pool.path, err)
                return _make_error(503, "The answers cannot be stored right now.")

        async def reply_to_rater(request: Request) -> Response:
            rater = await run_in_threadpool(self.pool.find_rater, request.path_params["token"])
            if rater is None:
                wait = self.strangers.wait(request.client.host if request.client else "")
                return _make_busy_error(wait) if wait else _make_error(404, _UNKNOWN)
            wait = self.raters.wait(rater)
            return _make_busy_error(wait) if wait else await answer(request, rater)

        return handle


def _make_busy_error(seconds: float) -> JSONResponse:
    reply = _make_error(429, "Too many requests.")
    reply.headers["retry-after"] = f"{seconds:.0f}"
    return reply


async def _send_front_page(request: Request) -> Response:  # noqa: ARG001 - the form that Starlette calls
    return PlainTextResponse(_FRONT_PAGE)


async def _redirect_to_slash(request: Request) -> Response:
    return RedirectResponse(f"{request.url.path}/", status_code=308)


async def _send_page(request: Request, rater: str) -> Response:
    """Send the form; items are fetched one by one."""
    pool: ItemPool = request.app.state.pool
    return HTMLResponse(render_form(pool.key, rater, None))


async def _send_next_item(request: Request, rater: str) -> Response:
    pool: ItemPool = request.app.state.pool
    dealt = await run_in_threadpool(pool.next_item, rater)
    body: dict[str, Any] = {"done": dealt.done, "total": dealt.total, "item": None, "waiting": dealt.waiting}
    if dealt.task is not None:
        body["item"] = {**build_items(pool.key, [dealt.task])[0], "lease": dealt.lease}
    return JSONResponse(body)


async def _store_answer(request: Request, rater: str) -> Response:
    """Store an answer; the reply is sent when it is on the disk."""
    try:
        body = json.loads(await request.body())
    except ClientDisconnect:
        return _make_error(400, "The connection was closed.")
    except (ValueError, RecursionError):
        return _make_error(400, "Not JSON.")
    if not isinstance(body, dict):
        return _make_error(400, "Not an answer.")
    pool: ItemPool = request.app.state.pool
    try:
        new = await run_in_threadpool(
            pool.store, rater, body.get("id"), body.get("lease"), body.get("answers"), body.get("ms")
        )
    except AnswerRefused as why:
        return _make_error(why.status, str(why))
    return JSONResponse({"stored": True, "new": new})
