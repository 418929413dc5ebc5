"""Measure numbers of README and docs again: some of them, chosen by a seed, next to what the pages say.

    python scripts/remeasure.py [--seed 0] [--count 20] [--minutes 5] [--list]

`remeasure.yaml` names the tables and their commands. Every command runs once, in a folder of its own; those that take
longer than `--minutes` are left out. The exit code is 1 if a number is outside its tolerance.
"""

import argparse
import os
import random
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|[-−]?\.\d+")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of a page and the command that measures them; see `remeasure.yaml`."""

    page: str
    command: str
    rows: str
    run: str = ""
    read: str = ""
    columns: Sequence[int] = ()
    tolerance: float
    minutes: float

    def find_numbers(self, text: str) -> Iterator[tuple[int, str, int, str]]:
        """Yield line, name of the row, position in it and the number as written, of all rows of a text."""
        for line_number, line in enumerate(text.splitlines(), 1):
            if re.search(self.rows, line):
                cells = [cell.strip() for cell in re.split(r"\||\s{2,}", line.strip().strip("|"))]
                columns = self.columns or range(1, len(cells))
                numbers = [
                    number for column in columns if column < len(cells) for number in NUMBER.findall(cells[column])
                ]
                for position, number in enumerate(numbers):
                    yield line_number, cells[0], position, number

    def measure(self) -> Mapping[tuple[str, int], str]:
        """Run the command in a folder of its own; return (row, position) → number."""
        words = shlex.split(self.run or self.command)
        programs = {"python": [sys.executable], "openended": [sys.executable, "-m", "openended"]}
        words = [
            *programs[words[0]],
            *(str(ROOT / word) if word.startswith("scripts/") else word for word in words[1:]),
        ]
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{self.run or self.command}: exit code {done.returncode}\n{done.stderr[-2000:]}")
            text = (Path(folder) / self.read).read_text(encoding="utf-8") if self.read else done.stdout
        return {(row, position): number for _, row, position, number in self.find_numbers(text)}


def load_tables() -> list[Table]:
    """Return the tables; each page must have the command and its rows."""
    tables = [Table(**node) for node in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))]
    for table in tables:
        text = (ROOT / table.page).read_text(encoding="utf-8")
        if table.command not in text or not list(table.find_numbers(text)):
            raise SystemExit(f"{table.page}: expected the command `{table.command}` and rows like {table.rows}")
    return tables


def parse_number(text: str) -> float:
    """Return the value of a number as pages write it."""
    return float(text.replace(",", "").replace("−", "-"))


def is_close(claimed: str, measured: str, tolerance: float) -> bool:
    """Return whether a number is measured again: within its tolerance, or one unit of the last digit."""
    digits = len(claimed.partition("e")[0].partition(".")[2])
    scale = 10 ** int(claimed.partition("e")[2] or 0)
    gap, value = abs(parse_number(measured) - parse_number(claimed)), abs(parse_number(claimed))
    return gap <= max(tolerance * value, 1.01 * scale * 10.0**-digits)


def choose_claims(tables: Sequence[Table], seed: int, count: int) -> list[tuple[Table, Any]]:
    """Choose numbers: the tables in turn, in random order, so that no large table takes all."""
    rng, claims = random.Random(seed), list[tuple[Table, Any]]()
    left = {id(table): list(table.find_numbers((ROOT / table.page).read_text(encoding="utf-8"))) for table in tables}
    while len(claims) < count and any(left.values()):
        for table in rng.sample(list(tables), len(tables)):
            if left[id(table)] and len(claims) < count:
                claims.append((table, left[id(table)].pop(rng.randrange(len(left[id(table)])))))
    return sorted(claims, key=lambda claim: (claim[0].page, claim[1]))


def main(words: Sequence[str] | None = None) -> int:
    """Print the chosen numbers as a Markdown table; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--list", action="store_true", help="name the tables and how many numbers each has")
    options = parser.parse_args(words)
    tables = load_tables()
    if options.list:
        for table in tables:
            count = len(list(table.find_numbers((ROOT / table.page).read_text(encoding="utf-8"))))
            print(f"{table.page}: {count} numbers, {table.minutes:g} min: {table.run or table.command}")
        return 0
    claims = choose_claims([table for table in tables if table.minutes <= options.minutes], options.seed, options.count)
    measured = {id(table): table.measure() for table in {id(table): table for table, _ in claims}.values()}
    print("| page | row | claimed | measured | | command |\n| --- | --- | ---: | ---: | --- | --- |")
    failed = 0
    for table, (line, row, position, claimed) in claims:
        number = measured[id(table)].get((row, position), "–")
        good = number != "–" and is_close(claimed, number, table.tolerance)
        failed += not good
        print(f"| {table.page}:{line} | {row} | {claimed} | {number} | {'=' if good else '≠'} | `{table.command}` |")
    print(f"\n{len(claims) - failed} of {len(claims)} numbers were measured again.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
