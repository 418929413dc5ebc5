"""Measure the coverage of intervals and the false positives of tests for every metric, on made-up or real texts.

    python scripts/coverage.py [--draws 400] [--n 200] [--metrics mauve,zipf] [--texts made-up|docs|FILE] [--samples 1]
                               [--seconds 60] [--fixed-tokens 48] [--write docs/statistics.md]

Each of many worlds (`scripts/worlds.py`) has one human side and two systems that follow one law: made-up texts on the
same prompts, or disjoint draws of docstring passages or of the texts of a file of generations. The script counts the
95 % intervals that contain the systems' mean value at this n, and the tests at 5 % that call the two systems different,
which is always wrong.
A share of 400 has a standard error of 1.1 points. Draws from a finite pool vary less than new texts would: errors are
divided by the root of the share of the pool that was not drawn.
"""

import argparse
import contextlib
import json
import math
import re
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from openended.harness.core.errors import UndefinedMetric
from openended.harness.core.interfaces import Features, Metric
from openended.harness.core.registry import load_members
from openended.harness.core.resampling import WILSON, Interval, Plan, Replicates, combine_replicates, estimate_interval

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.worlds import MODEL, draw, draw_passages, load_pool

MARKS = Path(__file__).resolve().parents[1] / "harness/report/tables/coverage.yaml"
LEAST_INTERVALS = 20  # of a mark
END = "<!-- end -->"
LEFT_OUT = ("std_error", "inverse_penalty", "n_test", "p_value")
"""Values that are not estimated from texts, and standard errors of other values."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Coverage and false positives of one value."""

    metric: str
    key: str
    method: str
    n: int
    coverage: float
    false_positives: float
    error_ratio: float  # mean standard error over the true standard deviation
    intervals: int


def simulate(
    metric: Metric, n: int, worlds: int, seed: int = 0, *, texts: str = "made-up", samples: int | None = None,
    seconds: float = math.inf,
) -> list[Shares]:  # fmt: skip
    """Draw worlds, and return the shares of every value of the metric."""
    samples = samples or count_needed_samples(metric)
    if not samples:
        return []
    shrink = 1.0 if texts == "made-up" else math.sqrt(1 - load_pool(texts).share_drawn(n * samples))
    values: dict[str, list[float]] = defaultdict(list)
    intervals: dict[str, list[tuple[float, Interval]]] = defaultdict(list)
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
            difference = combine_replicates((1.0, -1.0), (first, second))
            p_values[key] += [difference.p_value(a - b)] if difference is not None else []
        if time.process_time() - start > seconds:
            break
    name = metric.name if samples == 1 or metric.least_samples > 1 else f"{metric.name} ({samples} samples)"
    return [_count(name, k, n, values[k], intervals[k], p_values[k], shrink) for k in intervals if intervals[k]]


def resample_values(metric: Metric, features: Features) -> dict[str, tuple[float, Replicates, Interval | None]]:
    """Return every value of a system with its replicates and interval; those without finite replicates are left out."""
    prepared = metric.prepare(features)
    result = metric.evaluate(features, prepared)
    prompts = result.arrays.get("prompts")
    resampled = {}
    for key, draws in metric.replicates(features, result, Plan(), prepared).items():
        if key in result.values and np.isfinite(draws.draws).all():
            replicates = replace(draws, prompts=len(set(features.model.ids)))
            value, rows = result.values[key], metric.rows_of(key, result)
            bounds, is_share = metric.bounds_of(key, result), key in metric.shares
            interval = estimate_interval(replicates, value, bounds, rows, prompts, is_share=is_share)
            resampled[key] = value, replicates, interval
    return resampled


def _count(
    metric: str, key: str, n: int, values: list[float], intervals: list[tuple[float, Interval]], p_values: list[float],
    shrink: float,
) -> Shares:  # fmt: skip
    shrink = 1.0 if intervals[-1][1].method == WILSON else shrink  # counts of a few texts have no scale
    target, deviation = float(np.mean(values)), float(np.std(values, ddof=1)) / shrink
    covered = float(np.mean([i.low <= value + (target - value) / shrink <= i.high for value, i in intervals]))
    error = float(np.sqrt(np.mean([i.std_error**2 for _, i in intervals])))
    ratio = error / deviation if deviation > 0 else math.nan
    wrong = float(np.mean(np.array(p_values) < 0.05))
    return Shares(metric, key, intervals[-1][1].method, n, covered, wrong, ratio, len(intervals))


def count_needed_samples(metric: Metric) -> int:
    """Return how many texts a prompt the metric needs; 0 if it has no value for one system alone."""
    for samples in (1, 3):
        (features,) = draw(np.random.default_rng(0), 60, metric, MODEL, samples=samples)
        with contextlib.suppress(UndefinedMetric):
            metric.compute(features)
            return samples
    return 0


def format_table(rows: Sequence[Shares]) -> str:
    """Format the shares as Markdown; shares outside the bands are bold."""
    lines = [
        "| metric | value | method | n | intervals | coverage of 95 % | false positives at 5 % | s.e. / true s.d. |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in rows:
        covered, wrong = (
            "–" if math.isnan(share) else f"{100 * share:.1f}" if low <= share <= high else f"**{100 * share:.1f}**"
            for share, low, high in ((r.coverage, 0.92, 0.98), (r.false_positives, 0.04, 0.06))
        )
        ratio = "–" if math.isnan(r.error_ratio) else f"{r.error_ratio:.2f}"
        lines.append(f"| {r.metric} | {r.key} | {r.method} | {r.n} | {r.intervals} | {covered} | {wrong} | {ratio} |")
    return "\n".join(lines)


def read_rows(page: Path, heading: str) -> list[str]:
    """Return the lines of a page's table under its two lines of column names."""
    return page.read_text(encoding="utf-8").partition(f"<!-- {heading} -->\n")[2].partition(END)[0].splitlines()[2:]


def replace_rows(page: Path, heading: str, rows: Sequence[str], columns: Sequence[int]) -> None:
    """Replace the rows of a page's table that agree with new ones in some columns, and add those that are new."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for part in (read_rows(page, heading), rows):
        by_key: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for row in part:
            by_key[tuple(row.split("|")[at] for at in columns)].append(row)
        groups |= by_key
    before, mark, after = page.read_text(encoding="utf-8").partition(f"<!-- {heading} -->\n")
    if not mark:
        raise SystemExit(f"{page}: no table under <!-- {heading} -->; add this line and the two lines of column names")
    table, end, after = after.partition(END)
    lines = [*table.splitlines()[:2], *(row for group in groups.values() for row in group)]
    page.write_text(before + mark + "\n".join(lines) + "\n" + end + after, encoding="utf-8")


def write_marks(page: Path, marks: Path = MARKS) -> None:
    """Write the least and the greatest coverage, by value and n, of the page's tables of real texts."""
    shares: dict[str, dict[str, dict[int, list[int]]]] = {}
    for heading in re.findall(r"<!-- (measured on .*) -->", page.read_text(encoding="utf-8")):
        for row in read_rows(page, heading):
            name, key, _, n, count, coverage, _, ratio = (cell.strip(" *") for cell in row.split("|")[1:-1])
            if "–" not in (coverage, ratio) and int(count) >= LEAST_INTERVALS:
                percents = shares.setdefault(name, {}).setdefault(key, {}).setdefault(int(n), [])
                percents[:] = min([*percents, round(float(coverage))]), max([*percents, round(float(coverage))])
    lines = [f"{name}: {json.dumps(keys)}".replace('"', "") for name, keys in sorted(shares.items())]
    marks.write_text("\n".join(["# Written by scripts/coverage.py --write", *lines]) + "\n", encoding="utf-8")


def main() -> None:
    """Run the simulations and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--metrics", default="")
    parser.add_argument("--texts", default="made-up", help="made-up, docs, or a file of references and generations")
    parser.add_argument("--seconds", type=float, default=math.inf, help="CPU seconds for each metric")
    parser.add_argument("--samples", type=int, help="texts a prompt; default: as many as the metric needs")
    parser.add_argument("--fixed-tokens", type=int, help="cut texts to this length where a metric can")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    names = [name for name in options.metrics.split(",") if name]
    rows: list[Shares] = []
    for name, cls in sorted(load_members("metric").items()):
        if (names and name not in names) or cls.family == "human":  # type: ignore[attr-defined]
            continue
        start = time.process_time()
        arguments = {option: getattr(options, option) for option in ("texts", "samples", "seconds")}
        cut = {"fixed_tokens": options.fixed_tokens} if options.fixed_tokens and hasattr(cls, "fixed_tokens") else {}
        shares = simulate(cls(**cut), options.n, options.draws, **arguments)  # type: ignore[arg-type]
        rows += [row for row in shares if row.key not in LEFT_OUT]
        print(f"{name}: {time.process_time() - start:.1f} s", flush=True)
        print("\n".join(format_table([row]).splitlines()[-1] for row in shares), flush=True)
    if options.write:
        heading = "measured" if options.texts == "made-up" else f"measured on {Path(options.texts).stem}"
        heading += f", {options.fixed_tokens} tokens each" if options.fixed_tokens else ""
        replace_rows(options.write, heading, format_table(rows).splitlines()[2:], columns=(1, 4))
        write_marks(options.write)


if __name__ == "__main__":
    main()
