"""`openended rate judge STUDY --base-url … --path …`: a model judges in place of people."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openended.harness.core.arguments import CommandParser, positive_int
from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.io import write_text
from openended.harness.rating.cli.arguments import add_fields, given_fields
from openended.harness.rating.collect.collect import columns_of, write_judgments
from openended.harness.rating.judging.calibrate import calibrate
from openended.harness.rating.judging.judge import Asker, Judged, judge_study
from openended.harness.rating.judging.summary import summary_lines
from openended.harness.rating.key import StudyKey, read_key
from openended.metrics.judgments.raters import UNCALIBRATED

KEPT = "every reply is in the log: the same command goes on from there"
_HELP = {
    "path": "the id by which the server knows the model",
    "base_url": "address of the server, with or without /v1",
    "dialect": "which server it is",
    "chat": "false: ask by completions; default: true",
}


def parser() -> CommandParser:
    """Return the command's parser."""
    from openended.harness.backends.openai.spec import ServerSpec

    made = CommandParser(prog="openended rate judge", description=__doc__)
    made.add_argument("study", type=Path, help="the folder of a study")
    made.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    made.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: STUDY/judge.csv")
    made.add_argument(
        "--people", type=Path, metavar="FILE", help="judgments of people, to state the judge's agreement with them"
    )
    made.add_argument("--limit", type=positive_int, metavar="N", help="the first N items; default: all")
    made.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    made.add_argument("--model", default="openai", metavar="NAME", help="the one backend there is: %(default)s")
    add_fields(made, ServerSpec, "options of the server, as in conf/model/openai.yaml (values as in YAML)", _HELP)
    return made


def work(args: argparse.Namespace) -> None:
    """Judge a study by a model behind a server."""
    from openended.harness.backends.openai.spec import ServerSpec
    from openended.harness.rating.judging.asking import asker_of

    if args.words:
        raise SpecError(f"{args.words[0]}: expected a flag; the study comes first, and there is one")
    out = args.out or args.study / "judge.csv"
    asker = asker_of({"model": args.model, **given_fields(args, ServerSpec)})
    run(read_key(args.study), asker, out, people=args.people, limit=args.limit, seed=args.seed)


def run(
    key: StudyKey, asker: Asker, out: Path, *, people: Path | None = None, limit: int | None = None, seed: int = 0
) -> Judged:
    """Ask, compare with people, write; returns what the judge said.

    Raises:
        DataError: If no reply could be read, or the file of people's judgments is missing.
    """
    if out.suffix.lower() != ".csv":
        raise DataError(f"-o {out}: expected the name of a .csv file")
    if people is not None and not people.is_file():
        raise DataError(f"--people {people}: no such file")
    judged = judge_study(key, asker, out.with_suffix(".log.jsonl"), limit=limit, seed=seed)
    if not judged.rows:
        raise DataError(f"{judged.rater}: no reply could be read; they are in {out.with_suffix('.log.jsonl')}")
    levels = [answer.rating for answer in key.protocol.choices if answer.rating is not None]
    told = UNCALIBRATED
    if people is not None:
        told = calibrate(judged.rows, people, key.protocol.kind, levels).said()
    rows = [{**row, "calibration": told} for row in judged.rows]
    write_judgments(out, rows, [*columns_of([key]), "calibration"])
    sheet = out.with_suffix(".summary.md")
    write_text(sheet, "\n".join(summary_lines(key, judged, told)))
    sys.stdout.write("".join(f"{line}\n" for line in judged.lines()))
    sys.stdout.write(f"agreement with people: {told}\n{out}: openended judgments={out}\n{sheet}: by system\n")
    return judged
