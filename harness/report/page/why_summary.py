"""Say in one sentence why a score is low, and name the cells of MAUVE by their typical words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

MAX_TEXTS = 500  # of a source, for the frequency of words
TYPICAL_WORDS = 3
MAX_SHARE = 0.15  # share of all texts; a word that occurs in more of them is typical of none
QUOTED_WORDS = 8
_WORD = re.compile(r"[^\W\d_]{3,}")


def find_words(text: str) -> set[str]:
    """Return the distinct words of a text in lower case, without numbers and short words."""
    return set(_WORD.findall(text.lower()))


def count_words(texts: Sequence[str]) -> Counter[str]:
    """Count in how many of the first texts each word occurs."""
    return Counter(word for text in islice(texts, MAX_TEXTS) for word in find_words(text))


def find_typical_words(texts: Sequence[str], counts: Mapping[str, int], total: int) -> list[str]:
    """Return the words that occur in several of these texts and in few of all.

    A word's weight is the number of these texts that have it times log(total / number of all texts that have it).
    """
    shared = {word: n for word, n in Counter(w for text in texts for w in find_words(text)).items() if n > 1}
    weights = {word: n * math.log(total / min(max(counts.get(word, 1), 1), total)) for word, n in shared.items()}
    least = math.log(1 / MAX_SHARE)
    rare = [word for word, n in shared.items() if weights[word] >= n * least]
    return sorted(rare, key=lambda word: (-weights[word], word))[:TYPICAL_WORDS]


def quote_beginning(text: str) -> str:
    """Return the first words of a text in quotation marks."""
    words = text.split()
    return f"“{' '.join(words[:QUOTED_WORDS])}{'…' if len(words) > QUOTED_WORDS else ''}”"


def summarize_cells(system: str, value: float, cells: Sequence[Mapping[str, Any]], quote: str) -> str:
    """Say what the score loses and which cell shows most of it."""
    cell = find_worst_cell(cells)
    loses = f"{system} loses {1 - value:.2f} (MAUVE {value:.2f})" if math.isfinite(value) else system
    human, model = (f"{100 * cell[side]:.0f} %" for side in ("human", "model"))
    if cell["model"] > cell["human"]:
        mostly = f", for example {quote}" if quote else ""
        return f"{loses}: {model} of its texts fall into a cell with {human} of the human text{mostly}."
    return f"{loses}: only {model} of its texts fall into a cell with {human} of the human text."


def find_worst_cell(cells: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the cell that the model fills most beyond the human text; without one, that which it misses most."""
    return max(cells, key=lambda cell: (cell["model"] > cell["human"], abs(cell["model"] - cell["human"])))


def summarize_missed(system: str, missed: Mapping[str, Mapping[str, Any]], quotes: Mapping[str, str]) -> str:
    """Say how many texts precision and recall miss."""
    words = {
        "model": ("of its texts have no human text nearby", "precision"),
        "human": ("human texts have no text of it nearby", "recall"),
    }
    parts = [
        f"{missed[side]['count']} {text} ({metric}){f', such as {quotes[side]}' if quotes.get(side) else ''}"
        for side, (text, metric) in words.items()
        if side in missed
    ]
    return f"{system}: {'; '.join(parts)}."
