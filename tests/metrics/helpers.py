"""What tests of metrics share: random inputs, running a metric on them, and the published generations."""

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from openended.harness.core import F64, Features, Metric, MetricResult, NextToken, Ragged, Side
from openended.metrics._mauve import scores
from openended.metrics.families import Values
from tests.helpers import SHARED, features, ragged

GENERATIONS = SHARED / "data/generations"
TEXTS = st.lists(st.lists(st.integers(0, 3), max_size=12), min_size=1, max_size=6)
SEEDS = st.integers(0, 10_000)

Edge = tuple[Callable[[], Any], type[Exception], str]
"""A call, the error that it raises and what the error says."""


def check_edges(edges: Sequence[Edge]) -> None:
    for call, error, words in edges:
        with pytest.raises(error, match=re.escape(words)):
            call()


def normal(n: int, d: int = 4, seed: int = 0, shift: float = 0.0, scale: float = 1.0) -> F64:
    return np.random.default_rng(seed).normal(size=(n, d)) * scale + shift


def compare(metric: Metric, human: Any, model: Any) -> MetricResult:
    """Compute a metric of two sides; arrays become float32, as embeddings are."""
    sides = [side.astype("f4") if isinstance(side, np.ndarray) else side for side in (human, model)]
    given = features(metric, human=sides[0], model=sides[1], n_human=len(human), n_model=len(model))
    return metric.compute(given)


def run(metric: Metric, rows: Any, ids: Sequence[str] | None = None, **data: Any) -> MetricResult:
    """Compute a metric of one system's token rows and further features by kind."""
    tokens = rows if isinstance(rows, Ragged) else ragged(rows)
    given = {need: tokens if need.kind == "tokens" else data[need.kind] for need in metric.needs()}
    side = Side("model", ids or tuple(f"t/{i:06d}" for i in range(len(tokens))), given)
    return metric.compute(Features(side, side, {"n": str(len(side))}))


def mauve_of_cells(human: Any, model: Any, num_buckets: int, smoothing: str = "none", **curve: Any) -> Values:
    shares = scores.share_cells(human, model, num_buckets)
    return Values(scores.score_shares(*shares, scores.CurveRule(**curve), smoothing))


# several texts of one prompt


def sizes_of(seed: int) -> list[str]:
    """Prompts of one to five texts, mixed; at least one has two."""
    g = np.random.default_rng(seed)
    ids = [f"p/{i}" for i, n in enumerate(g.integers(1, 6, 8)) for _ in range(n)] + ["p/x", "p/x"]
    return [ids[i] for i in g.permutation(len(ids))]


def vectors(n: int, seed: int = 0, d: int = 4) -> F64:
    return normal(n, d, seed, 0.5)


def tokens(n: int, seed: int = 0) -> list[list[int]]:
    g = np.random.default_rng(seed)
    return [g.integers(0, 5, int(g.integers(0, 9))).tolist() for _ in range(n)]


def run_samples(metric: Metric, ids: Sequence[str], data: Mapping[str, Any]) -> MetricResult:
    return run(metric, data.get("tokens", [[]] * len(ids)), tuple(ids), **data)


def check_rows(result: MetricResult, key: str) -> None:
    """The values by row average to the value: what tests and intervals over examples rest on."""
    np.testing.assert_allclose(np.nanmean(result.per_example[key]), result.values[key], rtol=1e-12)


# statistics of Q on human text


def distributions(seed: int, n: int = 12, vocab_size: int = 7, kept: int | None = None) -> tuple[Any, Any]:
    """Rows of Q, shape (n, V), with `kept` tokens each, and the true tokens."""
    g = np.random.default_rng(seed)
    q = g.dirichlet(np.full(vocab_size, 0.5), n) + 1e-12
    if kept is not None:
        q[np.argsort(-q, axis=1).argsort(axis=1) >= kept] = 0
    return q / q.sum(1, keepdims=True), g.integers(0, vocab_size, n)


def stats_of(q: Any, gold: Any, lengths: list[int] | None = None) -> NextToken:
    lengths = lengths or [len(gold)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    at = np.arange(len(gold))
    return NextToken(
        offsets, q[at, gold], (q * q).sum(1), (q > 0).sum(1), q.argmax(1), gold.astype(np.int64),
        ragged([[] for _ in lengths]), vocab_size=q.shape[1],
    )  # fmt: skip


def run_teacher_forced(metric: Metric, stats: NextToken) -> MetricResult:
    n = len(stats.offsets) - 1
    return metric.compute(features(metric, human=stats, model=stats, n_human=n, n_model=n))


# published generations


def needed(path: Path) -> Path:
    if not path.exists():
        pytest.skip(f"reference data is not beside the repository: {'/'.join(path.parts[-3:])}")
    return path


@functools.cache
def bpe():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    folder = needed(SHARED / "data/gpt2_bpe")
    made = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


@functools.cache
def published(file: str, field: str) -> tuple[str, ...]:
    """The continuations of a published file, `generation` or `reference`, as stored."""
    lines = needed(GENERATIONS / file).read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line)[field] for line in lines)
