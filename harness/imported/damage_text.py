"""Damage one text: pure functions from a text and a strength from 0 to 1 to a text.

A word keeps the white space before it. Which words change does not depend on the strength beyond their number: what a
weaker damage changes, a stronger one changes too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

_PIECE = re.compile(r"\s*\S+")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*$")
FUNCTION_WORDS = frozenset(
    "a an the and or but if of to in on at by for with from as into than then that this these those it its they them "
    "their there he she his her him you your we our us i my me is are was were be been being am do does did has have "
    "had not no so such which who whom whose when where while will would can could may might must shall should".split()
)
_NEGATED = frozenset(
    "is are was were be been can could will would should may might must does do did has have had".split()
)
_PARTS = {"begin": 0, "middle": 1, "end": 2}


@dataclass(frozen=True, slots=True)
class Source:
    """What a damage of one text draws from."""

    prompt: str
    next_text: str
    """Another text of the corpus."""
    words: Sequence[str]
    """Words of the corpus, as often as it has them."""


TextDamage = Callable[[list[str], float, np.random.Generator, Source], list[str]]


def split_words(text: str) -> list[str]:
    """Return the words of a text, each with the white space before it."""
    return _PIECE.findall(text)


def truncate(words: list[str], strength: float, _rng: np.random.Generator, _source: Source) -> list[str]:
    """Drop words from the end; one is left."""
    return words[: max(1, len(words) - round(strength * len(words)))]


def lengthen(words: list[str], strength: float, _rng: np.random.Generator, source: Source) -> list[str]:
    """Append the start of another text."""
    return words + split_words(" " + source.next_text.lstrip())[: round(strength * len(words))]


def repeat_words(words: list[str], strength: float, rng: np.random.Generator, _source: Source) -> list[str]:
    """Write words twice; the text keeps its number of words."""
    twice = rng.random(len(words)) < strength
    out = [word for word, again in zip(words, twice, strict=True) for _ in range(1 + int(again))]
    return out[: len(words)]


def repeat_sentence(words: list[str], strength: float, _rng: np.random.Generator, _source: Source) -> list[str]:
    """Replace the end of the text by copies of its first sentence."""
    ends = [at + 1 for at, word in enumerate(words) if _SENTENCE_END.search(word)]
    first = words[: ends[0]] if ends and ends[0] < len(words) else words[: max(1, len(words) // 3)]
    length = max(len(words) - round(strength * len(words)), len(first))
    copies = [_copy_space(" x", first[0]), *first[1:]] * (len(words) // len(first) + 1) if first else []
    return words[:length] + copies[: len(words) - length]


def swap_words(words: list[str], strength: float, rng: np.random.Generator, part: str) -> list[str]:
    """Put words of one third of the text in random order."""
    positions = _choose(words, strength, rng, part)
    out = list(words)
    for at, other in zip(positions, np.roll(positions, 1), strict=True):
        out[at] = _copy_space(words[at], words[other])
    return out


def replace_words(words: list[str], strength: float, rng: np.random.Generator, source: Source, part: str) -> list[str]:
    """Replace words of one third of the text by random words of the corpus."""
    positions = _choose(words, strength, rng, part)
    samples = rng.integers(len(source.words), size=len(words))
    out = list(words)
    for at in positions:
        out[at] = _copy_space(words[at], source.words[int(samples[at])])
    return out


def _choose(words: Sequence[str], strength: float, rng: np.random.Generator, part: str) -> list[int]:
    """Return random positions in a third of the text, a share of them."""
    bounds = [len(words) * number // 3 for number in range(4)]
    start, end = bounds[_PARTS[part]], bounds[_PARTS[part] + 1]
    order = rng.permutation(end - start) + start
    return [int(at) for at in order[: round(strength * len(order))]]


def delete_function_words(words: list[str], strength: float, rng: np.random.Generator, _source: Source) -> list[str]:
    """Delete articles, prepositions, pronouns and auxiliary verbs."""
    draws = rng.random(len(words))
    selected = [
        word
        for word, draw in zip(words, draws, strict=True)
        if not (word.strip().lower() in FUNCTION_WORDS and draw < strength)
    ]
    return selected or words[:1]


def negate(words: list[str], strength: float, rng: np.random.Generator, _source: Source) -> list[str]:
    """Write "not" after auxiliary verbs, or take it away where it is."""
    draws = rng.random(len(words))
    out: list[str] = []
    skip = False
    for at, (word, draw) in enumerate(zip(words, draws, strict=True)):
        if skip:
            skip = False
            continue
        out.append(word)
        if word.strip().lower() in _NEGATED and draw < strength:
            skip = at + 1 < len(words) and words[at + 1].strip().lower() == "not"
            out += [] if skip else [" not"]
    return out


def copy_prompt(words: list[str], strength: float, _rng: np.random.Generator, source: Source) -> list[str]:
    """Replace the start of the text by words of the prompt."""
    prompt = [_copy_space(" x", word) for word in split_words(source.prompt)]
    count = round(strength * len(words))
    return (prompt * (count // max(len(prompt), 1) + 1))[:count] + words[count:]


def _copy_space(word: str, other: str) -> str:
    """Return the other word with the white space before this one."""
    return word[: len(word) - len(word.lstrip())] + other.strip()


def _bind_swap(part: str) -> TextDamage:
    return lambda words, strength, rng, _source: swap_words(words, strength, rng, part)


def _bind_replace(part: str) -> TextDamage:
    return lambda words, strength, rng, source: replace_words(words, strength, rng, source, part)


TEXT_DAMAGES: dict[str, TextDamage] = {
    "truncation": truncate,
    "longer": lengthen,
    "repeated_words": repeat_words,
    "repeated_sentence": repeat_sentence,
    **{f"swaps_{part}": _bind_swap(part) for part in _PARTS},
    **{f"random_{part}": _bind_replace(part) for part in _PARTS},
    "no_function_words": delete_function_words,
    "negation": negate,
    "copied_prompt": copy_prompt,
}
"""Name of a damage → its function."""
