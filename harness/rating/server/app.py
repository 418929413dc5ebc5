"""The web side of a study: a page, the next item, an answer; nothing without a token, nothing from another origin."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from openended.harness.rating.server.limits import RateLimit
from openended.harness.rating.server.pool import ItemPool, Refused
from openended.harness.rating.sheet import form_policy, items_of, render_form

_LARGEST = 64 * 1024  # bytes of a request
_UNKNOWN = "This link is not known. Ask the person who sent it to you."
Handler = Callable[[Request], Awaitable[Response]]
Answered = Callable[[Request, str], Awaitable[Response]]


def make_app(pool: ItemPool, host: str) -> Starlette:
    """Return the application.

    Args:
        pool: The items and answers.
        host: The address that raters type; another `Host` is refused (DNS rebinding).
    """
    guard = _Guard(pool)
    routes = [
        Route("/s/{token}", _slash, methods=["GET"]),
        Route("/s/{token}/", guard.known(_page), methods=["GET"]),
        Route("/s/{token}/next", guard.known(_next), methods=["POST"]),
        Route("/s/{token}/answer", guard.known(_answer), methods=["POST"]),
    ]
    middleware = [
        Middleware(TrustedHostMiddleware, allowed_hosts=[host, "127.0.0.1", "localhost"], www_redirect=False),
        Middleware(BaseHTTPMiddleware, dispatch=_guarded),
    ]
    app = Starlette(routes=routes, middleware=middleware, exception_handlers={404: _not_found, 405: _not_found})
    app.state.pool = pool
    return app


async def _guarded(request: Request, call_next: Handler) -> Response:
    """Refuse what comes from another origin or is too large; put the headers of caution on every reply."""
    reply = _refusal(request) or await call_next(request)
    reply.headers.update(
        {
            "content-security-policy": form_policy(connect=True) + "; frame-ancestors 'none'",
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",  # the address holds the token
            "cache-control": "no-store",
            "cross-origin-resource-policy": "same-origin",
            "cross-origin-opener-policy": "same-origin",
        }
    )
    return reply


def _refusal(request: Request) -> Response | None:
    origin = request.headers.get("origin")
    site = request.headers.get("sec-fetch-site", "same-origin")
    own = request.headers.get("host", "")
    if request.method != "GET" and (site not in ("same-origin", "none") or (origin and urlsplit(origin).netloc != own)):
        return _error(403, "Only this server's own page may ask.")
    length = request.headers.get("content-length", "0")
    if request.method == "POST" and (not length.isdigit() or int(length) > _LARGEST):
        return _error(413, "Too large.")
    if request.method == "POST" and "transfer-encoding" in request.headers:
        return _error(411, "Say how long it is.")
    return None


def _error(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status_code=status)


async def _not_found(request: Request, error: Exception) -> Response:  # noqa: ARG001 - the form that Starlette calls
    return _error(404, _UNKNOWN)


class _Guard:
    """Who may ask, and how often: a rater by his token, a stranger hardly ever."""

    def __init__(self, pool: ItemPool) -> None:
        self.pool = pool
        self.raters = RateLimit(burst=40, rate=10)
        self.strangers = RateLimit(burst=20, rate=0.2)

    def known(self, answer: Answered) -> Handler:
        async def handle(request: Request) -> Response:
            rater = await run_in_threadpool(self.pool.rater_of, request.path_params["token"])
            if rater is None:
                wait = self.strangers.wait(request.client.host if request.client else "")
                return _busy(wait) if wait else _error(404, _UNKNOWN)
            wait = self.raters.wait(rater)
            return _busy(wait) if wait else await answer(request, rater)

        return handle


def _busy(seconds: float) -> JSONResponse:
    reply = _error(429, "Too many requests.")
    reply.headers["retry-after"] = f"{seconds:.0f}"
    return reply


async def _slash(request: Request) -> Response:
    return RedirectResponse(f"{request.url.path}/", status_code=308)


async def _page(request: Request, rater: str) -> Response:
    """The form without any item."""
    pool: ItemPool = request.app.state.pool
    return HTMLResponse(render_form(pool.key, rater, None))


async def _next(request: Request, rater: str) -> Response:
    pool: ItemPool = request.app.state.pool
    dealt = await run_in_threadpool(pool.next_item, rater)
    told: dict[str, Any] = {"done": dealt.done, "total": dealt.total, "item": None, "waiting": dealt.waiting}
    if dealt.task is not None:
        told["item"] = {**items_of(pool.key, [dealt.task])[0], "lease": dealt.lease}
    return JSONResponse(told)


async def _answer(request: Request, rater: str) -> Response:
    """Store an answer; the reply is sent when it is on the disk."""
    try:
        told = json.loads(await request.body())
    except (ValueError, RecursionError):
        return _error(400, "Not JSON.")
    if not isinstance(told, dict):
        return _error(400, "Not an answer.")
    pool: ItemPool = request.app.state.pool
    try:
        new = await run_in_threadpool(
            pool.store, rater, told.get("id"), told.get("lease"), told.get("answers"), told.get("ms")
        )
    except Refused as why:
        return _error(why.status, str(why))
    return JSONResponse({"stored": True, "new": new})
