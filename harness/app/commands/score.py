"""`openended score`: texts that lie in files against human texts; no prompts, no generation."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from openended.harness.core import FAILED, OK, CommandParser, SpecError, code_of, complain

COMMAND = "openended score"
EPILOG = """\
A file is .jsonl (or .csv, .tsv, .parquet, .txt; .gz allowed), or a folder of them. Without a judge, the metrics of the
texts alone are computed, over words; with one, all that need no people and no model under test.
Examples:
  openended score greedy.jsonl nucleus.jsonl --human human.jsonl
  openended score greedy.jsonl nucleus.jsonl --human human.jsonl --judge gpt2-large
  openended score mine=outputs/ --human human.csv --human-field story --metrics zipf,self_bleu
  openended score mine.jsonl --human human.jsonl --features mine.npy --human-features human.npy
"""


def parser() -> CommandParser:
    """Return the command line's parser."""
    made = CommandParser(
        prog=COMMAND,
        description="Score texts that lie in files against human texts: one table, nothing is generated.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("systems", nargs="+", metavar="[NAME=]FILE", help="the texts of a system, and its name in tables")
    made.add_argument("--human", required=True, metavar="FILE", help="the human texts")
    made.add_argument("--judge", metavar="MODEL", help="scores and embeds: gpt2-large, docs-m, a hub id or a folder")
    made.add_argument("--scorer", metavar="MODEL", help="whose likelihood and tokens count, in place of the judge")
    made.add_argument("--embedder", metavar="MODEL", help="whose vectors are compared, in place of the judge")
    made.add_argument("--metrics", metavar="NAMES", help="metrics or sets (text, two_sample, paper, all)")
    made.add_argument(
        "--field", metavar="NAME", help="field with the text in the systems' files; default: told by them"
    )
    made.add_argument("--human-field", metavar="NAME", help="the same of the human file")
    made.add_argument("--features", nargs="+", metavar="NPY", help="vectors of your own, one file a system, in order")
    made.add_argument("--human-features", metavar="NPY", help="those of the human texts")
    made.add_argument("--num-examples", default="all", metavar="N", help="the first N texts of each side; default: all")
    made.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="cut texts at N tokens of the scorer; default: no"
    )
    made.add_argument("--name", metavar="NAME", help="of the runs and the report; default: score-TIME")
    made.add_argument("--outputs-dir", default="outputs", metavar="DIR", help="where everything is kept")
    made.add_argument("--device", default="auto", help="auto, cpu, cuda, …")
    made.add_argument("-v", "--verbose", action="store_true", help="a line an artefact, and the signatures")
    made.add_argument("-q", "--quiet", action="store_true", help="print the tables alone")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; returns one of `exit_codes`: 1 where the code of a metric raised."""
    args = parser().parse_args(words)
    failed: list[str] = []
    code = code_of(COMMAND, lambda: failed.extend(_score(args)), kept="what is finished is kept, and found again")
    for reason in failed:
        complain(COMMAND, reason)
    return code or (FAILED if failed else OK)


def _score(args: argparse.Namespace) -> Sequence[str]:
    from openended.harness.app.api import evaluate
    from openended.harness.imported import HUMAN_TEXTS, TEXTS

    _log(verbose=args.verbose, quiet=args.quiet)
    systems = named(args.systems)
    if not args.quiet:
        _say("human", args.human, HUMAN_TEXTS, args.human_field)
        for name, path in systems.items():
            _say(name, path, TEXTS, args.field)
    result = evaluate(
        human=args.human, systems=systems, metrics=args.metrics.split(",") if args.metrics else None,
        judge=args.judge, scorer=args.scorer, embedder=args.embedder, features=_features(args, list(systems)),
        human_field=args.human_field, generations_field=args.field, num_examples=_count(args.num_examples),
        max_new_tokens=args.max_new_tokens, experiment=args.name, outputs_dir=args.outputs_dir, device=args.device,
    )  # fmt: skip
    folder = Path(args.outputs_dir) / "reports" / result.folders[0].parent.name
    result.report(folder).show(signatures=args.verbose)
    return result.failed


def named(words: Sequence[str]) -> dict[str, str]:
    """Return name → file of `FILE` and `NAME=FILE`; files of one name are told apart by their folders.

    Raises:
        SpecError: If a name comes twice, or is `human`.
    """
    from openended.harness.run import system_name

    pairs = []
    for word in words:
        name, sign, path = word.partition("=")
        given = bool(sign) and not Path(word).exists()
        pairs.append((name if given else "", path if given else word))
    short = [name or system_name(Path(path)) for name, path in pairs]
    times = Counter(short)
    names = [
        s if n or times[s] == 1 else f"{Path(p).resolve().parent.name}/{s}"
        for s, (n, p) in zip(short, pairs, strict=True)
    ]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SpecError(f"two systems are called {twice!r}; name them: NAME=FILE")
    if "human" in names:
        raise SpecError("a system is called 'human', as the human side is; name it: NAME=FILE")
    return dict(zip(names, (path for _, path in pairs), strict=True))


def _features(args: argparse.Namespace, names: Sequence[str]) -> dict[str, str] | None:
    if args.features is None and args.human_features is None:
        return None
    if args.human_features is None or len(args.features or ()) != len(names):
        raise SpecError(
            f"--features: expected a file for each of the {len(names)} systems, and --human-features beside them, "
            f"got {len(args.features or ())}"
        )
    return {"human": args.human_features, **dict(zip(names, args.features, strict=True))}


def _count(text: str) -> int | Literal["all"]:
    if text == "all":
        return "all"
    if text.isdecimal():
        return int(text)
    raise SpecError(f"--num-examples: expected 1 or more, or all, got {text!r}")


def _say(name: str, path: str, names: Sequence[str], field: str | None) -> None:
    """Say which field of a file holds its texts."""
    from openended.harness.imported import PUBLISHED, guess, kind_of, split_member

    if split_member(Path(path))[1] is not None or Path(path).suffix in (".p", ".pkl", ".pickle"):
        return
    found = guess(Path(path), (*names, *PUBLISHED), field)
    told = "" if kind_of(Path(path)) == ".txt" else f", field {found!r}{'' if field else ' (guessed)'}"
    sys.stderr.write(f"{name:<10} {path}{told}\n")


def _log(*, verbose: bool, quiet: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    ours = logging.getLogger("openended")
    ours.handlers[:] = [handler]
    ours.propagate = False
    ours.setLevel(logging.ERROR if quiet else logging.DEBUG if verbose else logging.WARNING)
