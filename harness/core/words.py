"""What a text is split into where no tokenizer of a model counts: words and characters, as their users define them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from openended.harness.core.errors import require_package
from openended.harness.core.types import Ragged

Splitter = Callable[[str], Sequence[str]]


def _load_treebank() -> Splitter:
    require_package("nltk", "local")
    from nltk.tokenize import TreebankWordTokenizer

    tokenizer = TreebankWordTokenizer()
    return lambda text: list(tokenizer.tokenize(text))


SPLITTERS: Mapping[str, Callable[[], Splitter]] = {
    "words": lambda: str.split,
    "chars": lambda: lambda text: "".join(text.split()),
    "treebank": _load_treebank,
    "spaces": lambda: lambda text: text.split(" "),
    "rouge": lambda: lambda text: re.findall("[a-z0-9]+", text.lower()),
}
"""Name → what loads the function that splits a text: at white space; into characters without it; as the Penn Treebank,
by NLTK; at every single space, as the package `diversity` (two make an empty word); letters and digits of English in
lower case, as `rouge_score` without stems."""


def number_words(texts: Iterable[str], by: str = "words") -> Ragged:
    """Return ids of the words of each text, numbered by first occurrence over all texts; dense, from 0; int32."""
    ids: dict[str, int] = {}
    split = SPLITTERS[by]()
    return Ragged.from_rows(([ids.setdefault(word, len(ids)) for word in split(text)] for text in texts), np.int32)
