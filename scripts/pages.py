"""Blocks that scripts write into pages, `<!-- NAME -->` … `<!-- /NAME -->`, and the Markdown tables in them."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find_block(text: str, name: str) -> re.Match[str] | None:
    """Return the match whose group 1 is the text between the marks of a block; None if the page has no such block."""
    return re.search(rf"<!-- {re.escape(name)} -->\n(.*?)<!-- /{re.escape(name)} -->", text, flags=re.DOTALL)


def replace_block(page: str, text: str, name: str, body: str) -> str:
    """Return the text of a page with another body of a block."""
    match = find_block(text, name)
    if match is None:
        raise SystemExit(f"{page}: no block <!-- {name} -->; add it and its end <!-- /{name} -->")
    return f"{text[: match.start(1)]}{body}\n{text[match.end(1) :]}"


def read_table(text: str, name: str) -> list[str]:
    """Return the lines of the table in a block, the two of its head first; none if the page has no such block."""
    match = find_block(text, name)
    return [line for line in match[1].splitlines() if line.startswith("|")] if match else []


def split_row(row: str) -> list[str]:
    """Return the cells of a line of a table."""
    return [cell.strip() for cell in row.strip().strip("|").split(" | ")]


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
