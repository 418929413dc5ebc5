"""Studies: simulations whose results are tables of the documentation.

    python -m scripts.studies                              # list all studies
    python -m scripts.studies NAME --help                  # sizes of a study
    python -m scripts.studies NAME [--only WORD …] [--write [PAGE]] [--check]

A study declares its page, the titles of its rows and what computes them; here they are selected, computed, printed, and
written into the page or compared with it. Every row follows from the options alone: its random numbers are keyed.
"""

import argparse
import importlib
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.pages import ROOT, read_table, replace_block, split_row

STUDIES = {
    "audit_faults": "audit_power:FAULTS", "audit_honest": "audit_power:HONEST", "audit_half": "audit_power:HALF",
    "coverage": "coverage:COVERAGE", "huse": "coverage:HUSE", "equal_systems": "equal_systems:EQUAL",
    "features": "feature_checks:FEATURES", "joint": "power:JOINT", "looks": "power:LOOKS",
    "resolution": "equal_systems:RESOLUTION",
}  # fmt: skip
"""Name → module of this folder and name of the study in it."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """A table of a page and what computes it."""

    titles: Callable[[], Iterable[str]]  # what `--only` selects from
    compute: Callable[..., Iterable[Sequence[str]]]
    """Yields the lines of the table for a title, as cells; its further arguments are the options."""
    page: str
    heading: str | Callable[[dict[str, Any]], str]  # of the comment above the table; a function of the options
    columns: Sequence[int] = (0,)  # lines of the page that agree in these are replaced
    finish: Callable[[Path], None] | None = None  # writes what is derived from the page


def merge_rows(old: Sequence[str], new: Sequence[str], columns: Sequence[int]) -> list[str]:
    """Replace the lines of a table that agree with new ones in some columns, and add those that are new."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for rows in (old, new):
        by_key: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for row in rows:
            by_key[tuple(split_row(row)[column] for column in columns)].append(row)
        groups |= by_key
    return [row for group in groups.values() for row in group]


def load_study(name: str) -> Study:
    """Import a study."""
    module, _, field = STUDIES[name].partition(":")
    study: Study = getattr(importlib.import_module(f"scripts.studies.{module}"), field)
    return study


def main(words: Sequence[str] | None = None) -> int:
    """Run a study; return 1 if `--check` finds a row that the page does not have."""
    name, *words = [*(sys.argv[1:] if words is None else words), ""]
    if name not in STUDIES:
        print(__doc__, *(f"{name:<15} {load_study(name).page}" for name in STUDIES), sep="\n")
        return 2
    study = load_study(name)
    about, form = inspect.getdoc(study.compute), argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(f"python -m scripts.studies {name}", description=about, formatter_class=form)
    for option in [*inspect.signature(study.compute).parameters.values()][1:]:
        kind, nargs = (str, "*") if isinstance(option.default, tuple) else (type(option.default), None)
        parser.add_argument(f"--{option.name.replace('_', '-')}", type=kind, default=option.default, nargs=nargs)
    parser.add_argument("--only", nargs="*", default=[""], help="rows whose names contain one of these")
    parser.add_argument("--write", nargs="?", type=Path, const=ROOT / study.page, help=f"into {study.page}")
    parser.add_argument("--check", action="store_true", help=f"compare with {study.page}")
    options = vars(parser.parse_args(words[:-1]))
    only, page, check = (options.pop(option) for option in ("only", "write", "check"))
    options = {option: tuple(value) if isinstance(value, list) else value for option, value in options.items()}
    rows = []
    for title in (title for title in study.titles() if any(word in title for word in only)):
        for cells in study.compute(title, **options):
            rows.append(f"| {' | '.join(cells)} |")
            print(rows[-1], flush=True)
    heading = study.heading if isinstance(study.heading, str) else study.heading(options)
    if page:
        text = page.read_text(encoding="utf-8")
        lines = read_table(text, heading)
        table = "\n".join([*lines[:2], *merge_rows(lines[2:], rows, study.columns)])
        page.write_text(replace_block(str(page), text, heading, table), encoding="utf-8")
        if study.finish:
            study.finish(page)
    printed = read_table((ROOT / study.page).read_text(encoding="utf-8"), heading) if check else rows
    others = [row for row in rows if row not in printed]
    for row in others:
        print(f"not on {study.page}: {row}")
    return int(bool(others))
