"""What may stand in a terminal, in a cell of a CSV file and in a record: texts and labels come from anywhere."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from openended.harness.types import Json

# Control characters but the line feed; marks that turn the direction of writing; separators of lines.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(text: str) -> str:
    r"""Return text that moves no cursor and changes no colour: control characters are written out, `\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    return _SURROGATE.sub(_written_out, _CONTROL.sub(_written_out, text))


def plain_line(text: str) -> str:
    """Return `plain` text on one line."""
    return plain(" ".join(text.splitlines()) if "\n" in text else text)


def _written_out(match: re.Match[str]) -> str:
    if match[0] == "\t":
        return " "
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def csv_cell(text: str) -> str:
    """Return text that no spreadsheet runs: what begins like a formula and is no number gets an apostrophe."""
    if not text.lstrip(" ").startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def homeless(value: Json) -> Json:
    """Return JSON whose texts say `~` for the user's home folder: records are published, and names with them."""
    if isinstance(value, dict):
        return {name: homeless(item) for name, item in value.items()}
    if isinstance(value, list):
        return [homeless(item) for item in value]
    found = _home()
    return found.sub("~", value) if isinstance(value, str) and found is not None else value


@cache
def _home() -> re.Pattern[str] | None:
    try:
        home = str(Path.home()).rstrip("/")
    except RuntimeError:
        return None
    # `/home/ann` is neither the start of `/home/anna` nor the end of `/mnt/home/ann`.
    return re.compile(rf"(?<![\w./~-]){re.escape(home)}(?![\w.-])") if len(home) > 1 else None
