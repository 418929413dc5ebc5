"""`openended-rate make RUNS… protocol=mauve|huse|typicality|MY.yaml`: an offline HTML file a rater, a key for you."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from pathlib import Path

from openended.harness.core.errors import SpecError
from openended.harness.rating.cli.arguments import counted, split_words, taken
from openended.harness.rating.controls import read_controls
from openended.harness.rating.make import SHEETS, make_study, write_study
from openended.harness.rating.protocol import StudyProtocol, load_protocol, protocol_names
from openended.harness.rating.texts import read_material

KEPT = "no key was written, so no sheet counts"
OWN = ("protocol", "controls", "exclude", "people", "seed")


def parser() -> argparse.ArgumentParser:
    """Return the command's parser."""
    names = ", ".join(protocol_names())
    made = argparse.ArgumentParser(
        prog="openended-rate make",
        description=__doc__,
        epilog=f"Protocols: {names}, or a YAML of your own (docs/human_studies.md). Options of the protocol as words: "
        "items=20 raters=3 items_a_sheet=25 cut_words=100; people=10: ten sheets; controls=FILE, exclude=FILE (example "
        "ids), seed=N.",
    )
    made.add_argument("words", nargs="+", metavar="RUNS|OPTION=VALUE", help="names or folders of runs; options")
    made.add_argument("-o", "--out", type=Path, default=Path("study"), metavar="DIR", help="default: study")
    made.add_argument("--outputs", type=Path, default=Path("outputs"), metavar="DIR", help="where names are looked up")
    made.add_argument("--dry", action="store_true", help="tell hours and intervals, and write nothing")
    return made


def work(args: argparse.Namespace) -> None:
    """Make a study."""
    fields = [f.name for f in dataclasses.fields(StudyProtocol)]
    runs, options = split_words(args.words, [*OWN, *fields])
    name = taken(options, "protocol", "mauve")
    people = counted(options, "people")
    options.pop("people", None)
    controls, exclude, seed = (taken(options, n) for n in ("controls", "exclude", "seed"))
    protocol = load_protocol(name, options)
    if not runs:
        raise SpecError("which runs? the name of an experiment or grid, or a folder of runs")
    material = read_material(runs, args.outputs, protocol, Path(str(exclude)) if exclude else None)
    known = read_controls(Path(str(controls)), protocol) if controls else ()
    if people is not None:
        protocol = _for_people(protocol, len(material.players), people, len(known))
    study = make_study(material, protocol, controls=known, made_of=runs, seed=seed)
    sys.stdout.write("\n".join([*study.lines(), ""]))
    if args.dry:
        return
    sheets = write_study(study, args.out)
    sys.stdout.write(
        f"{args.out / SHEETS}: {len(sheets)} sheets, one a rater; they name no system\n"
        f"{args.out / 'key.json'}: says which item is what; keep it, and send it to nobody\n"
        f"next: openended-rate collect {args.out} FILES… -o judgments.csv\n"
    )


def _for_people(protocol: StudyProtocol, players: int, people: int, controls: int) -> StudyProtocol:
    """Deal all items to as many sheets as there are people."""
    units = math.comb(players, 2) if protocol.kind == "pairs" else players
    ratings = units * protocol.items * protocol.raters
    own = math.ceil(ratings / people)
    if own > protocol.items:
        least = math.ceil(ratings / protocol.items)
        raise SpecError(
            f"people={people}: each would rate {own} items, and no prompt may come twice on a sheet: people={least} or "
            "more, or fewer raters or items"
        )
    return dataclasses.replace(protocol, items_a_sheet=own + min(protocol.controls_a_sheet, controls))
