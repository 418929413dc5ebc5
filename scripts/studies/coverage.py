"""Coverage of intervals and false positives of tests for every metric, on made-up or real texts; of HUSE, on ratings.

Each of many worlds (`worlds.py`) has one human side and two systems that follow one law: made-up texts on the same
prompts, or disjoint draws of docstring passages or of the texts of a file of generations. Counted are the 95 %
intervals that contain the systems' mean value at this n, and the tests at 5 % that call the two systems different,
which is always wrong. A share of 400 has a standard error of 1.1 points. Draws from a finite pool vary less than new
texts would: errors are divided by the root of the share of the pool that was not drawn.
"""

import contextlib
import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from openended.harness import core
from openended.harness.core.resampling import WILSON
from openended.metrics.huse import Huse, PairRatings, huse
from scripts.pages import ROOT, read_table, split_row
from scripts.studies.study import Study
from scripts.studies.worlds import MODEL, draw, draw_passages, load_pool

MARKS = ROOT / "harness/report/tables/coverage.yaml"
LEAST_INTERVALS = 20  # of a mark
LEFT_OUT = ("std_error", "inverse_penalty", "n_test", "p_value")
"""Values that are not estimated from texts, and standard errors of other values."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Coverage and false positives of one value."""

    key: str
    method: str
    coverage: float
    false_positives: float
    error_ratio: float  # mean standard error over the true standard deviation
    intervals: int


def simulate(
    metric: core.Metric, n: int, worlds: int, seed: int = 0, *, texts: str = "made-up", samples: int | None = None,
    seconds: float = math.inf,
) -> list[Shares]:  # fmt: skip
    """Draw worlds, and return the shares of every value of the metric."""
    samples = samples or count_needed_samples(metric)
    if not samples:
        return []
    shrink = 1.0 if texts == "made-up" else math.sqrt(1 - load_pool(texts).share_drawn(n * samples))
    values: dict[str, list[float]] = defaultdict(list)
    intervals: dict[str, list[tuple[float, core.Interval]]] = defaultdict(list)
    p_values: dict[str, list[float]] = defaultdict(list)
    start = time.process_time()
    for world in range(worlds):
        rng = np.random.default_rng([seed, world])
        if texts == "made-up":
            pair = draw(rng, n, metric, MODEL, MODEL, samples=samples)
        else:
            pair = draw_passages(rng, n, metric, samples, texts)
        if pair is None:  # the metric needs features that these texts do not have
            return []
        systems = [resample_values(metric, features) for features in pair]
        for key, (value, _, interval) in (item for system in systems for item in system.items()):
            values[key].append(value)
            intervals[key] += [(value, interval)] if interval is not None else []  # none without variation, as in a run
        for key in systems[0].keys() & systems[1].keys():
            (a, first, _), (b, second, _) = systems[0][key], systems[1][key]
            difference = core.combine_replicates((1.0, -1.0), (first, second))
            p_values[key] += [difference.p_value(a - b)] if difference is not None else []
        if time.process_time() - start > seconds:
            break
    return [count_shares(k, values[k], intervals[k], p_values[k], shrink) for k in intervals if intervals[k]]


def resample_values(
    metric: core.Metric, features: core.Features
) -> dict[str, tuple[float, core.Replicates, core.Interval | None]]:
    """Return every value of a system with its replicates and interval; those without finite replicates are left out."""
    prepared = metric.prepare(features)
    result = metric.evaluate(features, prepared)
    prompts = result.arrays.get("prompts")
    resampled = {}
    for key, draws in metric.replicates(features, result, core.Plan(), prepared).items():
        if key in result.values and np.isfinite(draws.draws).all():
            replicates = replace(draws, prompts=len(set(features.model.ids)))
            value, rows = result.values[key], metric.rows_of(key, result)
            bounds, is_share = metric.bounds_of(key, result), key in metric.shares
            interval = core.estimate_interval(replicates, value, bounds, rows, prompts, is_share=is_share)
            resampled[key] = value, replicates, interval
    return resampled


def count_shares(
    key: str, values: Sequence[float], intervals: Sequence[tuple[float, core.Interval]], p_values: Sequence[float],
    shrink: float,
) -> Shares:  # fmt: skip
    """Count the intervals, each with its value, that contain the mean of all values, and the p-values below 5 %."""
    shrink = 1.0 if intervals[-1][1].method == WILSON else shrink  # counts of a few texts have no scale
    target, deviation = float(np.mean(values)), float(np.std(values, ddof=1)) / shrink
    covered = float(np.mean([i.low <= value + (target - value) / shrink <= i.high for value, i in intervals]))
    error = float(np.sqrt(np.mean([i.std_error**2 for _, i in intervals])))
    ratio = error / deviation if deviation > 0 else math.nan
    wrong = float(np.mean(np.array(p_values) < 0.05)) if p_values else math.nan
    return Shares(key, intervals[-1][1].method, covered, wrong, ratio, len(intervals))


def count_needed_samples(metric: core.Metric) -> int:
    """Return how many texts per prompt the metric needs; 0 if it has no value for one system alone."""
    for samples in (1, 3):
        (features,) = draw(np.random.default_rng(0), 60, metric, MODEL, samples=samples)
        with contextlib.suppress(core.UndefinedMetric):
            metric.compute(features)
            return samples
    return 0


def list_metrics() -> list[str]:
    """Return the names of the metrics that read texts."""
    return sorted(name for name, cls in core.load_members("metric").items() if getattr(cls, "family", "") != "human")


def compute_coverages(
    name: str, worlds: int = 400, n: int = 200, texts: str = "made-up", samples: int = 0, fixed_tokens: int = 0,
    seconds: float = math.inf,
) -> Iterator[list[str]]:  # fmt: skip
    """Yield a row for each value of a metric; shares outside 92 to 98 %, or 4 to 6 %, are bold.

    texts: made-up, docs, or a file of references and generations; samples: texts per prompt (default: as many as the
    metric needs); fixed_tokens: texts are cut to this length where a metric can; seconds: of CPU time for each metric.
    """
    cls: Any = core.load_members("metric")[name]
    metric: core.Metric = cls(
        **({"fixed_tokens": fixed_tokens} if fixed_tokens and hasattr(cls, "fixed_tokens") else {})
    )
    title = f"{name} ({samples} samples)" if samples > 1 and metric.least_samples == 1 else name
    for shares in simulate(metric, n, worlds, texts=texts, samples=samples, seconds=seconds):
        if shares.key in LEFT_OUT:
            continue
        percents = [
            "–" if math.isnan(share) else f"{100 * share:.1f}" if low <= share <= high else f"**{100 * share:.1f}**"
            for share, low, high in ((shares.coverage, 0.92, 0.98), (shares.false_positives, 0.04, 0.06))
        ]
        ratio = "–" if math.isnan(shares.error_ratio) else f"{shares.error_ratio:.2f}"
        yield [title, shares.key, shares.method, str(n), str(shares.intervals), *percents, ratio]


def write_marks(page: Path, marks: Path = MARKS) -> None:
    """Write the least and the greatest coverage, by value and n, of the page's tables of real texts."""
    shares: dict[str, dict[str, dict[int, list[int]]]] = {}
    text = page.read_text(encoding="utf-8")
    for heading in re.findall(r"<!-- (measured on .*) -->", text):
        for row in read_table(text, heading)[2:]:
            name, key, _, n, count, coverage, _, ratio = (cell.strip("*") for cell in split_row(row))
            if "–" not in (coverage, ratio) and int(count) >= LEAST_INTERVALS:
                percents = shares.setdefault(name, {}).setdefault(key, {}).setdefault(int(n), [])
                percents[:] = min([*percents, round(float(coverage))]), max([*percents, round(float(coverage))])
    lines = [f"{name}: {json.dumps(keys)}".replace('"', "") for name, keys in sorted(shares.items())]
    marks.write_text(
        "\n".join(["# Written by python -m scripts.studies coverage --write", *lines]) + "\n", encoding="utf-8"
    )


def name_table(options: dict[str, Any]) -> str:
    """Return the heading of the table for these texts."""
    heading = "measured" if options["texts"] == "made-up" else f"measured on {Path(options['texts']).stem}"
    return heading + (f", {options['fixed_tokens']} tokens each" if options["fixed_tokens"] else "")


_PAGE = {"page": "docs/statistics.md", "heading": name_table}
COVERAGE = Study(titles=list_metrics, compute=compute_coverages, **_PAGE, columns=(0, 3), finish=write_marks)

# HUSE: studies of 100 examples with a human and a model text and 20 ratings per text, from 1 to 6. A text has a quality
# and a log-probability per token, both normal; those of the model are shifted.

EXAMPLES, RATERS = 100, 20
IDS = [f"study/{number:03d}" for number in range(EXAMPLES)]
LAWS = {"equal": (0.0, 0.0), "lower quality and diversity": (1.3, 1.3), "far apart": (3.3, 3.3), "farther": (3.8, 3.8)}
"""Shifts of quality and of the log-probability per token, in standard deviations."""
BOUNDS = {"huse": (0.0, 2.0), "huse_q": (0.0, 2.0), "huse_d": (-1.0, 3.0)}
SHARE = 0.3  # of the examples in a subset, as in a run


def draw_study(rng: np.random.Generator, quality: float, diversity: float) -> PairRatings:
    """Draw the ratings and log-probabilities of the human texts and of those of a model."""
    shifts = np.repeat([0.0, 1.0], EXAMPLES)
    rated = 3.5 - quality * shifts + rng.standard_normal(2 * EXAMPLES)
    ratings = np.clip(np.round(rated[:, None] + 1.5 * rng.standard_normal((2 * EXAMPLES, RATERS))), 1, 6)
    lengths = rng.integers(20, 60, 2 * EXAMPLES).astype(np.float64)
    log_probs = (-3.0 + 0.5 * (diversity * shifts + rng.standard_normal(2 * EXAMPLES))) * lengths
    return PairRatings(tuple(IDS), ratings, log_probs, lengths)


def compute_huse_coverage(law: str, worlds: int = 300) -> Iterator[list[str]]:
    """Yield the row of a law: mean HUSE, and coverage and error of HUSE, HUSE-Q and HUSE-D in many studies."""
    rule, plan, number = Huse(), core.Plan(), list(LAWS).index(law)
    values: dict[str, list[float]] = {name: [] for name in BOUNDS}
    intervals: dict[str, list[tuple[float, core.Interval]]] = {name: [] for name in BOUNDS}
    for world in range(worlds):
        rated = draw_study(np.random.default_rng([number, world]), *LAWS[law])
        scores = huse(**rated.columns(), k=rule.k)
        subsets = rule.score(rated, *[plan.subsets(IDS, SHARE)] * 2)
        for name, bounds in BOUNDS.items():
            values[name].append(float(getattr(scores, name)))
            replicates = plan.build_subset_replicates(IDS, SHARE, subsets[name])
            rows = {"huse": 2 * scores.errors, "huse_q": 2 * scores.errors_q}.get(name)
            interval = core.estimate_interval(replicates, values[name][-1], bounds, rows, is_share=True)
            intervals[name] += [(values[name][-1], interval)] if interval is not None else []
    shares = [count_shares(name, values[name], intervals[name], (), 1.0) for name in BOUNDS]
    covered, ratios = (
        ", ".join(cells)
        for cells in zip(*((f"{100 * s.coverage:.1f}", f"{s.error_ratio:.2f}") for s in shares), strict=True)
    )
    yield [law, f"{np.mean(values['huse']):.2f}", f"{covered} %", ratios]


HUSE = Study(titles=lambda: LAWS, compute=compute_huse_coverage, page="docs/metrics/huse.md", heading="measured")
