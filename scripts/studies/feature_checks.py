"""Check two-sample metrics where the right answer is known: Gaussian mixtures in place of embedded texts.

Differences are measured on a metric's own scale: 0 is the best possible value, 1 that of two laws that are far apart.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress

import numpy as np

from openended.harness.core import F64, Features, Metric, Side, UndefinedMetric, load_members
from openended.metrics.families import TwoSample
from scripts.studies.study import Study

TOLERANCE = 0.05  # of the metric's scale
SEEDS = 6
MODES = 5
BEST = {"accuracy": 0.5, "auth_pct": 100.0, "typicality": 0.5}  # of values whose best is not 0 or 1
COLUMNS = {
    "knn_precision_recall": ("precision", "recall", "density", "coverage"),
    "mauve": ("mauve", "frontier_integral"),
}  # of metrics with many values

Sample = Callable[[np.random.Generator, int, int], F64]  # from a generator, a number of rows and a dimension to rows


@dataclasses.dataclass(frozen=True)
class Probe:
    """One value of one metric, as a function of two samples."""

    metric: Metric
    n: int
    dimension: int
    key: str = ""

    def compute(self, human: F64, model: F64) -> dict[str, float]:
        """Return all values of the metric; none where it is undefined."""
        (need,) = self.metric.needs()
        sides = [
            Side(name, [f"{name}/{i:06d}" for i in range(len(rows))], {need: rows.astype(np.float32)})
            for name, rows in (("human", human), ("model", model))
        ]
        with suppress(UndefinedMetric):
            return dict(self.metric.compute(Features(*sides)).values)
        return {}

    def value(self, human: F64, model: F64) -> float:
        """Return the value; NaN where it is undefined."""
        return self.compute(human, model).get(self.key, np.nan)

    def values(self, human: Sample, model: Sample, n: int | None = None, dimension: int | None = None) -> F64:
        size = n or self.n, dimension or self.dimension
        rngs = [np.random.default_rng(seed) for seed in range(SEEDS)]
        return np.array([self.value(human(rng, *size), model(rng, *size)) for rng in rngs])

    def best(self) -> float:
        if (target := self.metric.target_of(self.key)) is not None:
            return target
        return BEST.get(self.key, 1.0 if self.metric.best_of(self.key) == "higher" else 0.0)


def sample_normal(rng: np.random.Generator, n: int, d: int) -> F64:
    """Draw from a standard normal."""
    return rng.normal(size=(n, d))


def sample_modes(first: int, last: int) -> Sample:
    """Return a sampler of some modes of a mixture; mode i is at 6 times a fixed direction."""

    def sample(rng: np.random.Generator, n: int, d: int) -> F64:
        centers = np.random.default_rng(99).normal(size=(MODES + 1, d))
        centers *= 6.0 / np.linalg.norm(centers, axis=1, keepdims=True)
        return rng.normal(size=(n, d)) + centers[rng.integers(first, last, size=n)]

    return sample


def sample_with_bad(share: float, distance: float) -> Sample:
    """Return a sampler of a standard normal with a share of rows far away."""

    def sample(rng: np.random.Generator, n: int, d: int) -> F64:
        rows = rng.normal(size=(n, d))
        rows[: round(share * n)] += distance
        return rows

    return sample


@functools.cache
def list_probes(n: int = 60, dimension: int = 4) -> dict[str, Probe]:
    """Return title → every value of every two-sample metric of embeddings that has a best value."""
    probes = {}
    for cls in load_members("metric").values():
        if not issubclass(cls, TwoSample) or cls.least_samples > 1 or cls.sides != "two":
            continue
        metric = cls(**({"space": "embeddings", "permutations": 0} if hasattr(cls, "space") else {}))
        if metric.reads_grid or {need.kind for need in metric.needs()} != {"embeddings"}:
            continue
        probe, rng = Probe(metric, n, dimension), np.random.default_rng(0)
        values = probe.compute(sample_normal(rng, n, dimension), sample_normal(rng, n, dimension))
        for key in COLUMNS.get(metric.name) or [k for k in values if k in metric.titles or k == metric.name]:
            if metric.best_of(key) != "none":
                title = f"`{metric.name}`" if key == metric.name else f"`{metric.name}.{key}`"
                probes[title] = dataclasses.replace(probe, key=key)
    return probes


def check_probe(probe: Probe) -> dict[str, bool]:
    """Return check → whether the value passes it."""
    alike, far = (probe.values(sample_normal, sample) for sample in (sample_normal, sample_with_bad(1.0, 10.0)))
    scale = float(np.nanmean(far)) - probe.best()
    if not np.isfinite(scale) or scale == 0:
        return {}

    def is_near(a: float, b: float) -> bool:
        return bool(abs(a - b) <= TOLERANCE * abs(scale))

    def is_seen(values: F64, usual: F64) -> bool:
        """Return whether the values differ from the usual ones in a single sample, at about 5 %."""
        return bool(abs(values.mean() - usual.mean()) > 2 * np.hypot(values.std(ddof=1), usual.std(ddof=1)))

    def average(model: Sample = sample_normal, **size: int) -> float:
        return float(probe.values(sample_normal, model, **size).mean())

    n, d, rng = probe.n, probe.dimension, np.random.default_rng(7)
    human, model = sample_normal(rng, n, d), sample_with_bad(0.3, 3.0)(rng, n, d)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    plain = probe.value(human, model)
    dropped, usual, invented = (
        probe.values(sample_modes(0, MODES), sample_modes(*ends)) for ends in ((1, MODES), (0, MODES), (0, MODES + 1))
    )
    usual_mean = float(alike.mean())
    return {
        "identical laws": is_near(usual_mean, probe.best()),
        "scaling": is_near(probe.value(10 * human, 10 * model), plain),
        "rotation": is_near(probe.value(human @ rotation, model @ rotation), plain),
        "dropped mode": is_seen(dropped, usual), "invented mode": is_seen(invented, usual),
        "swapped sides": is_near(probe.value(model, human), plain),
        "2 to 64 dimensions": is_near(average(dimension=2), average(dimension=64)),
        "number of samples": is_near(average(n=n // 4), average(n=n * 2)),
        "1 % outliers": is_near(average(sample_with_bad(0.01, 100.0)), usual_mean),
        "linear in bad share": is_near(average(sample_with_bad(0.5, 10.0)), (usual_mean + float(np.nanmean(far))) / 2),
    }  # fmt: skip


def compute_checks(title: str, n: int = 300, dimension: int = 16) -> Iterator[list[str]]:
    """Yield the row of a value of a two-sample metric of embeddings: which checks it passes, and how many."""
    warnings.simplefilter("ignore")
    if checks := check_probe(dataclasses.replace(list_probes()[title], n=n, dimension=dimension)):
        marks = ["✓" if passed else "–" for passed in checks.values()]
        yield [title, *marks, f"{sum(checks.values())} of {len(checks)}"]


FEATURES = Study(titles=list_probes, compute=compute_checks, page="docs/stress.md", heading="features")
