"""Simulated texts of a known distribution: a human side and systems on the same prompts.

Every prompt has a topic, which moves the words, the likelihoods and the embeddings of all that is written about it; so
systems on the same prompts resemble each other, as they do in earnest.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openended.harness.core.metric_spec import Features, Metric, Side
from openended.harness.core.types import F64, I64, NextToken, Ragged

VOCABULARY, TOPICS, DIMENSIONS = 3000, 12, 12


@dataclass(frozen=True, slots=True)
class Writer:
    """Parameters of the distribution of a side's texts."""

    repeats: float = 0.02
    """Probability that a text falls into a loop at its end."""
    exponent: float = 1.05
    """Of the law of word frequencies."""
    nll: float = 3.0
    """Mean negative log-likelihood, nats."""
    shift: float = 0.0
    """How far its embeddings lie from the human ones."""
    spread: float = 1.0
    """How wide its embeddings lie around their topic."""


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
        return [
            Features(side, side) for side in (_make_side(rng, metric, "human", ids[order], topic, w) for w in writers)
        ]
    rows = np.repeat(np.arange(n), samples)
    sides = [_make_side(rng, metric, "model", ids[order][rows], topic[rows], w) for w in writers]
    facts = {"n": f"{n}/{n * samples}", "task": "made-up@0"}
    return [Features(human, side, facts) for side in sides]


def _make_side(rng: np.random.Generator, metric: Metric, name: str, ids: object, topic: I64, writer: Writer) -> Side:
    tokens: Ragged | None = None
    data: dict[object, object] = {}
    for need in metric.needs():
        if need.kind in OF_TOKENS:
            tokens = _draw_tokens(rng, topic, writer) if tokens is None else tokens
            data[need] = OF_TOKENS[need.kind](rng, topic, tokens, writer)
        else:
            data[need] = OF_TOPICS[need.kind](rng, topic, writer)
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
    return NextToken(
        np.concatenate([[0], np.cumsum(lengths)]), probability, np.clip(probability**2 + 0.05, 0, 1),
        np.full(total, 60), best, gold, context, 60,
    )  # fmt: skip


def _write_texts(rng: np.random.Generator, topic: I64, tokens: Ragged, writer: Writer) -> list[str]:  # noqa: ARG001
    return [" ".join(f"{word:x}" for word in row) for row in tokens]


def _draw_log_prob(rng: np.random.Generator, topic: I64, tokens: Ragged, writer: Writer) -> F64:
    nll = _draw_nll(rng, topic, tokens, writer)
    return -0.9 * np.array([row.sum() for row in nll])


OF_TOKENS: dict[str, Callable[[np.random.Generator, I64, Ragged, Writer], object]] = {
    "tokens": lambda rng, topic, tokens, writer: tokens,  # noqa: ARG005
    "texts": _write_texts,
    "token_nll": _draw_nll,
    "token_rank": _draw_ranks,
    "log_prob": _draw_log_prob,
}
OF_TOPICS: dict[str, Callable[[np.random.Generator, I64, Writer], object]] = {
    "stops": lambda rng, topic, writer: rng.random(len(topic)) < 0.3 + 0.02 * topic,  # noqa: ARG005
    "end_tokens": lambda rng, topic, writer: np.zeros(1, dtype=np.int64),  # noqa: ARG005
    "embeddings": _draw_embeddings,
    "gradients": lambda rng, topic, writer: _draw_embeddings(rng, topic, writer).astype(np.float32),
    "next_token": _draw_next_token,
}


def main(words: Sequence[str] | None = None) -> None:
    """Print how far the exact output law of each sampler is from the law of its world."""
    parser = argparse.ArgumentParser(description="Worlds of a known law.")
    parser.add_argument("table", choices=["samplers"], help="samplers: total variation of each sampler of a denoiser")
    parser.parse_args(words)
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from scripts.sampler_worlds import print_samplers

    print_samplers()


if __name__ == "__main__":
    main()
