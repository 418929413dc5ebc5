"""`openended rate make RUNS… --protocol mauve|huse|typicality|MY.yaml`: one HTML file for each rater, a key for you."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from pathlib import Path

from openended.harness.core import CommandParser, SpecError, positive_int
from openended.harness.rating.cli.arguments import add_fields, collect_flag_values
from openended.harness.rating.controls import read_controls
from openended.harness.rating.protocol import StudyProtocol, list_protocol_names, load_protocol
from openended.harness.rating.study import SHEETS, make_study, write_study
from openended.harness.rating.texts import read_study_texts

KEPT = "no key was written, so the sheets that exist cannot be used"
_HELP = {
    "items": "pairs: prompts for each pair of players; ratings: prompts, each with the texts of all players",
    "raters": "raters of each item",
    "items_a_sheet": "items that one rater gets",
    "controls_a_sheet": "how many of --controls go on a sheet",
    "cut_words": "cut texts after so many words",
    "min_words": "leave out a prompt where a text is shorter",
    "longest_tokens": "refuse longer texts",
    "seconds_an_item": "seconds a rater needs per item; for the forecast of hours",
    "min_seconds": "faster answers are counted on the quality sheet",
    "most_ties": "a larger share of ties is reported",
}


def make_parser() -> CommandParser:
    """Return the command's parser."""
    names = ", ".join(list_protocol_names())
    parser = CommandParser(
        prog="openended rate make",
        description=__doc__,
        epilog=f"Protocols: {names}, or a YAML of your own (docs/human_studies.md).",
    )
    parser.add_argument("words", nargs="*", metavar="RUNS", help="names of experiments or grids, or folders of runs")
    parser.add_argument("-o", "--out", type=Path, default=Path("study"), metavar="DIR", help="default: study")
    parser.add_argument(
        "--outputs", type=Path, default=Path("outputs"), metavar="DIR", help="where names are looked up"
    )
    parser.add_argument("--dry", action="store_true", help="print hours and intervals, and write nothing")
    parser.add_argument(
        "--protocol", default="mauve", metavar="NAME", help="what raters are asked; default: %(default)s"
    )
    parser.add_argument("--people", type=positive_int, metavar="N", help="deal all items to N sheets, one a person")
    parser.add_argument("--controls", type=Path, metavar="FILE", help="items with known answers, mixed in")
    parser.add_argument("--exclude", type=Path, metavar="FILE", help="ids of examples to leave out, one a line")
    parser.add_argument("--seed", type=int, metavar="N", help="of the order of items; default: drawn anew")
    add_fields(parser, StudyProtocol, "options of the protocol, in place of its own (values as in YAML)", _HELP)
    return parser


def work(args: argparse.Namespace) -> None:
    """Make a study."""
    protocol = load_protocol(args.protocol, collect_flag_values(args, StudyProtocol))
    if not args.words:
        raise SpecError("which runs? the name of an experiment or grid, or a folder of runs")
    material = read_study_texts(args.words, args.outputs, protocol, args.exclude)
    controls = read_controls(args.controls, protocol) if args.controls else ()
    if args.people is not None:
        protocol = _set_sheet_size(protocol, len(material.players), args.people, len(controls))
    study = make_study(material, protocol, controls=controls, made_of=args.words, seed=args.seed)
    sys.stdout.write("\n".join([*study.lines(), ""]))
    if args.dry:
        return
    sheets = write_study(study, args.out)
    sys.stdout.write(
        f"{args.out / SHEETS}: {len(sheets)} sheets, one per rater; they do not name the systems\n"
        f"{args.out / 'key.json'}: maps items to systems; keep it private\n"
        f"next: openended rate collect {args.out} FILES… -o judgments.csv\n"
    )


def _set_sheet_size(protocol: StudyProtocol, players: int, people: int, controls: int) -> StudyProtocol:
    """Return the protocol with items per sheet chosen so that each person gets one sheet."""
    units = math.comb(players, 2) if protocol.kind == "pairs" else players
    ratings = units * protocol.items * protocol.raters
    items_a_sheet = math.ceil(ratings / people)
    if items_a_sheet > protocol.items:
        least = math.ceil(ratings / protocol.items)
        raise SpecError(
            f"--people {people}: each would rate {items_a_sheet} items, but a prompt may appear only once per sheet: "
            f"type --people {least} or more, or fewer raters or items"
        )
    return dataclasses.replace(protocol, items_a_sheet=items_a_sheet + min(protocol.controls_a_sheet, controls))
