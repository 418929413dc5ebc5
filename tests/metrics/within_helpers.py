"""What the tests of the metrics of several texts a prompt share: random sides, and running a metric on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openended.harness.core.metric_spec import Features, Metric, Side
from openended.harness.core.resampling import LEAST, Plan
from openended.harness.core.types import F64, MetricResult
from tests.helpers import ragged


def sizes_of(seed: int) -> list[str]:
    """Prompts of one to five texts, mixed; at least one has two."""
    g = np.random.default_rng(seed)
    ids = [f"p/{i}" for i, n in enumerate(g.integers(1, 6, 8)) for _ in range(n)] + ["p/x", "p/x"]
    return [ids[i] for i in g.permutation(len(ids))]


def vectors(n: int, seed: int = 0, d: int = 4) -> F64:
    return np.random.default_rng(seed).normal(size=(n, d)) + 0.5


def tokens(n: int, seed: int = 0) -> list[list[int]]:
    g = np.random.default_rng(seed)
    return [g.integers(0, 5, int(g.integers(0, 9))).tolist() for _ in range(n)]


def run(metric: Metric, ids: Sequence[str], data: Mapping[str, Any], others: Sequence[Side] = ()) -> MetricResult:
    """Compute a metric of one system's rows; features by kind."""
    made = {k: ragged(v) if k == "tokens" else v for k, v in data.items()}
    side = Side("model", tuple(ids), {need: made[need.kind] for need in metric.needs()})
    return metric.compute(Features(side, side, {"n": str(len(ids))}, others))


def check_rows(result: MetricResult, key: str) -> None:
    """The values by row average to the value: what tests and intervals over examples rest on; and so there are draws."""
    rows = result.per_example[key]
    np.testing.assert_allclose(np.nanmean(rows), result.values[key], rtol=1e-12)
    drawn = Plan(40).means([f"p/{i}" for i in range(len(rows))], {key: rows}, result.values)
    assert key in drawn
    assert len(rows) < LEAST or np.isfinite(drawn[key].std_error())
