"""Make untrusted text safe for terminals, CSV cells and records; count its words; read tokenizer files."""

import re
from collections.abc import Iterable
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from openended.harness.core.types import Json

# Control characters but the line feed; marks that turn the direction of writing; separators of lines.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSPACED_WORDS = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]{2}"
)
# Thai, Lao, Tibetan, Burmese, Khmer, Japanese and Chinese; symbols and emoji.
_SPACELESS = re.compile(
    r"[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
    r"\u2600-\u27bf\U0001f000-\U0001faff]"
)
_SPACELESS_SHARE = 0.3  # of a text's characters
_SAMPLED_TEXTS = 200
REDACTED = "[redacted]"
# Keys with a known prefix: Hugging Face, OpenAI and its like, AWS, GitHub, Slack.
_KEYS = re.compile(
    r"(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|xox[abprs]-[A-Za-z0-9-]{20,})"
)
# Long strings of letters and digits after a word such as token, key or password.
_NAMED = re.compile(
    r"((?:token|key|secret|password)[\"']?\s*[=:]\s*[\"']?(?:Bearer )?)"
    r"(?=[A-Za-z+/_-]*[0-9])(?=[0-9+/_-]*[A-Za-z])[A-Za-z0-9+/_-]{20,}={0,2}",
    re.IGNORECASE,
)
# The folders of an absolute path, which say how somebody's machine is organized; not those of an address.
_FOLDERS = re.compile(r"(?<![\w./~:…-])/(?:[^\s/'\",=:;|]+/)+([^\s/'\",=:;|]+)/?")
# A spreadsheet reads a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def parse_number(text: str) -> float:
    """Return the number that a cell of a table spells; `ValueError` for others, as `1_000` and digits beyond ASCII."""
    if "_" in text or not text.isascii():
        raise ValueError(text)
    return float(text)


def lacks_word_spaces(text: str) -> bool:
    """Return true if a text is in a script without spaces between words, or of emoji."""
    return len(_SPACELESS.findall(text)) > _SPACELESS_SHARE * len(text)


def count_unspaced_texts(texts: Iterable[str]) -> tuple[int, int]:
    """Return how many of the first texts hold words, or mostly emoji, without spaces between them, and of how many."""
    unspaced = [
        lacks_word_spaces(text) or _UNSPACED_WORDS.search(text) is not None for text in islice(texts, _SAMPLED_TEXTS)
    ]
    return sum(unspaced), len(unspaced)


def mostly_lack_spaces(texts: Iterable[str]) -> bool:
    """Return whether more than half of the first texts are in a script without spaces between words.

    It is asked of the human texts, once for both sides: their characters then stand for words.
    """
    lacking = [lacks_word_spaces(text) for text in islice(texts, _SAMPLED_TEXTS)]
    return sum(lacking) > len(lacking) / 2


def split_words(text: str, by_chars: bool) -> list[str]:
    """Return the words of a text between white space, or its characters without the white space."""
    return list("".join(text.split())) if by_chars else text.split()


def escape_controls(text: str) -> str:
    r"""Escape control characters, for example as `\x1b`, so that text cannot change the terminal."""
    if text.isascii() and text.isprintable():
        return text
    return _SURROGATE.sub(_escape, _CONTROL.sub(_escape, text))


def escape_controls_in_line(text: str) -> str:
    """Escape control characters and join the lines of a text."""
    return escape_controls(" ".join(text.splitlines()) if "\n" in text else text)


def _escape(match: re.Match[str]) -> str:
    if match[0] == "\t":
        return " "
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def escape_csv_cell(text: str) -> str:
    """Return text that no spreadsheet reads as a formula: a leading apostrophe is added where needed."""
    if not text.lstrip(" ").startswith(_FORMULA):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


SHORTENED = "…/"  # in place of the folders of a path in what is shareable: for people, no address


def make_shareable(value: Json) -> Json:
    """Return JSON that can be published, names included: `~` for the home folder, other folders and keys removed."""
    if isinstance(value, dict):
        return {str(make_shareable(name)): make_shareable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [make_shareable(item) for item in value]
    if not isinstance(value, str):
        return value
    home = _compile_home_pattern()
    text = home.sub("~", value) if home is not None else value
    return redact_keys(_FOLDERS.sub(rf"{SHORTENED}\1", text) if "/" in text else text)


def redact_keys(text: str) -> str:
    """Replace what looks like a secret key by `[redacted]`."""
    return _NAMED.sub(rf"\1{REDACTED}", _KEYS.sub(REDACTED, text))


@cache
def _compile_home_pattern() -> re.Pattern[str] | None:
    try:
        home = str(Path.home()).rstrip("/")
    except RuntimeError:
        return None
    # `/home/ann` is neither the start of `/home/anna` nor the end of `/mnt/home/ann`.
    return re.compile(rf"(?<![\w./~-]){re.escape(home)}(?![\w.-])") if len(home) > 1 else None


def escape_mathtext(text: str) -> str:
    """Escape dollar signs, so that Matplotlib reads no formula."""
    return text.replace("$", r"\$")


def take_first_words(text: str, most: int, by_chars: bool = False) -> str:
    """Return the text up to the end of its `most`-th whitespace word or character; all of it where it has no more.

    >>> take_first_words(" a b  c", 2)
    ' a b'
    """
    unit = r"\S" if by_chars else r"\S+"
    ends = [match.end() for match in islice(re.finditer(unit, text), most + 1)]
    return text if len(ends) <= most else text[: ends[most - 1]]


def read_tokenizer_file(path: Path) -> Any:  # noqa: ANN401 - a `tokenizers.Tokenizer`
    """Read a tokenizer.json without the truncation and padding of the batches it was saved after."""
    from tokenizers import Tokenizer as Fast

    inner = Fast.from_file(str(path))
    inner.no_truncation()
    inner.no_padding()
    return inner
