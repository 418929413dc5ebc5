"""What may stand in a terminal, in a cell of a CSV file and in a record: texts and labels come from anywhere."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from openended.harness.core.types import Json

# Control characters but the line feed; marks that turn the direction of writing; separators of lines.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
STRUCK = "[redacted]"
# Keys that tell themselves: Hugging Face, OpenAI and its like, AWS, GitHub, Slack.
_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|xox[abprs]-[A-Za-z0-9-]{20,})"
)
# And what is long, holds letters and digits, and stands after a word for such.
_NAMED = re.compile(
    r"((?:token|key|secret|password)[\"']?\s*[=:]\s*[\"']?(?:Bearer )?)"
    r"(?=[A-Za-z+/_-]*[0-9])(?=[0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{20,}={0,2}",
    re.IGNORECASE,
)
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


def shareable(value: Json) -> Json:
    """Return JSON whose texts others may see: `~` for the user's home folder, no keys. Records are published."""
    if isinstance(value, dict):
        return {name: shareable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [shareable(item) for item in value]
    if not isinstance(value, str):
        return value
    found = _home()
    return redacted(found.sub("~", value) if found is not None else value)


def redacted(text: str) -> str:
    """Return text with what looks like somebody's key struck out."""
    return _NAMED.sub(rf"\1{STRUCK}", _KEYS.sub(STRUCK, text))


@cache
def _home() -> re.Pattern[str] | None:
    try:
        home = str(Path.home()).rstrip("/")
    except RuntimeError:
        return None
    # `/home/ann` is neither the start of `/home/anna` nor the end of `/mnt/home/ann`.
    return re.compile(rf"(?<![\w./~-]){re.escape(home)}(?![\w.-])") if len(home) > 1 else None


def escape_mathtext(text: str) -> str:
    """Return text that is drawn as it stands: dollar signs start no formula."""
    return text.replace("$", r"\$")


def unescape_mathtext(text: str) -> str:
    """Return what `escape_mathtext` was given."""
    return text.replace(r"\$", "$")
