"""Time the 200 replicates of a metric's interval against its value; the target is at most three times as long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openended.harness.core.metric_spec import Features, Metric
from openended.harness.core.registry import load_members
from openended.harness.core.resampling import Plan
from scripts.benchmarks._work import Benchmark

N = 2000
Data = tuple[Metric, Features, Any]


def build_prepare(name: str, *, computed: bool) -> Callable[[], Data]:
    """Return a function that samples synthetic texts and, with `computed`, the value that replicates reuse."""

    def prepare() -> Data:
        import scipy.linalg
        import scipy.sparse
        import scipy.special  # noqa: F401 - loaded before the clock starts

        from scripts.worlds import MODEL, draw

        metric: Any = load_members("metric")[name]()
        (features,) = draw(np.random.default_rng(0), N, metric, MODEL, samples=metric.least_samples)
        if not computed:
            warm_up(metric)
        return metric, features, metric.compute(features) if computed else None

    return prepare


def warm_up(metric: Metric) -> None:
    """Load what the metric imports at first use."""
    from scripts.worlds import MODEL, draw

    (small,) = draw(np.random.default_rng(1), 60, metric, MODEL, samples=metric.least_samples)
    metric.compute(small)


def compute_replicates(data: Data) -> dict[str, float]:
    """Compute 200 replicates of all values."""
    metric, features, result = data
    replicates = metric.replicates(features, result, Plan())
    return {name: values.std_error() for name, values in replicates.items()}


def compute_value(data: Data) -> dict[str, float]:
    """Compute the values of the metric."""
    metric, features, _ = data
    return dict(metric.compute(features).values)


def format_interval(harness: dict[str, float], peer: dict[str, float]) -> str:
    """Format the first value with its standard error."""
    name = next(iter(harness))
    return f"{name} {peer[name]:.4g} ± {harness[name]:.2g}"


WORKS: list[Benchmark] = [
    Benchmark(
        name=f"{name}, {N:,} texts, 200 replicates",
        against="its value",
        harness=compute_replicates,
        prepare=build_prepare(name, computed=True),
        peer=compute_value,
        prepare_peer=build_prepare(name, computed=False),
        at_least=1 / 3,
        agree=format_interval,
        clock="cpu",
        threads=1,
        repeats=1,
    )
    for name, cls in sorted(load_members("metric").items())
    if cls.family != "human" and not cls().reads_grid  # type: ignore[attr-defined]
]
