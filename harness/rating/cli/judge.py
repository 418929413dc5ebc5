"""`openended rate judge STUDY --base-url … --path …`: an LLM rates in place of people."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openended.harness.core import CommandParser, DataError, SpecError, positive_int, write_text
from openended.harness.rating.cli.arguments import add_fields, collect_flag_values
from openended.harness.rating.collect.study_answers import list_judgment_columns, write_judgments
from openended.harness.rating.judging.ask_judge import Asker, JudgeResult, judge_study
from openended.harness.rating.judging.calibrate import calibrate
from openended.harness.rating.judging.summary import format_summary
from openended.harness.rating.key import StudyKey, read_key
from openended.metrics.judgments import UNCALIBRATED

KEPT = "every reply is in the log; the same command resumes from it"
_HELP = {
    "path": "the id by which the server knows the model",
    "base_url": "address of the server, with or without /v1",
    "dialect": "which server it is",
    "chat": "false: ask by completions; default: true",
}


def make_parser() -> CommandParser:
    """Return the command's parser."""
    from openended.harness.backends import ServerSpec

    parser = CommandParser(
        prog="openended rate judge",
        description=__doc__,
        example="openended rate judge study --base-url http://localhost:8000 --path my-judge",
    )
    parser.add_argument("study", type=Path, help="the folder of a study")
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: STUDY/judge.csv")
    parser.add_argument(
        "--people", type=Path, metavar="FILE", help="judgments of people, to measure the judge's agreement with them"
    )
    parser.add_argument("--limit", type=positive_int, metavar="N", help="the first N items; default: all")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    parser.add_argument("--model", default="openai", metavar="NAME", help="the one backend there is: %(default)s")
    add_fields(parser, ServerSpec, "options of the server, as in conf/model/openai.yaml (values as in YAML)", _HELP)
    return parser


def work(args: argparse.Namespace) -> None:
    """Judge a study by a model behind a server."""
    from openended.harness.backends import ServerSpec
    from openended.harness.rating.judging.asking import make_asker

    if args.words:
        raise SpecError(f"{args.words[0]}: expected a flag; the study comes first, and there is one")
    out = args.out or args.study / "judge.csv"
    asker = make_asker({"model": args.model, **collect_flag_values(args, ServerSpec)})
    run(read_key(args.study), asker, out, people=args.people, limit=args.limit, seed=args.seed)


def run(
    key: StudyKey, asker: Asker, out: Path, *, people: Path | None = None, limit: int | None = None, seed: int = 0
) -> JudgeResult:
    """Ask the judge, compare it with people, and write its judgments."""
    if out.suffix.lower() != ".csv":
        raise DataError(f"-o {out}: expected the name of a .csv file")
    if people is not None and not people.is_file():
        raise DataError(f"--people {people}: no such file")
    judged = judge_study(key, asker, out.with_suffix(".log.jsonl"), limit=limit, seed=seed)
    if not judged.rows:
        raise DataError(f"{judged.rater}: no reply could be read; they are in {out.with_suffix('.log.jsonl')}")
    levels = [answer.rating for answer in key.protocol.choices if answer.rating is not None]
    calibration = UNCALIBRATED
    if people is not None:
        calibration = calibrate(judged.rows, people, key.protocol.kind, levels).format_label()
    rows = [{**row, "calibration": calibration} for row in judged.rows]
    write_judgments(out, rows, [*list_judgment_columns([key]), "calibration"])
    sheet = out.with_suffix(".summary.md")
    write_text(sheet, "\n".join(format_summary(key, judged, calibration)))
    sys.stdout.write("".join(f"{line}\n" for line in judged.lines()))
    sys.stdout.write(f"agreement with people: {calibration}\n{out}: openended judgments={out}\n{sheet}: by system\n")
    return judged
