"""Natural sentences out of a docstring: code, tables, lists and parameter sections are left behind.

A reader of lines (`prose_paragraphs`) drops what is laid out as something other than prose; a check
of the words (`_is_prose`) drops what remains of it. Both are heuristics and prefer losing a sentence
of prose to keeping a line of code.
"""

from __future__ import annotations

import re
from typing import Final

# Sections, of NumPy or Google style, whose content is a list of names, code or citations.
_DROPPED_SECTIONS: Final = frozenset(
    {
        "parameters", "other parameters", "params", "args", "arguments", "keyword arguments",
        "keyword args", "kwargs", "optional arguments", "returns", "return", "return values",
        "yields", "yield", "receives", "raises", "warns", "exceptions", "attributes", "methods",
        "properties", "members", "variables", "fields", "see also", "references", "reference",
        "example", "usage", "inputs", "input", "outputs", "output", "shape", "shapes",
        "classes", "functions", "constants", "public functions", "public classes", "authors",
        "author", "citation", "bibtex", "contents", "todo", "call arguments", "input shape",
        "output shape", "required arguments",
    }
)  # fmt: skip
_UNDERLINE: Final = re.compile(r"\s*([=\-~^\"'`#*+.])\1{2,}\s*$")
_TITLE: Final = re.compile(r"\s*([A-Za-z][A-Za-z ]{1,30}):\s*$")
# Directive, field list, table border, list item, doctest, comment, Markdown fence or heading: with
# what is indented under them they are no prose.
_NO_PROSE: Final = re.compile(
    r"\s*(\.\.(\s|$)|[:@]\w[^`]*?:(\s|$)|[+|]|[-*•]\s|\(?(\d+|[a-zA-Z#])[.)]\s|>>>|\.\.\. |In \[|\$ |#|```|~~~)"
)
# An admonition holds prose: its indented body is read as if it stood at the margin.
_ADMONITION: Final = re.compile(
    r"\s*(?:\.\. )?(?:notes?|warnings?|tip|important|caution|attention|hint|remarks?|description)"
    r"(?P<mark>::?)\s*(?P<text>.*)$",
    re.IGNORECASE,
)
# A parameter at the margin: `x : array_like`, `name (str): text`, `name -- text`.
_ENTRY: Final = re.compile(r"\s*`{0,2}\*{0,2}[\w.]+(, ?[\w.]+)*`{0,2} ?(\([^)]*\))?( :|:\s|\s+--?\s)")

_MARKUP: Final = (
    (re.compile(r"\s*\[[\w#*]+\]_"), ""),  # footnote mark
    (re.compile(r"\[`?([^\]`]+)`?\]\((?:[^)]*)\)"), r"\1"),  # Markdown link
    (re.compile(r"\[`([^\]`]+)`\]"), r"\1"),  # reference of the Transformers docs
    (re.compile(r":[\w:+-]+:`([^`<]+?)\s*<[^`>]*>`"), r"\1"),  # role with a title
    (re.compile(r":[\w:+-]+:`[~!]?([^`]*)`"), r"\1"),  # role
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{1,2}"), r"\1"),  # link
    (re.compile(r"``[~!]?(.+?)``"), r"\1"),  # literal
    (re.compile(r"`[~!]?([^`]+)`_{0,2}"), r"\1"),  # interpreted text
    (re.compile(r"(?<![\w*])\*\*(?=\S)([^*]+?)(?<=\S)\*\*(?![\w*])"), r"\1"),  # bold
    (re.compile(r"(?<![\w*])\*(?=\S)([^*]+?)(?<=\S)\*(?![\w*])"), r"\1"),  # italics
    (re.compile(r"\s+"), " "),
)
_WORD: Final = re.compile(r"[(\"'\[]*[A-Za-z]+(?:['’/-][A-Za-z]+)*[)\"'\]]*[.,;:!?]*[)\"']*")
_SENTENCE_END: Final = re.compile(r"[.!?][)\"']*(?=\s|$)")
_FORBIDDEN: Final = re.compile(r">>>|::|[\\|$`]|={2}|-{3}|\.{4}|https?:|www\.|[^\x20-\x7e’“”–—é]")
_MIN_WORDS: Final = 4
_MIN_WORD_SHARE: Final = 0.7


def prose_paragraphs(docstring: str) -> list[str]:
    r"""Return the prose paragraphs of a docstring, each on one line and without markup.

    >>> prose_paragraphs("Return the *sum*\nof ``a``.\n\nParameters\n----------\na : int\n    Left.")
    ['Return the sum of a.']
    """
    reader = _Reader()
    lines = docstring.expandtabs().splitlines()
    for line, following in zip(lines, [*lines[1:], ""], strict=False):
        reader.feed(line, underlined=_UNDERLINE.match(following) is not None)
    reader.flush()
    return reader.paragraphs


class _Reader:
    """Collects the paragraphs at the margin of a docstring, line by line."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self._buffer: list[str] = []
        self._in_dropped_section = False
        self._in_code = False
        # Lines indented deeper than this belong to something that is no prose.
        self._owner: int | None = None
        self._margin = 0
        self._margin_moves = False

    def feed(self, line: str, *, underlined: bool) -> None:
        """Take the next line; `underlined` is true if the next line is a rule."""
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            self.flush()
            self._in_code = False
        elif self._in_code or (self._owner is not None and indent > self._owner):
            return
        elif admonition := _ADMONITION.match(line):
            self._open_admonition(indent, admonition["text"])
        elif underlined or _TITLE.match(line):
            self._open_section(line, indent, underlined=underlined)
        else:
            self._owner = None
            self._feed_text(line, indent)

    def _open_section(self, line: str, indent: int, *, underlined: bool) -> None:
        title = line.strip().rstrip(":").lower()
        if not underlined and title not in _DROPPED_SECTIONS:
            self._feed_text(line, indent)
            return
        self.flush()
        if underlined:
            self._in_dropped_section = title in _DROPPED_SECTIONS
            self._owner, self._margin = None, indent
        else:
            # A Google section ends with its indentation, a NumPy one with the next title.
            self._owner = indent

    def _open_admonition(self, indent: int, text: str) -> None:
        self.flush()
        self._owner, self._margin = None, indent
        # The margin of the body shows only at its first line.
        self._margin_moves = True
        if text:
            self._buffer.append(text.strip())

    def _feed_text(self, line: str, indent: int) -> None:
        if self._margin_moves or indent < self._margin:
            if indent < self._margin:
                self.flush()
            self._margin, self._margin_moves = indent, False
        if _UNDERLINE.match(line):
            self.flush()
        elif _NO_PROSE.match(line) or (not self._buffer and _ENTRY.match(line)):
            self._in_code = line.lstrip().startswith((">>>", "```"))
            self._drop(indent)
        elif indent > self._margin and self._buffer:
            # A definition list, a quotation or code, together with the term that it belongs to.
            self._drop(self._margin)
        elif not self._in_dropped_section:
            # After a blank line a deeper margin is a quotation, or code that the word check drops.
            self._margin = indent
            self._buffer.append(line.strip())
            if line.rstrip().endswith("::"):
                self.flush()
                self._owner = indent

    def _drop(self, indent: int) -> None:
        self.flush()
        self._owner = indent

    def flush(self) -> None:
        """End the current paragraph and keep it if it is prose."""
        text = _clean(" ".join(self._buffer))
        self._buffer.clear()
        if _is_prose(text):
            self.paragraphs.append(text)


def _clean(text: str) -> str:
    """Remove markup, and the last sentence if it only leads to what has been dropped."""
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    text = text.strip()
    if text.endswith(":"):
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else ""
    return text


def _is_prose(text: str) -> bool:
    """Return whether a line of text consists of complete sentences of words."""
    words = text.split()
    if len(words) < _MIN_WORDS or not (text[0].isupper() or text[0] == '"'):
        return False
    if _FORBIDDEN.search(text) or text.rstrip("\"')")[-1:] not in (".", "!", "?"):
        return False
    plain = sum(_WORD.fullmatch(word) is not None for word in words)
    return plain >= _MIN_WORD_SHARE * len(words)
