"""`openended compare A B…`: paired tests of anybody's scores, from logs of Inspect and lm-eval or tables."""

import argparse
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path

from openended.harness.core import Arguments, SpecError, argument, list_names, make_main, split_commas
from openended.harness.imported import name_files as name_files_apart, read_system_scores
from openended.harness.report import compare_scores
from openended.harness.results import suggest_command

_STAMPS = re.compile(r"^(samples_|\d{4}-\d\d-\d\dT[\d-]+_)|_(\w{22}|\d{4}-\d\d-\d\dT[\d.-]+)$")  # of file names
RUNS = Path("outputs", "runs")
_LOGS = ".eval or .json log of Inspect, samples_….jsonl of lm-eval, or .csv, .jsonl, .parquet with an id per row"
_NAMES = {"type": split_commas, "default": ""}
_JUDGED = "people's scores of some samples of a judged system, by which the judge is corrected"
_ARGUMENTS: Arguments = {
    "systems": argument(f"{_LOGS}; files of one NAME are repeats", "[NAME=]FILE", nargs="+"),
    "--metrics": argument("metrics to compare; default: all that the files share", "NAMES", **_NAMES),
    "--lower": argument("metrics whose lower value is better", "NAMES", **_NAMES),
    "--id": argument("column of a table with the sample; default: id, sample_id, example_id, …", "COLUMN"),
    "--cluster": argument("column that groups samples, or a field of a log: metadata.topic, doc.passage", "COLUMN"),
    "--unmatched": argument("samples that some files lack", choices=("refuse", "drop"), default="refuse"),
    "--difference": argument("difference to resolve; default: each measured one", "X", type=float),
    "--people": argument(_JUDGED, "[NAME=]FILE", action="append", default=[]),
    "--out": argument("also write .md, .tex, .csv and a page into this folder", "DIR", type=Path),
}


def _compare(args: argparse.Namespace) -> None:
    if args.difference is not None and not 0 < args.difference < math.inf:
        raise SpecError(f"--difference: expected a number above 0, got {args.difference:g}")
    files, choices = name_files(args.systems), list_names("decoder")
    decoders = [name for name in args.systems if name in choices]
    for path in itertools.chain(*files.values()):
        if not path.exists() and (RUNS / path).is_dir():
            names = [name for name in args.systems if (RUNS / name).is_dir() or Path(name).is_dir()]
            hint = f"openended report {path} --baseline SYSTEM tests its systems"
            if len(names) > 1:
                both = " ".join(names)
                hint = f"openended check {both} tests them, openended report {both} --side-by-side lists what differs"
            raise SpecError(f"{path} is a name of runs: {hint}")
        if not path.exists() and str(path) in decoders:
            grid = f"openended -m decoder={','.join(decoders if len(decoders) > 1 else [*decoders, '…'])}"
            raise SpecError(f"{path} is a decoder, expected files of scores: {grid} compares decoders in one table")
        if path.is_dir() and (command := suggest_command(path)):
            raise SpecError(f"{path}: expected files of scores{command} --baseline SYSTEM, which tests its systems")
    if len(files) < 2 and not args.people:
        ((file, *_),) = files.values()
        raise SpecError(
            f"expected scores of two systems or more, got {len(files)}: openended compare A B, or A --people FILE if A "
            f"is a judge{suggest_command(file)}"
        )
    systems = [read_system_scores(n, paths, id_column=args.id, cluster=args.cluster) for n, paths in files.items()]
    people = {n: read_system_scores(n, paths, id_column=args.id) for n, paths in _name_people(args.people, [*files])}
    options = {"drop": args.unmatched == "drop", "difference": args.difference, "people": people, "out": args.out}
    compare_scores(systems, args.metrics, args.lower, **options)


def _name_people(words: Sequence[str], systems: Sequence[str]) -> list[tuple[str, list[Path]]]:
    """Return the files of people's scores by system; a file without a name is that of the only system."""
    files: dict[str, list[Path]] = {}
    for word in words:
        name, path = ("", word) if Path(word).exists() else word.rpartition("=")[::2]
        if not name and len(systems) == 1:
            name = systems[0]
        if name not in systems:
            raise SpecError(f"--people {word}: expected SYSTEM=FILE, of {', '.join(systems)}")
        files.setdefault(name, []).append(Path(path))
    if files and (lacking := next((name for name in systems if name not in files), None)):
        raise SpecError(f"--people: no file for {lacking}: add --people {lacking}=FILE")
    return [*files.items()]


def name_files(words: Sequence[str]) -> dict[str, list[Path]]:
    """Return name → files of `FILE` and `NAME=FILE`; a file is called as it differs from the others."""
    pairs = [("", word) if Path(word).exists() else word.rpartition("=")[::2] for word in words]
    if bad := next((word for word, (_, path) in zip(words, pairs, strict=True) if not path), None):
        raise SpecError(f"expected FILE or NAME=FILE, got {bad!r}")
    paths = [Path(path) for name, path in pairs if not name]
    short = [_STAMPS.sub("", path.name.removesuffix(path.suffix)) for path in paths]
    named = iter(name_files_apart(list(map(str, paths)), short))
    files: dict[str, list[Path]] = {}
    for name, path in pairs:
        files.setdefault(name or next(named), []).append(Path(path))
    if twice := next((path for of in files.values() for path in of if of.count(path) > 1), None):
        raise SpecError(f"{twice} is listed twice; name each file once")
    return files


main = make_main("compare", __doc__, _ARGUMENTS, _compare, example="openended compare a.eval b.eval")
