"""Worlds of real text for `scripts/coverage.py`: disjoint random draws from a pool.

A world has a human side and two systems of one law. With docstring passages (`docs`) they are three disjoint draws of
passages; with a file of generations the human side is drawn from its references, and both systems from its generations.
Tokens are those of the bundled tokenizer, or words. Other features are simple stand-ins that need no model: the
likelihood and the rank of a token are those of its frequency in the pool, and the embedding of a text is a random
projection of its word counts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openended.harness.core.io import read_jsonl
from openended.harness.core.metric_spec import Features, Metric, Need, Side
from openended.harness.core.types import F64, I64, Ragged

LEAST_WORDS, MOST_WORDS, DIMENSIONS = 20, 64, 128
TOKENIZER = Path(__file__).resolve().parents[1] / "harness/assets/docs-m/tokenizer.json"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """All texts with their features; the first `humans` are human."""

    texts: list[str]
    humans: int
    words: Ragged
    tokens: Ragged
    frequencies: I64
    """Of each token id."""
    embeddings: F64

    def draw(self, rng: np.random.Generator, n: int, samples: int) -> list[I64]:
        """Return rows of a human side and of two systems."""
        if self.humans == len(self.texts):
            return np.split(rng.permutation(self.humans)[: n * (1 + 2 * samples)], [n, n * (1 + samples)])
        systems = self.humans + rng.permutation(len(self.texts) - self.humans)[: 2 * n * samples]
        return [rng.permutation(self.humans)[:n], *np.split(systems, 2)]


@functools.cache
def load_pool(source: str = "docs") -> Pool:
    """Read the passages of the installed packages, or the references and generations of a JSON-lines file.

    Passages without enough words are left out; longer ones are truncated.
    """
    from tokenizers import Tokenizer

    if source == "docs":
        from openended.tasks._docstrings import load_passages

        split = [passage.text.split()[:MOST_WORDS] for passage in load_passages()]
        split = [words for words in split if len(words) >= LEAST_WORDS]
        humans = len(split)
    else:
        rows = [row for _, row in read_jsonl(Path(source))]
        split = [row[side].split() for side in ("reference", "generation") for row in rows]
        humans = len(rows)
    texts = [" ".join(words) for words in split]
    vocabulary: dict[str, int] = {}
    words = Ragged.from_rows([[vocabulary.setdefault(w, len(vocabulary)) for w in row] for row in split], np.int64)
    encodings = Tokenizer.from_file(str(TOKENIZER)).encode_batch(texts, add_special_tokens=False)
    tokens = Ragged.from_rows([encoding.ids for encoding in encodings], np.int64)
    return Pool(texts, humans, words, tokens, np.bincount(tokens.values), _embed(words, len(vocabulary)))


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


def draw_passages(
    rng: np.random.Generator, n: int, metric: Metric, samples: int = 1, source: str = "docs"
) -> list[Features] | None:
    """Draw the features of two systems against one human side; None if the metric needs other features."""
    if metric.sides == "human" or any(need.kind not in FEATURES for need in metric.needs()):
        return None
    pool = load_pool(source)
    ids = sorted(f"passage/{i:06d}-{rng.integers(1 << 30)}" for i in range(n))
    human, *systems = pool.draw(rng, n, samples)
    several = [i for i in ids for _ in range(samples)]
    reference = _make_side(pool, metric, "human", ids, human)
    facts = {"n": f"{n}/{n * samples}", "task": f"{Path(source).stem}@0"}
    return [Features(reference, _make_side(pool, metric, "model", several, rows), facts) for rows in systems]


def _make_side(pool: Pool, metric: Metric, name: str, ids: list[str], rows: I64) -> Side:
    return Side(name, ids, {need: FEATURES[need.kind](pool, need, rows) for need in metric.needs()})


def _select_tokens(pool: Pool, need: Need, rows: I64) -> Ragged:
    ragged = pool.words if need.by == "words" else pool.tokens
    return Ragged.from_rows((ragged[int(row)] for row in rows), np.int64)


def _select_losses(pool: Pool, need: Need, rows: I64) -> Ragged:
    tokens = _select_tokens(pool, need, rows)
    return Ragged(-np.log(pool.frequencies[tokens.values] / pool.frequencies.sum()), tokens.offsets)


def _select_ranks(pool: Pool, need: Need, rows: I64) -> Ragged:
    tokens = _select_tokens(pool, need, rows)
    rank = 1 + np.argsort(np.argsort(-pool.frequencies, kind="stable"), kind="stable")
    return Ragged(rank[tokens.values], tokens.offsets)


def _sum_losses(pool: Pool, need: Need, rows: I64) -> F64:
    return np.array([-0.9 * losses.sum() for losses in _select_losses(pool, need, rows)])


FEATURES: dict[str, Callable[[Pool, Need, I64], object]] = {
    "texts": lambda pool, need, rows: [pool.texts[row] for row in rows],  # noqa: ARG005
    "embeddings": lambda pool, need, rows: pool.embeddings[rows],  # noqa: ARG005
    "gradients": lambda pool, need, rows: pool.embeddings[rows],  # noqa: ARG005
    "stops": lambda pool, need, rows: _select_tokens(pool, need, rows).lengths >= pool.tokens.lengths.max(),
    "tokens": _select_tokens,
    "token_nll": _select_losses,
    "token_rank": _select_ranks,
    "log_prob": _sum_losses,
}
