"""Worlds of real text for `scripts/coverage.py`: disjoint random draws of docstring passages.

A world has a human side and two systems, which are three disjoint draws from one pool of passages, so the two systems
have one law. Tokens are those of the bundled tokenizer, or words. Two features are simple stand-ins that need no model:
the likelihood of a token is its relative frequency in the pool, and the embedding of a passage is a random projection
of its word counts.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openended.harness.core.metric_spec import Features, Metric, Need, Side
from openended.harness.core.types import F64, I64, Ragged

LEAST_WORDS, MOST_WORDS, DIMENSIONS = 20, 64, 32
TOKENIZER = Path(__file__).resolve().parents[1] / "harness/assets/docs-m/tokenizer.json"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """All passages with their features."""

    texts: list[str]
    words: Ragged
    tokens: Ragged
    token_nll: Ragged
    embeddings: F64


@functools.cache
def load_pool() -> Pool:
    """Read the passages of the installed packages that have enough words; longer ones are truncated."""
    from tokenizers import Tokenizer

    from openended.tasks._docstrings import load_passages

    split = [passage.text.split()[:MOST_WORDS] for passage in load_passages()]
    split = [words for words in split if len(words) >= LEAST_WORDS]
    texts = [" ".join(words) for words in split]
    vocabulary: dict[str, int] = {}
    words = Ragged.from_rows([[vocabulary.setdefault(w, len(vocabulary)) for w in row] for row in split], np.int64)
    encodings = Tokenizer.from_file(str(TOKENIZER)).encode_batch(texts, add_special_tokens=False)
    tokens = Ragged.from_rows([encoding.ids for encoding in encodings], np.int64)
    frequencies = np.bincount(tokens.values)[tokens.values] / len(tokens.values)
    return Pool(texts, words, tokens, Ragged(-np.log(frequencies), tokens.offsets), _embed(words, len(vocabulary)))


def _embed(words: Ragged, vocabulary: int) -> F64:
    """Project the weighted word counts of each text onto random directions, shape (texts, DIMENSIONS)."""
    from scipy.sparse import csr_matrix

    ones = np.ones(len(words.values))
    counts = csr_matrix((ones, words.values, words.offsets), shape=(len(words), vocabulary))
    counts.sum_duplicates()
    frequency = np.bincount(counts.indices, minlength=vocabulary)
    counts.data = np.log1p(counts.data) * np.log(len(words) / frequency)[counts.indices]
    directions = np.random.default_rng(0).standard_normal((vocabulary, DIMENSIONS))
    return np.asarray(counts @ directions)


def draw_passages(rng: np.random.Generator, n: int, metric: Metric, samples: int = 1) -> list[Features] | None:
    """Draw the features of two systems against one human side; None if the metric needs what passages do not have."""
    pool = load_pool()
    if metric.sides == "human" or any(need.kind in ("next_token", "stops") for need in metric.needs()):
        return None
    ids = sorted(f"passage/{i:06d}-{rng.integers(1 << 30)}" for i in range(n))
    rows = rng.permutation(len(pool.texts))[: n * (1 + 2 * samples)]
    human, first, second = np.split(rows, [n, n * (1 + samples)])
    several = [i for i in ids for _ in range(samples)]
    reference = _make_side(pool, metric, "human", ids, human)
    facts = {"n": f"{n}/{n * samples}", "task": "docs@0"}
    return [Features(reference, _make_side(pool, metric, "model", several, rows), facts) for rows in (first, second)]


def _make_side(pool: Pool, metric: Metric, name: str, ids: list[str], rows: I64) -> Side:
    return Side(name, ids, {need: _select_feature(pool, need, rows) for need in metric.needs()})


def _select_feature(pool: Pool, need: Need, rows: I64) -> object:
    if need.kind == "texts":
        return [pool.texts[row] for row in rows]
    if need.kind == "embeddings":
        return pool.embeddings[rows]
    if need.kind == "token_nll":
        return _select(pool.token_nll, rows)
    return _select(pool.words if need.by == "words" else pool.tokens, rows)


def _select(ragged: Ragged, rows: I64) -> Ragged:
    parts = [ragged.values[ragged.offsets[row] : ragged.offsets[row + 1]] for row in rows]
    return Ragged(np.concatenate(parts), np.concatenate([[0], np.cumsum([len(part) for part in parts])]))
