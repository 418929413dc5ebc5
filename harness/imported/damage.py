"""Damaged human texts: the system under test is human text with one kind of damage at one strength.

| `generations=` | every text, or a share of the texts, is |
| --- | --- |
| `damage:truncation:25` | cut by 25 % of its words |
| `damage:longer:25` | 25 % longer, by the start of another text |
| `damage:repeated_words:25` | with 25 % of its words twice |
| `damage:repeated_sentence:25` | with copies of its first sentence as its last 25 % |
| `damage:swaps_begin:25`, `swaps_middle`, `swaps_end` | with 25 % of the words of a third in random order |
| `damage:random_begin:25`, `random_middle`, `random_end` | with 25 % of the words of a third replaced by random ones |
| `damage:no_function_words:25` | without 25 % of its function words |
| `damage:negation:25` | negated at 25 % of its auxiliary verbs |
| `damage:copied_prompt:25` | with words of its prompt as its first 25 % |
| `damage:duplicates:25` | a copy of another text |
| `damage:dropped_topic:25` | without 25 % of the largest topic; copies of other texts in their place |
| `damage:invented_topic:25` | with 25 % of the largest topic in other, invented terms |
| `damage:other_text:25` | text of another source: Python's language reference |
| `damage:naive_unigram:25`, `naive_periodic`, `naive_shuffled` | text of a naive system |
| `damage:none` | undamaged |

The texts are human texts of the task that are not compared, with their prompts. A damaged text depends only on seed,
example, strength and these texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from openended.harness.core import DataError, SpecError, digest, make_random_stream, suggest
from openended.harness.imported.damage_text import FUNCTION_WORDS, TEXT_DAMAGES, Source, split_words
from openended.harness.imported.naive import NaiveSystem, NaiveTexts, parse_naive_system

PREFIX = "damage:"
NONE = "none"
_TOPICS = 5
_BLOCK = 50  # neighboring words by frequency, among which an invented topic exchanges them
_NAIVE = {"naive_unigram": 64, "naive_periodic": 16, "naive_shuffled": None}


@dataclass(frozen=True, slots=True)
class Damage:
    """A kind of damage and its strength."""

    kind: str
    percent: int

    @property
    def strength(self) -> float:
        """Share of the words, or of the texts, in [0, 1]."""
        return self.percent / 100


@dataclass(frozen=True, slots=True)
class HumanTexts:
    """Human texts that are damaged."""

    ids: Sequence[str]
    prompts: Sequence[str]
    texts: Sequence[str]


def list_damages() -> tuple[str, ...]:
    """Return the names of all kinds of damage."""
    return (*TEXT_DAMAGES, *_CORPUS_DAMAGES)


def parse_damage(name: str) -> Damage | None:
    """Return the damage of the option `generations`; None if it names something else.

    Raises:
        SpecError: If there is no such damage, or its strength is not a percentage from 1.
    """
    if not name.startswith(PREFIX):
        return None
    kind, _, percent = name.removeprefix(PREFIX).partition(":")
    if kind not in (NONE, *list_damages()):
        raise SpecError(f"generations={name}: no damage {kind!r}{suggest(kind, list_damages())}")
    if kind == NONE and not percent:
        return Damage(NONE, 0)
    if kind == NONE or not percent.isdecimal() or not 1 <= int(percent) <= 100:
        expected = "no strength" if kind == NONE else "a strength in percent, 1 to 100,"
        raise SpecError(f"generations={name}: expected {expected} after {PREFIX}{kind}, got {percent!r}")
    return Damage(kind, int(percent))


def is_built_in_system(name: str) -> bool:
    """Say whether the option `generations` names a naive system or a damage, not a file."""
    return parse_naive_system(name) is not None or parse_damage(name) is not None


def digest_source(damage: Damage) -> str | None:
    """Return the digest of text that a damage reads beside the human texts; None for most."""
    return digest(_load_language_reference()) if damage.kind == "other_text" else None


def damage_texts(damage: Damage, human: HumanTexts, seed: int) -> list[str]:
    """Return the damaged texts, one for each text.

    Args:
        damage: Kind and strength.
        human: The texts, with their prompts.
        seed: Of the run.

    Raises:
        SpecError: If the damage needs prompts and there are none.
    """
    if damage.kind == NONE or not human.texts:
        return list(human.texts)
    if damage.kind in _CORPUS_DAMAGES:
        return _CORPUS_DAMAGES[damage.kind](damage, human, seed)
    if damage.kind == "copied_prompt" and not all(human.prompts):
        raise SpecError("generations=damage:copied_prompt: the task has no prompts; leave it out (damage=…)")
    change, corpus, out = TEXT_DAMAGES[damage.kind], split_words(" ".join(human.texts)), []
    for at, (example, prompt, text) in enumerate(zip(human.ids, human.prompts, human.texts, strict=True)):
        source = Source(prompt, human.texts[(at + 1) % len(human.texts)], corpus)
        rng = make_random_stream(seed, "damage", damage.kind, example)
        out.append("".join(change(split_words(text), damage.strength, rng, source)))
    return out


def _choose(damage: Damage, seed: int, among: Sequence[int]) -> list[int]:
    """Return a share of some texts in random order."""
    order = make_random_stream(seed, "damage", damage.kind).permutation(len(among))
    return [among[int(at)] for at in order[: round(damage.strength * len(among))]]


def _duplicate(damage: Damage, human: HumanTexts, seed: int) -> list[str]:
    """Replace texts by copies of the others; at 100 % all are copies of one."""
    chosen = _choose(damage, seed, range(len(human.texts)))
    left = sorted(set(range(len(human.texts))) - set(chosen)) or chosen[-1:]
    return _replace_by_copies(damage, human, seed, chosen, left)


def _drop_topic(damage: Damage, human: HumanTexts, seed: int) -> list[str]:
    """Replace texts of the largest topic by copies of texts of the other topics."""
    topic, others = _split_by_topic(human, seed)
    return _replace_by_copies(damage, human, seed, _choose(damage, seed, topic), others)


def _replace_by_copies(
    damage: Damage, human: HumanTexts, seed: int, chosen: Sequence[int], sources: Sequence[int]
) -> list[str]:
    """Replace the chosen texts by copies of the sources, each as often as the others."""
    order = make_random_stream(seed, "damage", damage.kind, "copies").permutation(len(sources))
    out = list(human.texts)
    for number, at in enumerate(chosen):
        out[at] = human.texts[sources[int(order[number % len(order)])]]
    return out


def _invent_topic(damage: Damage, human: HumanTexts, seed: int) -> list[str]:
    """Write texts of the largest topic in terms of an invented one: each content word is always the same other word."""
    out, terms = list(human.texts), _exchange_words(human.texts, seed)
    for at in _choose(damage, seed, _split_by_topic(human, seed)[0]):
        words = split_words(human.texts[at])
        out[at] = "".join(word[: -len(word.strip())] + terms.get(word.strip(), word.strip()) for word in words)
    return out


def _exchange_words(texts: Sequence[str], seed: int) -> dict[str, str]:
    """Return for each content word another one that is about as frequent."""
    names, counts = np.unique([word.strip() for word in split_words(" ".join(texts))], return_counts=True)
    content = np.array([name.isalpha() and name.lower() not in FUNCTION_WORDS for name in names.tolist()])
    names, counts = names[content], counts[content]
    ranked = names[np.lexsort((names, -counts))]
    rng, terms = make_random_stream(seed, "damage", "terms"), dict[str, str]()
    for start in range(0, len(ranked), _BLOCK):
        block = ranked[start : start + _BLOCK]
        terms |= dict(zip(block.tolist(), block[rng.permutation(len(block))].tolist(), strict=True))
    return terms


def _split_by_topic(human: HumanTexts, seed: int) -> tuple[list[int], list[int]]:
    """Return the texts of the largest of five topics, and all others; k-means on words by TF-IDF."""
    from scipy.cluster.vq import kmeans2

    bags = [{w.lower().strip(".,;:()[]`'\"") for w in text.split()} - FUNCTION_WORDS for text in human.texts]
    words, seen = np.unique(list(chain.from_iterable(bags)), return_counts=True)
    vocabulary = words[(seen >= 3) & (seen <= len(bags) / 5)]
    if len(vocabulary) < 2 or len(bags) < 2 * _TOPICS:
        half = len(bags) // 2
        return list(range(half)), list(range(half, len(bags)))
    weights = np.log(len(bags) / seen[np.searchsorted(words, vocabulary)])
    rows = np.array([[word in bag for word in vocabulary.tolist()] for bag in bags]) * weights
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    labels = kmeans2(rows, _TOPICS, minit="++", seed=seed, missing="warn")[1]
    largest = int(np.bincount(labels).argmax())
    topic = [int(at) for at in np.flatnonzero(labels == largest)]
    return topic, [int(at) for at in np.flatnonzero(labels != largest)] or topic


def _mix_other_text(damage: Damage, human: HumanTexts, seed: int) -> list[str]:
    """Replace texts by text of Python's language reference, of as many words."""
    words = split_words(" " + " ".join(_load_language_reference()))
    start, out = 0, list(human.texts)
    for at in _choose(damage, seed, range(len(out))):
        count = len(split_words(out[at]))
        start = start if start + count <= len(words) else 0
        out[at], start = "".join(words[start : start + count]), start + count
    return out


def _load_language_reference() -> list[str]:
    """Return the paragraphs of prose of the help that comes with Python."""
    try:
        from pydoc_data.topics import topics
    except ImportError as err:
        raise DataError(
            "generations=damage:other_text: this Python has no pydoc_data; leave it out (damage=…)"
        ) from err
    paragraphs = [part for name in sorted(topics) for part in topics[name].split("\n\n")]
    prose = (part for part in paragraphs if part[:1].isupper() and len(part.split()) >= 25)
    return [" ".join(part.split()) for part in prose]


def _mix_naive(damage: Damage, human: HumanTexts, seed: int) -> list[str]:
    """Replace texts by those of a naive system that learned from all of them."""
    numbers: dict[str, int] = {}
    training = [[numbers.setdefault(word, len(numbers)) for word in text.split()] for text in human.texts]
    system = NaiveSystem(damage.kind.removeprefix("naive_"), _NAIVE[damage.kind])
    naive = NaiveTexts(system, [row for row in training if row], seed, None, list(numbers))
    out = list(human.texts)
    for at in _choose(damage, seed, range(len(out))):
        text = human.texts[at]
        out[at] = text[: len(text) - len(text.lstrip())] + naive.make_text(at, human.ids[at], len(training[at]))
    return out


_CORPUS_DAMAGES: dict[str, Callable[[Damage, HumanTexts, int], list[str]]] = {
    "duplicates": _duplicate,
    "dropped_topic": _drop_topic,
    "invented_topic": _invent_topic,
    "other_text": _mix_other_text,
    **dict.fromkeys(_NAIVE, _mix_naive),
}
