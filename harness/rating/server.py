"""Serve a study over HTTP: the form, the next item, storing an answer. Every request needs a token."""

import json
import logging
import re
import sqlite3
import sys
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

from openended.harness.core import SpecError, open_for_replacement
from openended.harness.rating.design import StudyKey, make_private
from openended.harness.rating.item_pool import ANSWERS, AnswerRefused, ItemPool
from openended.harness.rating.study import build_form_policy, build_items, render_form

log = logging.getLogger(__name__)

LINKS = "links.txt"
_LARGEST = 64 * 1024  # bytes of a request
_UNKNOWN = "This link is not known. Ask the person who sent it to you."
_FRONT_PAGE = "Raters use their personal link, http://…/s/…/. Ask the person who runs this study for yours.\n"
Handler = Callable[[Request], Awaitable[Response]]
RaterHandler = Callable[[Request, ItemPool, str], Awaitable[Response]]


def make_app(pool: ItemPool, host: str) -> Starlette:
    """Return the application: every request needs a token, which has 256 random bits."""

    def require_rater(answer: RaterHandler) -> Handler:
        async def handle(request: Request) -> Response:
            try:
                rater = await run_in_threadpool(pool.find_rater, request.path_params["token"])
                return _make_error(404, _UNKNOWN) if rater is None else await answer(request, pool, rater)
            except sqlite3.Error as err:
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
    if request.method == "POST" and (not re.fullmatch("[0-9]{1,9}", length) or int(length) > _LARGEST):
        return _make_error(413, "Too large.")
    if request.method == "POST" and "transfer-encoding" in request.headers:
        return _make_error(411, "A content-length header is required.")
    return None


def _make_error(status: int, why: str) -> JSONResponse:
    return JSONResponse({"error": why}, status_code=status)


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
    options: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False}
    options |= {"timeout_keep_alive": 30, "timeout_graceful_shutdown": 5}
    # The application has no lifespan, and Ctrl-C while it starts would print a traceback.
    config = uvicorn.Config(make_app(pool, host), host=host, port=port, lifespan="off", **options)
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
    """Write the raters' links, readable by the owner alone."""
    path = folder / LINKS
    with open_for_replacement(path) as handle:
        make_private(handle)
        handle.writelines(f"{name} {base}/s/{token}/\n" for name, token in pool.add_raters(raters))
    return path
