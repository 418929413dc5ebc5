"""Undo the tokenization of the WritingPrompts files: line breaks, quotes, clitics, spaces around punctuation.

Not every space can be known again (`can not`, nested quotes); what is uncertain stays as it is.
"""

from __future__ import annotations

import re

_TAG = re.compile(r"^\s*\[\s*[A-Za-z]{2,4}\s*\]\s*")
_RULES = (
    (re.compile(r"\s*``\s*"), ' "'),  # opens: nothing between it and the word that follows
    (re.compile(r"\s*''"), '"'),  # closes
    (re.compile(r"(?i)(?<=[a-z]) (n't)\b"), r"\1"),
    (re.compile(r"(?i)(?<=\w) ('(?:s|re|ve|ll|d|m))\b"), r"\1"),
    (re.compile(r"(?i)\b(gon|wan) (na)\b"), r"\1\2"),
    (re.compile(r"(?i)\b(got|gim) (ta|me)\b"), r"\1\2"),
    (re.compile(r" +([,;:!?%)\]}]|\.+(?!\w))"), r"\1"),
    (re.compile(r"([(\[{$#]) +"), r"\1"),
    (re.compile(r" {2,}"), " "),
)  # fmt: skip


def detokenize(text: str) -> str:
    r"""Return the text as its author may have typed it; `<newline>` is a line break.

    >>> detokenize("`` I do n't know , '' she said . <newline> <newline> It 's late .")
    '"I don\'t know," she said.\n\nIt\'s late.'
    """
    return "\n".join(_detokenize_line(line) for line in text.split("<newline>")).strip()


def strip_tag(text: str) -> str:
    """Remove the bracketed tag before a situation.

    >>> strip_tag("[ WP ] You wake up .")
    'You wake up .'
    """
    return _TAG.sub("", text)


def _detokenize_line(line: str) -> str:
    line = _pair_quotes(line)
    for pattern, replacement in _RULES:
        line = pattern.sub(replacement, line)
    return line.strip()


def _pair_quotes(line: str) -> str:
    """Attach plain double quotes that stand alone: the first opens, the next closes."""
    if ' " ' not in f" {line} ":
        return line
    parts = re.split(r'(?<!\S)"(?!\S)', line)
    out = parts[0]
    for i, part in enumerate(parts[1:]):
        out = f'{out.rstrip()} "{part.lstrip()}' if i % 2 == 0 else f'{out.rstrip()}"{part}'
    return out
