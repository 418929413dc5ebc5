"""Texts of a known distribution: a human side and systems on the same prompts, made up or drawn from real texts."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from openended.harness.core.interfaces import Features, Metric, Need, Side
from openended.harness.core.io import read_jsonl
from openended.harness.core.types import F64, I64, NextToken, Ragged
from openended.metrics.families import Mask
from scripts.pages import ROOT

VOCABULARY, TOPICS, DIMENSIONS = 3000, 12, 12


@dataclass(frozen=True, slots=True)
class Writer:
    """Parameters of the distribution of a side's texts."""

    repeats: float = 0.02  # probability that a text falls into a loop at its end
    exponent: float = 1.05  # of the law of word frequencies
    nll: float = 3.0  # mean negative log-likelihood, nats
    shift: float = 0.0  # how far its embeddings lie from the human ones
    spread: float = 1.0  # how wide its embeddings lie around their topic


HUMAN = Writer()
MODEL = Writer(repeats=0.15, exponent=1.15, nll=2.7, shift=0.6, spread=0.85)


def draw(rng: np.random.Generator, n: int, metric: Metric, *writers: Writer, samples: int = 1) -> list[Features]:
    """Draw prompts, human texts and the texts of each writer; return features of each writer."""
    topic = rng.integers(0, TOPICS, n)
    ids = np.char.add("w/", np.char.zfill(np.arange(n).astype(np.str_), 6))
    ids = np.char.add(ids, f"-{rng.integers(1 << 30)}")  # other prompts in every draw
    order = np.argsort(ids)
    human = _make_side(rng, metric, "human", ids[order], topic, HUMAN)
    if metric.sides == "human":  # Q of each writer on the same human texts
        sides = [_make_side(rng, metric, "human", ids[order], topic, writer) for writer in writers]
        return [Features(side, side) for side in sides]
    rows = np.repeat(np.arange(n), samples)
    sides = [_make_side(rng, metric, "model", ids[order][rows], topic[rows], w) for w in writers]
    facts = {"n": f"{n}/{n * samples}", "task": "made-up@0"}
    return [Features(human, side, facts) for side in sides]


def _make_side(rng: np.random.Generator, metric: Metric, name: str, ids: object, topic: I64, writer: Writer) -> Side:
    tokens: Ragged | None = None
    data: dict[object, object] = {}
    for need in metric.needs():
        if need.kind in TOKEN_WRITERS:
            tokens = _draw_tokens(rng, topic, writer) if tokens is None else tokens
            data[need] = TOKEN_WRITERS[need.kind](rng, topic, tokens, writer)
        else:
            data[need] = TOPIC_WRITERS[need.kind](rng, topic, writer)
    return Side(name, [str(i) for i in np.asarray(ids)], data)  # type: ignore[arg-type]


def _draw_tokens(rng: np.random.Generator, topic: I64, writer: Writer) -> Ragged:
    lengths = rng.integers(20, 60, len(topic)) + topic
    law = np.cumsum(np.arange(1, VOCABULARY + 1) ** -writer.exponent)
    text = np.repeat(np.arange(len(topic)), lengths)
    words = np.searchsorted(law, rng.random(len(text)) * law[-1])
    is_topical = rng.random(len(text)) < 0.3  # words of the topic
    words = np.where(is_topical, (words * 7 + topic[text] * 131) % VOCABULARY, words)
    # Pairs that go together, so that longer n-grams recur.
    follow = rng.random(len(text)) < 0.35
    follow[0] = False
    before = np.roll(words, 1)
    words = np.where(follow, (before * 31 + 17) % VOCABULARY, words)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    for row in np.flatnonzero(rng.random(len(topic)) < writer.repeats):
        end = int(offsets[row + 1])
        words[end - 15 : end] = np.tile(words[end - 18 : end - 15], 5)
    return Ragged(words.astype(np.int64), offsets)


def _draw_nll(rng: np.random.Generator, topic: I64, tokens: Ragged, writer: Writer) -> Ragged:
    level = writer.nll + 0.05 * topic + 0.4 * rng.standard_normal(len(topic))
    values = rng.gamma(2.0, 0.5, len(tokens.values)) * np.repeat(np.maximum(level, 0.2), tokens.lengths)
    return Ragged(values, tokens.offsets)


def _draw_ranks(rng: np.random.Generator, topic: I64, tokens: Ragged, writer: Writer) -> Ragged:
    level = writer.nll + 0.05 * topic
    values = np.exp(rng.gamma(1.0, 0.6, len(tokens.values)) * np.repeat(level, tokens.lengths))
    return Ragged(np.minimum(values, VOCABULARY).astype(np.int64), tokens.offsets)


def _draw_embeddings(rng: np.random.Generator, topic: I64, writer: Writer) -> F64:
    fixed = np.random.default_rng(1)
    centers, away = 2.0 * fixed.standard_normal((TOPICS, DIMENSIONS)), fixed.standard_normal(DIMENSIONS)
    scales = np.linspace(1.5, 0.4, DIMENSIONS)
    noise = rng.standard_normal((len(topic), DIMENSIONS)) * scales * writer.spread
    return centers[topic] + writer.shift * away + noise


def _draw_next_token(rng: np.random.Generator, topic: I64, writer: Writer) -> NextToken:
    lengths = rng.integers(10, 30, len(topic))
    total = int(lengths.sum())
    easy = np.repeat(1.0 + 0.05 * topic + 0.3 * rng.random(len(topic)), lengths)
    probability = np.clip(rng.beta(easy, writer.nll), 1e-6, 1.0)
    gold = rng.integers(0, 60, total)
    best = np.where(rng.random(total) < 0.4, gold, rng.integers(0, 60, total))
    context = Ragged.from_rows(rng.integers(0, 60, (len(topic), 8)), np.int64)
    starts, squares = np.concatenate([[0], np.cumsum(lengths)]), np.clip(probability**2 + 0.05, 0, 1)
    return NextToken(starts, probability, squares, np.full(total, 60), best, gold, context, 60)


def _write_texts(rng: np.random.Generator, topic: I64, tokens: Ragged, writer: Writer) -> list[str]:  # noqa: ARG001
    return [" ".join(f"{word:x}" for word in row) for row in tokens]


def _draw_log_prob(rng: np.random.Generator, topic: I64, tokens: Ragged, writer: Writer) -> F64:
    nll = _draw_nll(rng, topic, tokens, writer)
    return -0.9 * np.array([row.sum() for row in nll])


def classify_by_length(texts: list[str], is_model: object, test_texts: list[str], **_: object) -> Mask:
    """Take a text for a model's if its length is closer to the mean of the model's texts."""
    lengths, labels = np.array([len(text) for text in texts]), np.asarray(is_model)
    tests = np.array([len(text) for text in test_texts])
    return np.abs(tests - lengths[labels].mean()) < np.abs(tests - lengths[~labels].mean())


TOKEN_WRITERS: dict[str, Callable[[np.random.Generator, I64, Ragged, Writer], object]] = {
    "tokens": lambda rng, topic, tokens, writer: tokens,  # noqa: ARG005
    "texts": _write_texts,
    "token_nll": _draw_nll,
    "token_rank": _draw_ranks,
    "log_prob": _draw_log_prob,
    "q_entropy": _draw_nll,
}
TOPIC_WRITERS: dict[str, Callable[[np.random.Generator, I64, Writer], object]] = {
    "stops": lambda rng, topic, writer: rng.random(len(topic)) < 0.3 + 0.02 * topic,  # noqa: ARG005
    "end_tokens": lambda rng, topic, writer: np.zeros(1, dtype=np.int64),  # noqa: ARG005
    "embeddings": _draw_embeddings,
    "gradients": lambda rng, topic, writer: _draw_embeddings(rng, topic, writer).astype(np.float32),
    "next_token": _draw_next_token,
    "classifier": lambda rng, topic, writer: classify_by_length,  # noqa: ARG005
}


# Worlds of real text: disjoint draws from a pool. Tokens are those of the bundled tokenizer, or words; other features
# need no model: likelihood and rank of a token are those of its frequency in the pool, and the embedding of a text is a
# random projection of its word counts.

LEAST_WORDS, MOST_WORDS, DIRECTIONS = 20, 64, 128
TOKENIZER = ROOT / "harness/assets/docs-m/tokenizer.json"


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """All texts with their features; the first `humans` are human."""

    texts: list[str]
    humans: int
    words: Ragged
    tokens: Ragged
    frequencies: I64  # of each token id
    embeddings: F64

    def share_drawn(self, rows: int) -> float:
        """Return the share of the texts that may be a system's that so many rows are."""
        return rows / (len(self.texts) - self.humans or self.humans)

    def draw(self, rng: np.random.Generator, n: int, samples: int) -> list[I64]:
        """Return rows of a human side and of two systems."""
        if self.humans == len(self.texts):
            return np.split(rng.permutation(self.humans)[: n * (1 + 2 * samples)], [n, n * (1 + samples)])
        systems = self.humans + rng.permutation(len(self.texts) - self.humans)[: 2 * n * samples]
        return [rng.permutation(self.humans)[:n], *np.split(systems, 2)]


@functools.cache
def load_pool(source: str = "docs") -> Pool:
    """Read the passages of the installed packages, cut, or the references and generations of a JSON-lines file."""
    from tokenizers import Tokenizer

    if source == "docs":
        from openended.tasks._docstrings import load_passages

        split = [passage.text.split()[:MOST_WORDS] for passage in load_passages()]
        split = [words for words in split if len(words) >= LEAST_WORDS]
        humans = len(split)
    else:
        rows = [row for _, row in read_jsonl(Path(source))]
        pairs = [[row[side].split()[:MOST_WORDS] for side in ("reference", "generation")] for row in rows]
        pairs = [pair for pair in pairs if min(map(len, pair)) >= LEAST_WORDS]
        split = [pair[side] for side in (0, 1) for pair in pairs]
        humans = len(pairs)
    texts = [" ".join(words) for words in split]
    vocabulary: dict[str, int] = {}
    words = Ragged.from_rows([[vocabulary.setdefault(w, len(vocabulary)) for w in row] for row in split], np.int64)
    encodings = Tokenizer.from_file(str(TOKENIZER)).encode_batch(texts, add_special_tokens=False)
    tokens = Ragged.from_rows([encoding.ids for encoding in encodings], np.int64)
    return Pool(texts, humans, words, tokens, np.bincount(tokens.values), _embed(words, len(vocabulary)))


def _embed(words: Ragged, vocabulary: int) -> F64:
    """Project the weighted word counts of each text onto random directions, shape (texts, DIRECTIONS)."""
    ones = np.ones(len(words.values))
    counts = csr_matrix((ones, words.values, words.offsets), shape=(len(words), vocabulary))
    counts.sum_duplicates()
    frequency = np.bincount(counts.indices, minlength=vocabulary)
    counts.data = np.log1p(counts.data) * np.log(len(words) / frequency)[counts.indices]
    directions = np.random.default_rng(0).standard_normal((vocabulary, DIRECTIONS))
    return np.asarray(counts @ directions)


def draw_passages(
    rng: np.random.Generator, n: int, metric: Metric, samples: int = 1, source: str = "docs"
) -> list[Features] | None:
    """Draw the features of two systems against one human side; None if the pool lacks texts or features for them."""
    if metric.sides == "human" or any(need.kind not in FEATURES for need in metric.needs()):
        return None
    pool = load_pool(source)
    if 2 * pool.share_drawn(n * samples) > 1:
        return None
    ids = sorted(f"passage/{i:06d}-{rng.integers(1 << 30)}" for i in range(n))
    human, *systems = pool.draw(rng, n, samples)
    facts = {"n": f"{n}/{n * samples}", "task": f"{Path(source).stem}@0"}

    def make_side(name: str, ids: list[str], rows: I64) -> Side:
        return Side(name, ids, {need: FEATURES[need.kind](pool, need, rows) for need in metric.needs()})

    several, reference = [i for i in ids for _ in range(samples)], make_side("human", ids, human)
    return [Features(reference, make_side("model", several, rows), facts) for rows in systems]


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
    "q_entropy": _select_losses,
}
