"""Do the tests notice a wrong line? Change one expression at a time in a copy of the sources and run the room's tests.

    python scripts/mutants.py [--seed 0] [--count 20] [--rooms metrics harness/decoders …] [--minutes 5] [--list]

The seed draws a file by its number of lines, then a kind of change, then a place. Messages, annotations, keywords of
figures and code outside functions are left out. The exit code is 1 if a change was not noticed: read it, for it may
change nothing.
"""

import argparse
import ast
import copy
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("metrics", "harness/decoders", "harness/storage", "harness/results", "harness/report")
SWAPS: list[tuple[Any, Any]] = [
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)),
    *(("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("any", "all"), ("nanmin", "nanmax")),
]
OTHER = {**dict(SWAPS), **{second: first for first, second in SWAPS}, ast.FloorDiv: ast.Div}
NOT_READ = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
STYLE = {"linewidth", "lw", "fontsize", "alpha", "figsize", "color", "pad", "zorder", "markersize", "rotation", "dpi"}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One expression of a file (path from the root) and what it becomes."""

    path: Path
    kind: str
    before: ast.expr
    after: ast.expr

    def apply(self, text: str) -> str:
        """Return the file's text with the change."""
        lines = text.encode().splitlines(keepends=True)
        starts = [0, *accumulate(map(len, lines))]
        first = starts[self.before.lineno - 1] + self.before.col_offset
        last = starts[(self.before.end_lineno or 0) - 1] + (self.before.end_col_offset or 0)
        return (text.encode()[:first] + f"({ast.unparse(self.after)})".encode() + text.encode()[last:]).decode()


def change(node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """Yield the changes of one node: kind, expression, new expression."""
    before: Any = node
    after: Any = copy.deepcopy(node)
    match after:
        case ast.Compare(ops=[operator]):
            after.ops = [OTHER[type(operator)]()]
            yield "comparison", before, after
        case ast.BinOp(op=operator) if type(operator) in OTHER and not _is_text(after):
            after.op = OTHER[type(operator)]()
            yield "operator", before, after
        case ast.BoolOp(op=operator):
            after.op = OTHER[type(operator)]()
            yield "and, or", before, after
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            for step in (1, -1):
                yield "constant", before, ast.Constant(value + step)
        case ast.UnaryOp(op=ast.Not()):
            yield "not", before, after.operand
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in OTHER:
            setattr(after.func, "attr" if isinstance(after.func, ast.Attribute) else "id", OTHER[name])
            yield "min, max", before, after
        case ast.keyword(arg="axis" | "dim", value=ast.Constant(value=0 | 1 as axis)):
            yield "axis", before.value, ast.Constant(1 - axis)
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", before.test, ast.UnaryOp(ast.Not(), test)
        case ast.Slice(upper=ast.expr() as upper):
            yield "slice", before.upper, ast.BinOp(upper, ast.Add(), ast.Constant(1))
        case ast.Return(value=ast.Tuple(elts=[first, second, *rest])):
            yield "result", before.value, ast.Tuple([second, first, *rest], ast.Load())


def find_mutants(path: Path, text: str) -> list[Mutant]:
    """Return all changes of the functions in a file's text."""
    mutants = []
    queue: list[tuple[ast.AST, bool]] = [(ast.parse(text), False)]
    while queue:
        node, inside = queue.pop()
        if isinstance(node, NOT_READ) or (isinstance(node, ast.keyword) and node.arg in STYLE):
            continue
        if inside:
            mutants += [Mutant(path=path, kind=kind, before=old, after=new) for kind, old, new in change(node)]
        inside = inside or isinstance(node, ast.FunctionDef)
        for field, value in ast.iter_fields(node):
            if field not in ("annotation", "returns", "decorator_list"):
                children = value if isinstance(value, list) else [value]
                queue += [(child, inside) for child in children if isinstance(child, ast.AST)]
    return mutants


def draw_mutants(rooms: Sequence[str], seed: int, count: int) -> list[Mutant]:
    """Draw different mutants of the rooms, at most half of all."""
    rng, chosen = random.Random(seed), dict[tuple[Path, str], Mutant]()
    paths = [path.relative_to(ROOT) for room in rooms for path in sorted((ROOT / room).rglob("*.py"))]
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    mutants = {path: find_mutants(path, text) for path, text in texts.items()}
    paths = [path for path in paths if mutants[path]]
    lengths = [len(texts[path].splitlines()) for path in paths]
    while len(chosen) < min(count, sum(map(len, mutants.values())) // 2):
        path = rng.choices(paths, lengths)[0]
        kind = rng.choice(sorted({mutant.kind for mutant in mutants[path]}))
        mutant = rng.choice([mutant for mutant in mutants[path] if mutant.kind == kind])
        chosen[path, mutant.apply(texts[path])] = mutant
    return list(chosen.values())


def find_tests(path: Path) -> list[str]:
    """Return the tests to run, nearest first: of the module, then of its folder (of the room, if it has none)."""
    folder = Path("tests") / path.parent
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    nearest = folder / f"test_{path.stem}.py"
    return [str(name) for name in (nearest, folder) if (ROOT / name).exists()]


def is_noticed(mutant: Mutant, copied: Path, seconds: float) -> bool:
    """Return whether a test fails, or does not end in time, with the change in the copied sources."""
    path = copied / mutant.path
    text = path.read_text(encoding="utf-8")
    path.write_text(mutant.apply(text), encoding="utf-8")
    words = [sys.executable, "-m", "pytest", "-qx", "-n", "2", "-m", "not long and not real", *find_tests(mutant.path)]
    try:
        return subprocess.run(words, cwd=copied, capture_output=True, check=False, timeout=seconds).returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(text, encoding="utf-8")


def _is_text(node: ast.expr) -> bool:
    """Return whether a sum joins texts."""
    return any(
        isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
        for part in ast.walk(node)
    )


def main(words: Sequence[str] | None = None) -> int:
    """Print each mutant and whether it was noticed; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--rooms", nargs="+", default=ROOMS, metavar="FOLDER")
    parser.add_argument("--minutes", type=float, default=5, help="of one mutant; endless loops count as noticed")
    parser.add_argument("--list", action="store_true", help="draw the mutants without running tests")
    options = parser.parse_args(words)
    left = 0
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "sources"
        if not options.list:
            shutil.copytree(ROOT, copied, symlinks=True, ignore=shutil.ignore_patterns(".git", "outputs", ".venv"))
        for mutant in draw_mutants(options.rooms, options.seed, options.count):
            noticed = None if options.list else is_noticed(mutant, copied, 60 * options.minutes)
            left += noticed is False
            word = {None: "", True: "noticed: ", False: "NOT NOTICED: "}[noticed]
            before, after = ast.unparse(mutant.before), ast.unparse(mutant.after)
            print(f"{word}{mutant.path}:{mutant.before.lineno}: {mutant.kind}: {before} → {after}", flush=True)
    return min(left, 1)


if __name__ == "__main__":
    raise SystemExit(main())
