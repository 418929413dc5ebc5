"""`openended rate collect FILES… -o judgments.csv`: answers checked against the key, and a quality sheet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openended.harness.core import CommandParser, DataError, write_json, write_text
from openended.harness.rating.collect.by_study import by_study
from openended.harness.rating.collect.collect import Gathered, columns_of, expand, gather, judgments, write_judgments
from openended.harness.rating.collect.quality import quality_facts, quality_lines
from openended.harness.rating.key import KEY

KEPT = "files are replaced whole, nothing is half-written"


def parser() -> CommandParser:
    """Return the command's parser."""
    made = CommandParser(prog="openended rate collect", description=__doc__)
    made.add_argument(
        "files", nargs="+", type=Path, metavar="FILES", help="answers-….json, a server's answers.db, or folders of them"
    )
    made.add_argument(
        "-o", "--out", type=Path, default=Path("judgments.csv"), metavar="FILE", help="default: %(default)s"
    )
    made.add_argument(
        "--key", type=Path, action="append", metavar="STUDY", help="a study's folder or its key.json; else looked for"
    )
    made.add_argument("--leave-out", action="store_true", help="go on without files that cannot be used, and say so")
    return made


def work(args: argparse.Namespace) -> None:
    """Collect a study, or several into one file."""
    if args.out.suffix.lower() != ".csv":
        raise DataError(f"-o {args.out}: expected the name of a .csv file")
    files = [path for path in expand(args.files) if path.name != KEY]
    done = [
        gather(own, key, leave_out=args.leave_out) for key, own in by_study(files, args.key or args.files, args.key)
    ]
    rows = [row for one in done for row in judgments(one)]
    write_judgments(args.out, rows, columns_of(one.key for one in done))
    sheet = args.out.with_suffix(".quality.md")
    text = "\n".join(line for one in done for line in quality_lines(one))
    write_text(sheet, text)
    write_json(args.out.with_suffix(".quality.json"), [quality_facts(one) for one in done])
    raters = sum(len(one.sheets) for one in done)
    for one in done:
        sys.stdout.write("".join(f"{remark}\n" for remark in one.remarks))
    sys.stdout.write(
        f"{args.out}: {len(rows):,} judgments of {raters} raters\n"
        f"{sheet}: how fast, how even, how consistent they were\n"
        f"next: openended judgments={args.out}{_options(done)}\n"
    )


def _options(done: list[Gathered]) -> str:
    """Return what the metric must know of the protocol."""
    pairs = [one for one in done if one.key.protocol.kind == "pairs"]
    seconds = max((one.key.protocol.min_seconds for one in pairs), default=0)
    both = len(pairs) < len(done)
    metrics = f" metric=[{'huse,' if both else ''}bradley_terry]" if pairs and (seconds or both) else ""
    return f"{metrics} metric.bradley_terry.min_seconds={seconds:g}" if pairs and seconds else metrics
