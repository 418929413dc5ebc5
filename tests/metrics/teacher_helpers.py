"""Random distributions with zeros, and the statistics a decoder would hand over."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from openended.harness.core.metric_spec import Metric
from openended.harness.core.types import NextToken, Ragged
from tests.helpers import features


def distributions(seed: int, n: int = 12, vocab_size: int = 7, kept: int | None = None) -> tuple[Any, Any]:
    """Rows of Q, shape (n, V), with `kept` tokens each, and the true tokens."""
    g = np.random.default_rng(seed)
    q = g.dirichlet(np.full(vocab_size, 0.5), n) + 1e-12
    if kept is not None:
        q[np.argsort(-q, axis=1).argsort(axis=1) >= kept] = 0
    return q / q.sum(1, keepdims=True), g.integers(0, vocab_size, n)


SEEDS = st.integers(0, 10_000)


def stats_of(q: Any, gold: Any, lengths: list[int] | None = None, context: Any = None) -> NextToken:
    lengths = lengths or [len(gold)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = context or [[] for _ in lengths]
    at = np.arange(len(gold))
    return NextToken(
        offsets, q[at, gold], (q * q).sum(1), (q > 0).sum(1), q.argmax(1), gold.astype(np.int64),
        Ragged.from_rows(rows, np.int64), vocab_size=q.shape[1],
    )  # fmt: skip


def run(metric: Metric, stats: NextToken) -> Any:
    n = len(stats.offsets) - 1
    return metric.compute(features(metric, human=stats, model=stats, n_human=n, n_model=n))
