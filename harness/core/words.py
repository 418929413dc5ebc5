"""What a text is split into where no tokenizer of a model counts: words and characters, as their users define them."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from openended.harness.core.errors import require_package
from openended.harness.core.types import Ragged

FREQUENT_WORDS = frozenset(
    """
    about above across after again against all almost along already also although always among and another any
    anything are around away back became because become been before behind being below between both but came can
    cannot come could did didn does doesn doing done down during each either else enough even ever every everything
    for from further gave getting give given goes going gone had hadn has hasn have haven having her here hers
    herself him himself his how however instead into isn its itself just keep kept knew know known less like likely
    made make makes making many may maybe might more most much must myself nearly need neither never next none not
    nothing now off often once one only onto other others ought our ours ourselves out over own perhaps quite rather
    really said same says seem seemed seems several shall she should since some someone something sometimes soon
    still such take taken takes than that the their theirs them themselves then there these they thing things this
    those though through thus together told too took toward towards two under until unto upon use used using very
    want wants was wasn well went were weren what whatever when where whether which while who whole whom whose why
    will with within without would wouldn you your yours yourself yourselves
    """.split()
)
"""English words that say nothing of a text's topic; of three letters or more."""
Splitter = Callable[[str], Sequence[str]]


def _load_treebank() -> Splitter:
    require_package("nltk", "local")
    from nltk.tokenize import TreebankWordTokenizer

    tokenizer = TreebankWordTokenizer()
    return lambda text: list(tokenizer.tokenize(text))


def _load_icu() -> Splitter:
    describe_icu()
    import icu

    def split(text: str) -> list[str]:
        words, encoded = icu.BreakIterator.createWordInstance(icu.Locale.getRoot()), icu.UnicodeString(text)
        words.setText(encoded)  # which counts ends in UTF-16
        ends = list(words)
        return [word for start, end in zip([0, *ends], ends, strict=False) if (word := str(encoded[start:end]).strip())]

    return split


def describe_icu() -> str:
    """Return the version of ICU, whose dictionaries say where words end."""
    require_package("icu", "words")
    import icu

    return f"icu {icu.ICU_VERSION}"


SPLITTERS: Mapping[str, Callable[[], Splitter]] = {
    "words": lambda: str.split,
    "chars": lambda: lambda text: "".join(text.split()),
    "icu": _load_icu,
    "treebank": _load_treebank,
    "spaces": lambda: lambda text: text.split(" "),
    "rouge": lambda: lambda text: re.findall("[a-z0-9]+", text.lower()),
}
"""Name → what loads the function that splits a text: at white space; into characters without it; into words by ICU,
which has dictionaries of scripts without spaces; as the Penn Treebank, by NLTK; at every single space, as
the package `diversity` (two make an empty word); letters and digits of English in lower case, as `rouge_score` without
stems."""


def number_words(texts: Iterable[str], by: str = "words") -> Ragged:
    """Return ids of the words of each text, numbered by first occurrence over all texts; dense, from 0; int32."""
    ids: defaultdict[str, int] = defaultdict()
    ids.default_factory = ids.__len__  # of a new word, before it is added
    split = SPLITTERS[by]()
    return Ragged.from_rows(([*map(ids.__getitem__, split(text))] for text in texts), np.int32)
