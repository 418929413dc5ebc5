"""`openended rate simulate STUDY`: fill all sheets with simulated raters; every file is marked as simulated."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openended.harness.core import CommandParser, DataError, SpecError
from openended.harness.rating.key import StudyKey, read_key
from openended.harness.rating.rater_model import fill_all_sheets

KEPT = "the files written so far are complete"


def make_parser() -> CommandParser:
    """Return the command's parser."""
    parser = CommandParser(
        prog="openended rate simulate",
        description=__doc__,
        example="openended rate simulate study",
        epilog="By default a player with less repetition in its texts is preferred.",
    )
    parser.add_argument("study", type=Path, help="the folder of a study")
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="default: STUDY/simulated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--strength", action="append", default=[], metavar="PLAYER=NUMBER", help="abilities of your own"
    )
    return parser


def work(args: argparse.Namespace) -> None:
    """Fill the sheets."""
    key = read_key(args.study)
    folder = args.out or args.study / "simulated"
    count = fill_all_sheets(key, folder, strengths=_parse_strengths(args.strength, key), seed=args.seed)
    sys.stdout.write(f"{folder}: {count} sheets filled in by simulated raters; no person rated anything\n")


def _parse_strengths(words: list[str], key: StudyKey) -> dict[str, float] | None:
    strengths = {}
    for word in words:
        player, _, number = word.rpartition("=")
        try:
            strengths[player] = float(number)
        except ValueError as err:
            raise SpecError(f"--strength {word}: expected PLAYER=NUMBER") from err
    if strengths and set(strengths) != set(key.material.players):
        raise DataError(
            f"--strength: expected a number for each of {', '.join(key.material.players)}, got {sorted(strengths)}"
        )
    return strengths or None
