"""34 surface features of a text, after the suite of dLMbench, with word lists of our own.

Words are letters followed by letters, digits or apostrophes, or numbers. Segments end after . ! ? or at a line break;
those over 48 words are cut to pieces of 24, a text with one segment to pieces of about 24 words; at most 32 count. A
content word has at least four letters and is in no list of frequent words. Discourse markers have seven classes.

Source: the public code of dLMbench (samplebench) describes the features; the word lists and the code here are our own.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from openended.harness.core import F64, FREQUENT_WORDS

PRONOUNS = frozenset(
    """
    i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself we us
    our ours ourselves they them their theirs themselves this that these those
    """.split()
)
MARKERS: dict[str, tuple[str, ...]] = {
    "contrast": ("but", "however", "although", "though", "yet", "whereas", "nevertheless", "despite", "instead"),
    "cause": ("because", "therefore", "thus", "hence", "since", "consequently", "so"),
    "temporal": ("then", "before", "after", "when", "while", "meanwhile", "later", "finally", "until", "once"),
    "addition": ("and", "also", "moreover", "furthermore", "besides", "additionally", "too"),
    "condition": ("if", "unless", "otherwise", "provided", "whether", "assuming"),
    "example": ("instance", "example", "namely", "specifically", "particularly", "e.g"),
    "conclusion": ("overall", "conclusion", "summary", "ultimately", "altogether", "indeed"),
}
CLASS_OF = {word: number for number, words in enumerate(MARKERS.values()) for word in words}
_NAMES = """
log_words segments segment_length segment_length_std content_rate distinct_content content_in_two_segments longest_chain
segments_with_repeat jaccard jaccard_std jaccard_min jaccard_first_last capitalized_rate capitalized_recur pronoun_rate
pronouns_per_referent pronoun_first marker_rate marker_entropy transition_entropy segments_with_marker
segments_starting_with_marker quotes_per_character commas_per_word colons_per_word blank_lines_per_segment
"""
NAMES = (*_NAMES.split(), *(f"{name}_rate" for name in MARKERS))
_WORD = re.compile(r"[^\W\d_][\w']*|\d+")
_BREAK = re.compile(r"(?<=[.!?])\s+|\n+")
_LONG, _PIECE, _MOST = 48, 24, 32


def surface_features(texts: Iterable[str]) -> F64:
    """Return the features of texts, shape (n, 34), columns as in `NAMES`."""
    return np.array([_compute_features(text) for text in texts], dtype=np.float64).reshape(-1, len(NAMES))


def _split_pieces(words: list[str]) -> list[list[str]]:
    return [words[i : i + _PIECE] for i in range(0, len(words), _PIECE)]


def _is_content(word: str) -> bool:
    return len(word) >= 4 and word[0].isalpha() and word not in FREQUENT_WORDS


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _compute_entropy(counts: Iterable[int]) -> float:
    values = np.array([c for c in counts if c], dtype=np.float64)
    p = values / values.sum() if len(values) else values
    return float(-(p * np.log(p)).sum()) + 0.0


def _compute_features(text: str) -> list[float]:
    segments = [words for part in _BREAK.split(text) if (words := _WORD.findall(part))]
    if len(segments) == 1:
        segments = _split_pieces(segments[0])
    segments = [piece for words in segments for piece in (_split_pieces(words) if len(words) > _LONG else [words])]
    segments = segments[:_MOST]
    words = [word for segment in segments for word in segment]
    lower = [[word.lower() for word in segment] for segment in segments]
    n, count = len(words), len(segments)
    lengths = np.array([len(segment) for segment in segments] or [0])
    markers = [[CLASS_OF[word] for word in segment if word in CLASS_OF] for segment in lower]
    by_class = Counter(m for segment in markers for m in segment)
    # The dominant class of each segment, whose changes between neighbors count.
    dominant = [Counter(segment).most_common(1)[0][0] if segment else -1 for segment in markers]
    changes = Counter(pairwise(dominant)).values()
    quotes, blank_lines = sum(text.count(mark) for mark in '"“”'), len(re.findall(r"\n\s*\n", text))
    return [
        *(float(np.log1p(n)), float(count), float(lengths.mean()), float(lengths.std())),
        *_measure_cohesion(lower, n),
        *_measure_reference(segments, lower, n),
        *(_divide(sum(by_class.values()), n), _compute_entropy(by_class.values()), _compute_entropy(changes)),
        *(_divide(k, count) for k in (sum(map(bool, markers)), sum(segment[0] in CLASS_OF for segment in lower))),
        *(_divide(quotes, len(text)), _divide(text.count(","), n), _divide(text.count(";") + text.count(":"), n)),
        *(_divide(blank_lines, count), *(_divide(by_class[number], n) for number in range(len(MARKERS)))),
    ]


def _measure_cohesion(segments: Sequence[Sequence[str]], n: int) -> list[float]:
    """Return content-word rate, distinct content words, chains over segments and overlap of neighbors."""
    content = [[word for word in segment if _is_content(word)] for segment in segments]
    total, sets = sum(map(len, content)), [set(words) for words in content]
    counts = Counter(word for words in sets for word in words)
    jaccard = np.array([_compute_jaccard(a, b) for a, b in pairwise(sets)] or [0.0])
    seen: set[str] = set()
    repeats = 0
    for words in sets:
        repeats += bool(words & seen)
        seen |= words
    in_two = _divide(sum(c > 1 for c in counts.values()), len(counts))
    chains = (_divide(count, len(segments)) for count in (max(counts.values(), default=0), repeats))
    overlap = (float(jaccard.mean()), float(jaccard.std()), float(jaccard.min()))
    first_last = _compute_jaccard(sets[0], sets[-1]) if len(sets) > 1 else 0.0
    return [_divide(total, n), _divide(len(counts), total), in_two, *chains, *overlap, first_last]


def _compute_jaccard(a: set[str], b: set[str]) -> float:
    return _divide(len(a & b), len(a | b))


def _measure_reference(segments: Sequence[Sequence[str]], lower: Sequence[Sequence[str]], n: int) -> list[float]:
    capitalized = Counter(word for segment in segments for word in segment if word[0].isupper())
    pronouns = sum(word in PRONOUNS for segment in lower for word in segment)
    content = {word for segment in lower for word in segment if _is_content(word)}
    # Segments in which a pronoun comes before any content word.
    first = sum(next((w in PRONOUNS for w in words if w in PRONOUNS or _is_content(w)), False) for words in lower)
    recurring, referents = sum(c > 1 for c in capitalized.values()), len(content) + len(capitalized)
    shares = [(capitalized.total(), n), (recurring, len(capitalized)), (pronouns, n), (pronouns, referents)]
    return [_divide(part, whole) for part, whole in (*shares, (first, len(segments)))]
