"""Undo the tokenization of the WritingPrompts and LM1B files: line breaks, quotes, clitics, spaces around punctuation.

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
_LM1B_RULES = (
    (re.compile(r" (?=[,;:?!](?:\s|$))"), ""),  # no space before punctuation
    (re.compile(r" (?=\.(?:\s|$))"), ""),
    (re.compile(r" (?='\w)"), ""),  # clitics
    (re.compile(r'" ([^"]+) "'), r'"\1"'),
    (re.compile(r"\( ([^()]+) \)"), r"(\1)"),
    (re.compile(r"\[ ([^\[\]]+) \]"), r"[\1]"),
    (re.compile(r" / "), "/"),
    (re.compile(r"(?<=[$£]) "), ""),
)


def detokenize(text: str) -> str:
    r"""Return a text of WritingPrompts as its author may have typed it; `<newline>` is a line break.

    >>> detokenize("`` I do n't know , '' she said . <newline> <newline> It 's late .")
    '"I don\'t know," she said.\n\nIt\'s late.'
    """
    lines = []
    for line in text.split("<newline>"):
        # Plain double quotes that stand alone: the first opens, the next closes.
        parts = re.split(r'(?<!\S)"(?!\S)', line) if ' " ' in f" {line} " else [line]
        line = parts[0]
        for i, part in enumerate(parts[1:]):
            line = f'{line.rstrip()} "{part.lstrip()}' if i % 2 == 0 else f'{line.rstrip()}"{part}'
        lines.append(_substitute(_RULES, line).strip())
    return "\n".join(lines).strip()


def strip_tag(text: str) -> str:
    """Remove the bracketed tag before a situation.

    >>> strip_tag("[ WP ] You wake up .")
    'You wake up .'
    """
    return _TAG.sub("", text)


def detokenize_lm1b(text: str) -> str:
    r"""Return a sentence of LM1B with the spaces of ordinary text around punctuation, quotes and clitics.

    >>> detokenize_lm1b('He said , " It \\'s $ 5 . "')
    'He said, "It\\'s $5."'
    """
    return _substitute(_LM1B_RULES, text)


def _substitute(rules: tuple[tuple[re.Pattern[str], str], ...], text: str) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text
