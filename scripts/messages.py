"""List every sentence that the product can print, with its place and its kind.

    python scripts/messages.py [PATTERN]    # those that match a regular expression

Sentences are the texts of three words and more in the source, docstrings aside; `{…}` stands for what is filled in.
"""

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("harness", "metrics", "tasks", "openended", "hydra_plugins")
WORDS = re.compile(r"[A-Za-z][\w'-]*[ ,:;]+(?:\{[^}]*\}\S* ?|[\w'=-]+[ ,:;]+)*[a-z]\w+")
LOGGED = {"debug", "info", "warning", "error", "warn_once", "print_error", "log"}


def read_messages(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and text of every sentence in a source file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    expressions = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(value) for value in expressions if isinstance(value, ast.Constant)}
    yield from _visit(tree, "note", docstrings)


def _visit(node: ast.AST, kind: str, skipped: set[int]) -> Iterator[tuple[int, str, str]]:
    if id(node) in skipped:
        return
    if isinstance(node, ast.Raise):
        kind = "error"
    elif isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        kind = "error" if name.endswith(("Error", "UndefinedMetric")) else name if name in LOGGED else kind
    elif isinstance(node, ast.keyword) and node.arg in ("help", "accepted"):
        kind = str(node.arg)
    text = _render(node)
    if text is not None and len(WORDS.findall(text)) and len(re.findall(r"[A-Za-z]{2,}", text)) >= 3:
        yield getattr(node, "lineno", 0), kind, text
    for child in ast.iter_child_nodes(node):
        if text is None or not isinstance(child, ast.Constant):
            yield from _visit(child, kind, skipped)


def _render(node: ast.AST) -> str | None:
    """Return the text of a literal; None for other nodes."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if not isinstance(node, ast.JoinedStr):
        return None
    return "".join(
        str(part.value) if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
        for part in node.values
        if isinstance(part, ast.Constant | ast.FormattedValue)
    )


def list_messages() -> Iterator[tuple[str, str, str]]:
    """Yield place, kind and text of every sentence of the product."""
    for path in sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        for line, kind, text in read_messages(path):
            yield f"{path.relative_to(ROOT)}:{line}", kind, " ".join(text.split())


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pattern", nargs="?", default="", metavar="PATTERN", help="a regular expression")
    pattern = re.compile(parser.parse_args().pattern)
    for position, kind, text in list_messages():
        if pattern.search(text):
            sys.stdout.write(f"{position}: {kind}: {text}\n")


if __name__ == "__main__":
    main()
