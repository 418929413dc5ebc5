"""Slow, obvious versions of the text statistics, written from their definitions."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence

Texts = Sequence[Sequence[Hashable]]


def grams(text: Sequence[Hashable], n: int) -> list[tuple[Hashable, ...]]:
    return [tuple(text[i : i + n]) for i in range(len(text) - n + 1)]


def pooled(texts: Texts, n: int) -> Counter[tuple[Hashable, ...]]:
    return Counter(g for text in texts for g in grams(text, n))


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def distinct(texts: Texts, n: int, variant: str) -> float:
    counts = pooled(texts, n)
    total = sum(counts.values())
    if variant == "ngd":
        whole = pooled([[token for text in texts for token in text]], n)
        return len(whole) / sum(whole.values()) if whole else math.nan
    if variant == "simctg":
        short = [text[:-1] for text in texts]
        seen = sum(len(grams(text, n)) for text in short)
        if not seen:
            return math.nan
        unique = sum(len(set(grams(text, n))) for text in short)
        return 1 - round(100 * (1 - unique / seen), 2) / 100
    if not total:
        return math.nan
    if variant == "li":
        return len(counts) / sum(len(text) for text in texts)
    if variant == "hapax":
        return sum(c == 1 for c in counts.values()) / total
    if variant == "per_doc":
        return mean([len(set(grams(t, n))) / len(grams(t, n)) for t in texts if grams(t, n)])
    return len(counts) / total


def rep_pooled(texts: Texts, n: int) -> float:
    total = sum(len(grams(text, n)) for text in texts)
    return 1 - sum(len(set(grams(text, n))) for text in texts) / total if total else math.nan


def seq_rep(texts: Texts, n: int) -> float:
    return mean([1 - len(set(grams(t, n))) / len(grams(t, n)) for t in texts if grams(t, n)])


def final_loop(text: Sequence[Hashable], max_phrase: int) -> tuple[int, int]:
    """Most repeats of a final phrase and the shortest phrase that has them, by comparing slices."""
    best, phrase = 0, 0
    for n in range(1, min(max_phrase, len(text)) + 1):
        last, repeats, end = list(text[len(text) - n :]), 0, len(text)
        while end - n >= 0 and list(text[end - n : end]) == last:
            repeats, end = repeats + 1, end - n
        if repeats > best:
            best, phrase = repeats, n
    return best, phrase


def is_loop(text: Sequence[Hashable], max_phrase: int) -> bool:
    repeats, phrase = final_loop(text, max_phrase)
    return repeats > 1 and (phrase >= 3 or repeats > 50)


def self_repetition(texts: Texts, n: int) -> float:
    sets = [set(grams(text, n)) for text in texts]
    shared = [sum(gram in other for gram in own for other in sets[:i] + sets[i + 1 :]) for i, own in enumerate(sets)]
    return mean([math.log(1 + s) for s in shared])


def entropy(counts: Counter[tuple[Hashable, ...]]) -> float:
    total = sum(counts.values())
    return -sum(c / total * math.log(c / total) for c in counts.values()) if total else math.nan


def text_entropy(texts: Texts, n: int) -> float:
    return mean([entropy(Counter(grams(text, n))) for text in texts if grams(text, n)])


def zipf(texts: Texts, definition: str, max_rank: int) -> float:
    frequency = sorted(Counter(token for text in texts for token in text).values(), reverse=True)[:max_rank]
    points = [(math.log(rank), math.log(f)) for rank, f in enumerate(frequency, start=1)]
    if definition == "log_thinned":
        kept: dict[int, tuple[float, float]] = {}
        for x, y in points[:-1]:
            # halves go to the even neighbor, as in IEEE rounding
            kept.setdefault(round(x * 15), (round(x * 15) / 15, y))
        points = list(kept.values())
    if len(points) < 2:
        return math.nan
    mx, my = mean([x for x, _ in points]), mean([y for _, y in points])
    return -sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)


def match_lengths(text, corpus):
    """The longest sequence of tokens from each position on that some text of the corpus contains."""

    def contains(part):
        return any(known[i : i + len(part)] == part for known in corpus for i in range(len(known) - len(part) + 1))

    return [max(n for n in range(len(text) - at + 1) if contains(text[at : at + n])) for at in range(len(text))]


def novelty(texts, corpus, order):
    known = {tuple(text[i : i + order]) for text in corpus for i in range(len(text) - order + 1)}
    grams = [tuple(text[i : i + order]) for text in texts for i in range(len(text) - order + 1)]
    return sum(gram not in known for gram in grams) / len(grams) if grams else math.nan


def overused(human, model, order, prior):
    """Phrase → z of those that the model uses three times or more."""

    def count(side):
        return Counter(tuple(t.split()[i : i + order]) for t in side for i in range(len(t.split()) - order + 1))

    h, m = count(human), count(model)
    n_h, n_m = sum(h.values()), sum(m.values())
    out = {}
    for phrase, y in m.items():
        if y < 3:
            continue
        a = prior * (y + h[phrase]) / (n_h + n_m)
        delta = math.log((y + a) / (n_m + prior - y - a)) - math.log((h[phrase] + a) / (n_h + prior - h[phrase] - a))
        out[" ".join(phrase)] = delta / math.sqrt(1 / (y + a) + 1 / (h[phrase] + a))
    return out
