"""`openended rate collect FILES… -o judgments.csv`: answers checked against the key, and a quality sheet."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openended.harness.core import CommandParser, DataError, write_json, write_text
from openended.harness.rating.collect.by_study import group_files_by_study
from openended.harness.rating.collect.quality import format_quality_sheet, quality_to_json
from openended.harness.rating.collect.study_answers import (
    StudyAnswers,
    build_judgment_rows,
    find_answer_files,
    gather_answers,
    list_judgment_columns,
    write_judgments,
)
from openended.harness.rating.key import KEY

KEPT = "files are replaced as a whole; none is half-written"


def make_parser() -> CommandParser:
    """Return the command's parser."""
    parser = CommandParser(
        prog="openended rate collect",
        description=__doc__,
        example="openended rate collect study answers/*.json -o judgments.csv",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILES", help="answers-….json, a server's answers.db, or folders of them"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("judgments.csv"), metavar="FILE", help="default: %(default)s"
    )
    parser.add_argument(
        "--key", type=Path, action="append", metavar="STUDY", help="a study's folder or its key.json; else looked for"
    )
    parser.add_argument("--leave-out", action="store_true", help="skip files that cannot be used, and list them")
    return parser


def work(args: argparse.Namespace) -> None:
    """Collect a study, or several into one file."""
    if args.out.suffix.lower() != ".csv":
        raise DataError(f"-o {args.out}: expected the name of a .csv file")
    files = [path for path in find_answer_files(args.files) if path.name != KEY]
    studies = [
        gather_answers(study_files, key, leave_out=args.leave_out)
        for key, study_files in group_files_by_study(files, args.key or args.files, args.key)
    ]
    rows = [row for answers in studies for row in build_judgment_rows(answers)]
    write_judgments(args.out, rows, list_judgment_columns(answers.key for answers in studies))
    sheet = args.out.with_suffix(".quality.md")
    text = "\n".join(line for answers in studies for line in format_quality_sheet(answers))
    write_text(sheet, text)
    write_json(args.out.with_suffix(".quality.json"), [quality_to_json(answers) for answers in studies])
    raters = sum(len(answers.sheets) for answers in studies)
    for answers in studies:
        sys.stdout.write("".join(f"{remark}\n" for remark in answers.remarks))
    sys.stdout.write(
        f"{args.out}: {len(rows):,} judgments of {raters} raters\n"
        f"{sheet}: speed, side preference and consistency of each rater\n"
        f"next: openended judgments={args.out}{_format_options(studies)}\n"
    )


def _format_options(studies: list[StudyAnswers]) -> str:
    """Return the metric options that follow from the protocol."""
    pairs = [answers for answers in studies if answers.key.protocol.kind == "pairs"]
    seconds = max((answers.key.protocol.min_seconds for answers in pairs), default=0)
    both = len(pairs) < len(studies)
    metrics = f" metric=[{'huse,' if both else ''}bradley_terry]" if pairs and (seconds or both) else ""
    return f"{metrics} metric.bradley_terry.min_seconds={seconds:g}" if pairs and seconds else metrics
