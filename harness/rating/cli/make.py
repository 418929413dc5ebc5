"""`openended rate make RUNS… --protocol mauve|huse|typicality|MY.yaml`: one HTML file for each rater, a key for you."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from pathlib import Path

from openended.harness.core import CommandParser, SpecError, positive_int
from openended.harness.rating.cli.arguments import add_fields, given_fields
from openended.harness.rating.controls import read_controls
from openended.harness.rating.make import SHEETS, make_study, write_study
from openended.harness.rating.protocol import StudyProtocol, load_protocol, protocol_names
from openended.harness.rating.texts import read_material

KEPT = "no key was written, so no sheet counts"
_HELP = {
    "items": "pairs: prompts for each pair of players; ratings: prompts, each with the texts of all players",
    "raters": "raters of each item",
    "items_a_sheet": "items that one rater gets",
    "controls_a_sheet": "how many of --controls go on a sheet",
    "cut_words": "cut texts after so many words",
    "min_words": "leave out a prompt where a text is shorter",
    "longest_tokens": "refuse longer texts",
    "seconds_an_item": "what an item takes a rater; for the hours that are announced",
    "min_seconds": "faster answers are counted on the quality sheet",
    "most_ties": "a larger share of ties is reported",
}


def parser() -> CommandParser:
    """Return the command's parser."""
    names = ", ".join(protocol_names())
    made = CommandParser(
        prog="openended rate make",
        description=__doc__,
        epilog=f"Protocols: {names}, or a YAML of your own (docs/human_studies.md).",
    )
    made.add_argument("words", nargs="*", metavar="RUNS", help="names of experiments or grids, or folders of runs")
    made.add_argument("-o", "--out", type=Path, default=Path("study"), metavar="DIR", help="default: study")
    made.add_argument("--outputs", type=Path, default=Path("outputs"), metavar="DIR", help="where names are looked up")
    made.add_argument("--dry", action="store_true", help="print hours and intervals, and write nothing")
    made.add_argument("--protocol", default="mauve", metavar="NAME", help="what raters are asked; default: %(default)s")
    made.add_argument("--people", type=positive_int, metavar="N", help="deal all items to N sheets, one a person")
    made.add_argument("--controls", type=Path, metavar="FILE", help="items with known answers, mixed in")
    made.add_argument("--exclude", type=Path, metavar="FILE", help="ids of examples to leave out, one a line")
    made.add_argument("--seed", type=int, metavar="N", help="of the order of items; default: drawn anew")
    add_fields(made, StudyProtocol, "options of the protocol, in place of its own (values as in YAML)", _HELP)
    return made


def work(args: argparse.Namespace) -> None:
    """Make a study."""
    protocol = load_protocol(args.protocol, given_fields(args, StudyProtocol))
    if not args.words:
        raise SpecError("which runs? the name of an experiment or grid, or a folder of runs")
    material = read_material(args.words, args.outputs, protocol, args.exclude)
    known = read_controls(args.controls, protocol) if args.controls else ()
    if args.people is not None:
        protocol = _for_people(protocol, len(material.players), args.people, len(known))
    study = make_study(material, protocol, controls=known, made_of=args.words, seed=args.seed)
    sys.stdout.write("\n".join([*study.lines(), ""]))
    if args.dry:
        return
    sheets = write_study(study, args.out)
    sys.stdout.write(
        f"{args.out / SHEETS}: {len(sheets)} sheets, one a rater; they name no system\n"
        f"{args.out / 'key.json'}: says which item is what; keep it, and send it to nobody\n"
        f"next: openended rate collect {args.out} FILES… -o judgments.csv\n"
    )


def _for_people(protocol: StudyProtocol, players: int, people: int, controls: int) -> StudyProtocol:
    """Deal all items to as many sheets as there are people."""
    units = math.comb(players, 2) if protocol.kind == "pairs" else players
    ratings = units * protocol.items * protocol.raters
    own = math.ceil(ratings / people)
    if own > protocol.items:
        least = math.ceil(ratings / protocol.items)
        raise SpecError(
            f"--people {people}: each would rate {own} items, and no prompt may come twice on a sheet: type --people "
            f"{least} or more, or fewer raters or items"
        )
    return dataclasses.replace(protocol, items_a_sheet=own + min(protocol.controls_a_sheet, controls))
