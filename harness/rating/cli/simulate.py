"""`openended rate simulate STUDY`: fill all sheets by simulated raters, and say so in every file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openended.harness.core import CommandParser, DataError, SpecError
from openended.harness.rating.key import StudyKey, read_key
from openended.harness.rating.simulate import fill_all

KEPT = "the files that are there are whole"


def parser() -> CommandParser:
    """Return the command's parser."""
    made = CommandParser(
        prog="openended rate simulate",
        description=__doc__,
        epilog="Their preferences: by default a player is the better the less its texts repeat themselves.",
    )
    made.add_argument("study", type=Path, help="the folder of a study")
    made.add_argument("-o", "--out", type=Path, metavar="DIR", help="default: STUDY/simulated")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--strength", action="append", default=[], metavar="PLAYER=NUMBER", help="abilities of your own")
    return made


def work(args: argparse.Namespace) -> None:
    """Fill the sheets."""
    key = read_key(args.study)
    folder = args.out or args.study / "simulated"
    count = fill_all(key, folder, strengths=_strengths(args.strength, key), seed=args.seed)
    sys.stdout.write(f"{folder}: {count} sheets filled in by simulated raters; nobody rated anything\n")


def _strengths(words: list[str], key: StudyKey) -> dict[str, float] | None:
    made = {}
    for word in words:
        player, _, number = word.rpartition("=")
        try:
            made[player] = float(number)
        except ValueError as err:
            raise SpecError(f"--strength {word}: expected PLAYER=NUMBER") from err
    if made and set(made) != set(key.material.players):
        raise DataError(
            f"--strength: expected a number for each of {', '.join(key.material.players)}, got {sorted(made)}"
        )
    return made or None
