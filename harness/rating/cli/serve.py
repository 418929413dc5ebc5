"""`openended rate serve STUDY`: raters get the next item by a link of their own; every answer is stored at once."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness.core import CommandParser, DataError, MissingExtra, SpecError, replacing
from openended.harness.rating.key import KEY, make_private, read_key

if TYPE_CHECKING:
    from openended.harness.rating.server.pool import ItemPool

KEPT = "every answer that a rater was told to be stored is in answers.db"
LINKS = "links.txt"


def parser() -> CommandParser:
    """Return the command's parser."""
    made = CommandParser(
        prog="openended rate serve",
        description=__doc__,
        epilog="Traffic is not encrypted: on a network of others, put it behind a proxy that speaks HTTPS.",
    )
    made.add_argument("study", type=Path, help="the folder of a study")
    made.add_argument("--raters", type=int, metavar="N", help="links to make; default: as many as the study has sheets")
    made.add_argument("--host", default="127.0.0.1", help="the address that raters type; default: localhost")
    made.add_argument("--port", type=int, default=8123, help="default: 8123; 0: a free one")
    return made


def work(args: argparse.Namespace) -> None:
    """Serve a study until it is stopped."""
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "rate")
    from openended.harness.rating.server.pool import ANSWERS, ItemPool

    if args.host in ("0.0.0.0", "::"):  # noqa: S104 - refused
        raise SpecError(f"--host {args.host}: expected the address that raters will type, for example 192.168.1.20")
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

    config = uvicorn.Config(
        make_app(pool, args.host), host=args.host, port=args.port, access_log=False, log_level="warning",
        server_header=False, timeout_keep_alive=30, timeout_graceful_shutdown=5,
    )  # fmt: skip
    try:
        sock = config.bind_socket()
    except SystemExit as err:
        raise SpecError(f"--host {args.host} --port {args.port}: the address is not to be had; try --port 0") from err
    sock.listen(128)  # who comes from now on waits for an answer, and is not turned away
    base = f"http://{args.host}:{sock.getsockname()[1]}"
    links = write_links(folder, pool, args.raters or len(pool.key.sheets), base)
    answered, items = pool.counts()
    sys.stdout.write(
        f"{links}: a link a rater; whoever has one answers in that name\n"
        f"{pool.path}: {answered} of {items} items answered; collect it at any time: openended rate collect {folder}\n"
        f"serving on {base} (Ctrl-C ends it)\n"
    )
    sys.stdout.flush()
    uvicorn.Server(config).run(sockets=[sock])


def write_links(folder: Path, pool: ItemPool, raters: int, base: str) -> Path:
    """Write the links, for the maker alone; those of an earlier start stay, whatever the port is now."""
    path = folder / LINKS
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known = {name: link.rstrip("/").rpartition("/")[2] for name, _, link in (line.partition(" ") for line in lines)}
    known |= pool.add_raters(raters, known)
    with replacing(path) as handle:
        make_private(handle)
        handle.writelines(f"{name} {base}/s/{token}/\n" for name, token in sorted(known.items()))
    return path
