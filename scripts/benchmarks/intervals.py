"""What the 200 draws of a metric's interval cost, beside its value: no more than three times as much is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from openended.harness.core.metric import Features, Metric
from openended.harness.core.registry import members
from openended.harness.core.resampling import Plan
from scripts.benchmarks._work import Work

N = 2000
Data = tuple[Metric, Features, Any]


def data_of(name: str, *, computed: bool) -> Callable[[], Data]:
    """Draw made-up texts; with `computed` the value too, which the draws re-use."""

    def prepare() -> Data:
        import scipy.linalg
        import scipy.sparse
        import scipy.special  # noqa: F401 - loaded before the clock starts

        from scripts.worlds import MODEL, draw

        metric: Any = members("metric")[name]()
        (features,) = draw(np.random.default_rng(0), N, metric, MODEL, samples=metric.least_samples)
        if not computed:
            warm(metric)
        return metric, features, metric.compute(features) if computed else None

    return prepare


def warm(metric: Metric) -> None:
    """Load what the metric loads at its first use."""
    from scripts.worlds import MODEL, draw

    (small,) = draw(np.random.default_rng(1), 60, metric, MODEL, samples=metric.least_samples)
    metric.compute(small)


def drawn(data: Data) -> dict[str, float]:
    """Draw all values 200 times."""
    metric, features, result = data
    made = metric.replicates(features, result, Plan())
    return {name: values.std_error() for name, values in made.items()}


def value(data: Data) -> dict[str, float]:
    """Compute the metric."""
    metric, features, _ = data
    return dict(metric.compute(features).values)


def said(ours: dict[str, float], peer: dict[str, float]) -> str:
    """Say the first value with its standard error."""
    name = next(iter(ours))
    return f"{name} {peer[name]:.4g} ± {ours[name]:.2g}"


WORKS: list[Work] = [
    Work(
        name=f"{name}, {N:,} texts, 200 draws",
        against="its value",
        ours=drawn,
        prepare=data_of(name, computed=True),
        peer=value,
        prepare_peer=data_of(name, computed=False),
        at_least=1 / 3,
        agree=said,
        clock="cpu",
        threads=1,
        repeats=1,
    )
    for name, cls in sorted(members("metric").items())
    if cls.family != "human" and not cls().reads_grid  # type: ignore[attr-defined]
]
