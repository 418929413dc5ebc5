"""`openended rate serve STUDY`: each rater opens a personal link; every answer is stored at once."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness.core import CommandParser, DataError, SpecError, open_for_replacement, require_package
from openended.harness.rating.key import KEY, make_private, read_key

if TYPE_CHECKING:
    from openended.harness.rating.server.pool import ItemPool

KEPT = "every acknowledged answer is in answers.db"
LINKS = "links.txt"


def make_parser() -> CommandParser:
    """Return the command's parser."""
    parser = CommandParser(
        prog="openended rate serve",
        description=__doc__,
        example="openended rate serve study",
        epilog="Traffic is not encrypted: on a network of others, put it behind a proxy that speaks HTTPS.",
    )
    parser.add_argument("study", type=Path, help="the folder of a study")
    parser.add_argument(
        "--raters", type=int, metavar="N", help="links to make; default: as many as the study has sheets"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address that raters type; default: localhost")
    parser.add_argument("--port", type=int, default=8123, help="default: 8123; 0: a free one")
    return parser


def work(args: argparse.Namespace) -> None:
    """Serve a study until it is stopped."""
    for package in ("starlette", "uvicorn"):
        require_package(package, "rate")
    from openended.harness.rating.server.pool import ANSWERS, ItemPool

    if args.host in ("0.0.0.0", "::"):  # noqa: S104 - refused
        raise SpecError(f"--host {args.host}: expected the address that raters will type, for example 192.168.1.20")
    if not 0 <= args.port <= 65535:
        raise SpecError(f"--port {args.port}: expected 0 to 65535 (0: a free one)")
    if args.raters is not None and args.raters < 1:
        raise SpecError(f"--raters: expected 1 or more, got {args.raters}")
    key = read_key(args.study)
    folder = args.study if args.study.is_dir() else args.study.parent
    if not (folder / KEY).exists():
        raise DataError(f"{folder}: no {KEY}: `openended rate make` writes a study")
    _listen(ItemPool(folder / ANSWERS, key), folder, args)


def _listen(pool: ItemPool, folder: Path, args: argparse.Namespace) -> None:
    import uvicorn

    from openended.harness.rating.server.app import make_app
    from openended.harness.rating.server.timeouts import TimedProtocol

    config = uvicorn.Config(
        make_app(pool, args.host), host=args.host, port=args.port, access_log=False, log_level="warning",
        server_header=False, http=TimedProtocol, timeout_keep_alive=30, timeout_graceful_shutdown=5,
        lifespan="off",  # the application has none, and Ctrl-C while it starts would print a traceback
    )  # fmt: skip
    try:
        sock = config.bind_socket()
    except SystemExit as err:
        raise SpecError(f"--host {args.host} --port {args.port}: cannot listen on this address; try --port 0") from err
    sock.listen(128)  # connections wait in the queue from now on
    base = f"http://{args.host}:{sock.getsockname()[1]}"
    links = write_links(folder, pool, args.raters or len(pool.key.sheets), base)
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
