"""`openended-rate judge STUDY model=openai base_url=… path=…`: a model judges in place of people."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from openended.harness.core.errors import DataError, SpecError
from openended.harness.core.io import write_text
from openended.harness.rating.cli.arguments import counted, split_words, taken
from openended.harness.rating.collect.collect import columns_of, write_judgments
from openended.harness.rating.judging.calibrate import calibrate
from openended.harness.rating.judging.judge import Asker, Judged, judge_study
from openended.harness.rating.judging.summary import summary_lines
from openended.harness.rating.key import StudyKey, read_key
from openended.metrics.judgments import UNCALIBRATED

KEPT = "every reply is in the log: the same command goes on from there"
OWN = ("model", "people", "limit", "seed")


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    made = argparse.ArgumentParser(
        prog="openended-rate judge",
        description=__doc__,
        epilog="Options as words: base_url=http://host:8000 path=ID, and conf/model/openai.yaml; people=FILE, "
        "whose agreement with the judge stands beside its numbers (without: 'not calibrated'); limit=N items, seed=N.",
    )
    made.add_argument("study", type=Path, help="the folder of a study")
    made.add_argument("words", nargs="*", metavar="OPTION=VALUE")
    made.add_argument("-o", "--out", type=Path, metavar="FILE", help="default: STUDY/judge.csv")
    return made


def work(args: argparse.Namespace) -> None:
    """Judge a study by a model behind a server."""
    from openended.harness.rating.judging.asking import asker_of, option_names

    rest, options = split_words(args.words, [*OWN, *option_names()])
    if rest:
        raise SpecError(f"{rest[0]}: expected option=value; the study comes first, and there is one")
    people, limit, seed = taken(options, "people"), counted(options, "limit"), taken(options, "seed", 0)
    options.pop("limit", None)
    out = args.out or args.study / "judge.csv"
    people = None if people is None else str(people)
    run(read_key(args.study), asker_of(options), out, people=people, limit=limit, seed=seed)


def run(
    key: StudyKey, asker: Asker, out: Path, *, people: str | None = None, limit: int | None = None, seed: int = 0
) -> Judged:
    """Ask, compare with people, write; returns what the judge said.

    Raises:
        DataError: If no reply could be read, or the file of people's judgments is missing.
    """
    if out.suffix.lower() != ".csv":
        raise DataError(f"-o {out}: expected the name of a .csv file")
    if people is not None and not Path(people).is_file():
        raise DataError(f"people={people}: no such file")
    judged = judge_study(key, asker, out.with_suffix(".log.jsonl"), limit=limit, seed=seed)
    if not judged.rows:
        raise DataError(f"{judged.rater}: no reply could be read; they are in {out.with_suffix('.log.jsonl')}")
    levels = [answer.rating for answer in key.protocol.choices if answer.rating is not None]
    told = UNCALIBRATED
    if people is not None:
        told = calibrate(judged.rows, Path(people), key.protocol.kind, levels).said()
    rows = [{**row, "calibration": told} for row in judged.rows]
    write_judgments(out, rows, [*columns_of([key]), "calibration"])
    sheet = out.with_suffix(".summary.md")
    write_text(sheet, "\n".join(summary_lines(key, judged, told)))
    sys.stdout.write("".join(f"{line}\n" for line in judged.lines()))
    sys.stdout.write(f"agreement with people: {told}\n{out}: openended judgments={out}\n{sheet}: by system\n")
    return judged
