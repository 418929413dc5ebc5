"""Time text statistics against public implementations.

Texts are sampled from a Zipf-like distribution of 50,257 tokens. Some end in a loop and some share phrases, so that no
statistic is trivial.
"""

from __future__ import annotations

import importlib
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openended.harness.core.types import Ragged
from openended.metrics.distinct_n import distinct_n
from openended.metrics.entropy import ngram_entropy
from openended.metrics.families import index_of
from openended.metrics.repetition import diversity, loop_rate, self_repetition, seq_rep_n
from openended.metrics.self_bleu import bleu_by_text, self_bleu
from openended.metrics.zipf import zipf_coefficient
from scripts.benchmarks._work import Benchmark, format_max_gap

VOCABULARY = 50_257
TEXTS, TOKENS = 5_000, 500
NLTK_HYPOTHESES = 20
ORDERS = (1, 2, 3, 4)


def draw(n: int, length: int, seed: int = 0) -> NDArray[np.int32]:
    """Draw texts, shape (n, length)."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, VOCABULARY + 1)
    bounds = np.cumsum(share / share.sum())
    out = np.empty((n, length), dtype=np.int32)
    for low in range(0, n, 10_000):
        part = out[low : low + 10_000]
        part[:] = np.searchsorted(bounds, rng.random(part.shape)).clip(max=VOCABULARY - 1)
    phrases = rng.integers(0, VOCABULARY, (200, 6))
    for row in range(0, n, 3):  # a phrase shared with other texts
        at = int(rng.integers(0, length - 6))
        out[row, at : at + 6] = phrases[rng.integers(0, len(phrases))]
    for row in range(0, n, 5):  # a loop at the end
        period = int(rng.integers(1, 60))
        out[row, length // 2 :] = np.resize(out[row, :period], length - length // 2)
    return out


def pack_rows(values: NDArray[Any]) -> Ragged:
    """Return texts of equal length as rows."""
    n, length = values.shape
    return Ragged(values.reshape(-1), np.arange(0, n * length + 1, length))


def draw_corpus() -> Ragged:
    """Sample 5,000 texts of 500 tokens."""
    return pack_rows(draw(TEXTS, TOKENS))


def build_list_prepare(*modules: str) -> Callable[[], list[list[int]]]:
    """Return a function that imports the peer and makes the texts as lists, which peers expect."""

    def make() -> list[list[int]]:
        for module in modules:
            importlib.import_module(module)
        texts: list[list[int]] = draw(TEXTS, TOKENS).tolist()
        return texts

    return make


def harness_self_bleu(rows: Ragged) -> dict[str, float]:
    """Score every text against all others, orders 1 to 4; also the mean over the peer's hypotheses."""
    table = bleu_by_text(index_of(rows), 4)
    return {"order 4": float(table[3, :NLTK_HYPOTHESES].mean()), "all texts": float(table[3].mean())}


def nltk_self_bleu(texts: list[list[int]]) -> dict[str, float]:
    """Score the first 20 texts against all others with NLTK, order 4."""
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smooth = SmoothingFunction().method1
    scores = [
        sentence_bleu(texts[:i] + texts[i + 1 :], texts[i], weights=[0.25] * 4, smoothing_function=smooth)
        for i in range(NLTK_HYPOTHESES)
    ]
    return {"order 4": sum(scores) / len(scores)}


def harness_self_bleu_four(rows: Ragged) -> dict[str, float]:
    """Score every text against all others, order 4."""
    return {"order 4": self_bleu(rows, orders=(4,))[4]}


def fast_bleu(texts: list[list[int]]) -> dict[str, float]:
    """Score all texts with the C++ package, order 4."""
    from fast_bleu import SelfBLEU  # type: ignore[import-not-found]

    words = [[str(token) for token in text] for text in texts]
    scores = SelfBLEU(words, {"order 4": [0.25] * 4}).get_score()["order 4"]
    return {"order 4": sum(scores) / len(scores)}


def harness_distinct(rows: Ragged) -> dict[str, float]:
    """Compute Distinct-1 to 4."""
    return {str(order): value for order, value in distinct_n(rows, orders=ORDERS).items()}


def counter_distinct(texts: list[list[int]]) -> dict[str, float]:
    """Compute Distinct-1 to 4 with NLTK's ngrams and one Counter per order."""
    from nltk.util import ngrams

    out = {}
    for order in ORDERS:
        counts: Counter[tuple[int, ...]] = Counter()
        for text in texts:
            counts.update(ngrams(text, order))
        out[str(order)] = len(counts) / sum(counts.values())
    return out


def harness_loops(rows: Ragged) -> dict[str, float]:
    """Compute the share of texts that end in a loop."""
    return {"loop_rate": loop_rate(rows)}


def slice_loops(texts: list[list[int]]) -> dict[str, float]:
    """Compute the same by comparing slices for each phrase length and each repeat."""
    loops = 0
    for text in texts:
        best, phrase = 0, 0
        for n in range(1, min(500, len(text)) + 1):
            last, repeats, end = text[-n:], 0, len(text)
            while end >= n and text[end - n : end] == last:
                repeats, end = repeats + 1, end - n
            if repeats > best:
                best, phrase = repeats, n
        loops += best > 1 and (phrase >= 3 or best > 50)
    return {"loop_rate": loops / len(texts)}


def harness_zipf(rows: Ragged) -> dict[str, float]:
    """Compute the Zipf coefficient."""
    return {"zipf": zipf_coefficient(rows)}


def counter_zipf(texts: list[list[int]]) -> dict[str, float]:
    """Compute the same with a Counter and SciPy's linear regression."""
    from scipy.stats import linregress

    counts: Counter[int] = Counter()
    for text in texts:
        counts.update(text)
    frequency = sorted(counts.values(), reverse=True)[:5000]
    return {"zipf": -float(linregress(np.log(np.arange(1, len(frequency) + 1)), np.log(frequency)).slope)}


def compute_all(rows: Ragged) -> dict[str, float]:
    """Compute all text statistics of one side, orders 1 to 5, from one index."""
    index = index_of(rows)
    five = (1, 2, 3, 4, 5)
    values = {f"self_bleu_{n}": v for n, v in self_bleu(index, orders=five).items()}
    for variant in ("corpus", "li", "hapax", "per_doc"):
        values |= {f"{variant}_{n}": v for n, v in distinct_n(index, orders=five, variant=variant).items()}  # type: ignore[arg-type]
    for variant in ("simctg", "ngd"):
        values |= {f"{variant}_{n}": v for n, v in distinct_n(rows, orders=five, variant=variant).items()}  # type: ignore[arg-type]
    values |= {f"seq_rep_{n}": v for n, v in seq_rep_n(index, orders=five).items()}
    values |= {"loop_rate": loop_rate(index), "diversity": diversity(index), "zipf": zipf_coefficient(index)}
    values["self_repetition"] = self_repetition(index)
    for name, average in (("entropy", "corpus"), ("text_entropy", "texts")):
        values |= {f"{name}_{n}": v for n, v in ngram_entropy(index, orders=five, average=average).items()}  # type: ignore[arg-type]
    return values


def write_mapped(n: int) -> Callable[[], Ragged]:
    """Return a function that makes n texts of 128 tokens in a memory-mapped file."""

    def make() -> Ragged:
        folder = tempfile.mkdtemp(prefix="openended-bench-")
        path = Path(folder) / "tokens.npy"
        np.save(path, draw(n, 128))
        rows = pack_rows(np.load(path, mmap_mode="r"))
        path.unlink()  # the map stays readable until the process ends
        path.parent.rmdir()
        return rows

    return make


def compute_large(rows: Ragged) -> dict[str, float]:
    """Compute distinct_n (orders 1 to 4), zipf and seq_rep_n (orders 2 to 4) from one index."""
    index = index_of(rows)
    values = {f"distinct_{n}": v for n, v in distinct_n(index, orders=ORDERS).items()}
    values |= {f"seq_rep_{n}": v for n, v in seq_rep_n(index).items()}
    return values | {"zipf": zipf_coefficient(index)}


_SIZE = f"{TEXTS:,} texts × {TOKENS} tokens"

WORKS = [
    Benchmark(
        clock="cpu",
        name=f"self_bleu, {_SIZE}, orders 1 to 4, all hypotheses",
        against=f"NLTK sentence_bleu, only order 4, {NLTK_HYPOTHESES} hypotheses",
        at_least=3000,
        prepare=draw_corpus,
        harness=harness_self_bleu,
        prepare_peer=build_list_prepare("nltk.translate.bleu_score"),
        peer=nltk_self_bleu,
        peer_needs=("nltk",),
        peer_share=NLTK_HYPOTHESES / TEXTS,
        peer_repeats=1,
        agree=format_max_gap,
    ),
    Benchmark(
        clock="cpu",
        name=f"self_bleu, {_SIZE}, order 4, all hypotheses",
        against="fast-bleu (C++), all hypotheses",
        at_least=10,
        prepare=draw_corpus,
        harness=harness_self_bleu_four,
        prepare_peer=build_list_prepare("fast_bleu"),
        peer=fast_bleu,
        peer_needs=("fast_bleu",),
        peer_repeats=1,
        agree=format_max_gap,
    ),
    Benchmark(
        clock="cpu",
        name=f"distinct_n, {_SIZE}, orders 1 to 4",
        against="nltk ngrams and Counter",
        at_least=10,
        prepare=draw_corpus,
        harness=harness_distinct,
        prepare_peer=build_list_prepare("nltk.util"),
        peer=counter_distinct,
        peer_needs=("nltk",),
        agree=format_max_gap,
    ),
    Benchmark(
        clock="cpu",
        name=f"loop_rate, {_SIZE}",
        against="nested slices, as in the public scripts",
        at_least=50,
        prepare=draw_corpus,
        harness=harness_loops,
        prepare_peer=build_list_prepare(),
        peer=slice_loops,
        agree=format_max_gap,
    ),
    Benchmark(
        clock="cpu",
        name=f"zipf, {_SIZE}",
        against="Counter and scipy linregress",
        prepare=draw_corpus,
        harness=harness_zipf,
        prepare_peer=build_list_prepare("scipy.stats"),
        peer=counter_zipf,
        peer_needs=("scipy",),
        agree=format_max_gap,
    ),
    Benchmark(
        clock="cpu",
        name=f"all text statistics, {_SIZE}, orders 1 to 5",
        at_most_seconds=6,
        at_most_mib=2048,
        prepare=draw_corpus,
        harness=compute_all,
        say=lambda values: f"{len(values)} values",
    ),
    *(
        Benchmark(
            clock="cpu",
            name=f"distinct_n, zipf and seq_rep_n, {n:,} texts × 128 tokens, memory-mapped",
            at_most_mib=16 * 1024,
            prepare=write_mapped(n),
            harness=compute_large,
            repeats=1,
        )
        for n in (100_000, 300_000, 1_000_000)
    ),
]
