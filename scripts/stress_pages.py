#!/usr/bin/env python
"""Write what `openended stress` measured on docs into the documentation: docs/stress.md and every metric's page.

Reads harness/assets/stress_docs.csv (`stress.csv` of the report; `--csv` puts its main values there). `--check` changes
nothing and exits with 1 if a page is stale.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openended.harness.app.stress_reference import StressRow, find_smallest, load_stress_rows  # noqa: E402
from scripts.readme import rewrite  # noqa: E402

TABLE = ROOT / "harness/assets/stress_docs.csv"
# Values kept in the package.
SHOWN = (
    "mauve", "frechet", "kid", "knn_precision_recall.precision", "knn_precision_recall.recall",
    "clipped_density_coverage.clipped_density", "clipped_density_coverage.clipped_coverage", "energy_distance",
    "typicality", "gen_ppl", "gen_ppl.entropy", "rank_histogram", "face.so", "distinct_n.distinct_2",
    "entropy.entropy_1", "repetition.loop_rate", "self_bleu.self_bleu_4", "zipf", "compression_ratio", "length",
    "novelty.novelty_4", "overused_phrases.overused_words",
)  # fmt: skip


def format_overview(rows: Sequence[StressRow]) -> str:
    """Return one table per embedder: values by damages."""
    parts = []
    for embedder in sorted({row.embedder for row in rows}):
        columns = [(m, embedder) for m in SHOWN if any((m, embedder) == (row.metric, row.embedder) for row in rows)]
        title = f"Embedder `{embedder}`" if embedder else "Without an embedder"
        parts += [f"### {title}", "", *_format_table(rows, columns, [f"`{metric}`" for metric, _ in columns]), ""]
    return "\n".join(parts).rstrip()


def format_metric(name: str, rows: Sequence[StressRow]) -> str:
    """Return a metric's own rows: values (by embedder) and the smallest strength of each damage."""
    metric_rows = [row for row in rows if row.metric.partition(".")[0] == name]
    columns = list(dict.fromkeys((row.metric, row.embedder) for row in metric_rows))
    labels = [f"`{metric}`{f', {embedder}' if embedder else ''}" for metric, embedder in columns]
    about = (
        "Smallest strength of a damage to human text that is detected at 5 %, in percent, n = 500 on `docs` "
        "([all metrics](../stress.md)); no: not at any strength measured."
    )
    return "\n".join(["## What it detects", "", about, "", *_format_table(metric_rows, columns, labels)])


def _format_table(rows: Sequence[StressRow], columns: Sequence[tuple[str, str]], labels: Sequence[str]) -> list[str]:
    """Return a table of values (metric, embedder) by damages."""
    smallest = find_smallest(rows)
    lines = [f"| damage | {' | '.join(labels)} |", "| --- |" + " ---: |" * len(labels)]
    for damage in dict.fromkeys(row.damage for row in rows if row.strength):
        cells = [smallest.get((metric, embedder, damage), "–") for metric, embedder in columns]
        lines.append(f"| {damage.replace('_', ' ')} | {' | '.join(cells)} |")
    return lines


def update_pages(*, check: bool) -> list[str]:
    """Write the blocks; return the pages that were stale."""
    rows = load_stress_rows()
    blocks = {ROOT / "docs/stress.md": ("STRESS", format_overview(rows))}
    for name in sorted({row.metric.partition(".")[0] for row in rows}):
        blocks[ROOT / f"docs/metrics/{name}.md"] = ("STRESS", format_metric(name, rows))
    stale = []
    for page, (mark, body) in blocks.items():
        old = page.read_text(encoding="utf-8")
        text = old if f"<!-- {mark} -->" in old else f"{old.rstrip()}\n\n<!-- {mark} -->\n<!-- /{mark} -->\n"
        new = rewrite(str(page), text, {mark: body})
        if new != old:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(new, encoding="utf-8")
    return stale


def main() -> int:
    """Update or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a page is stale")
    parser.add_argument("--csv", type=Path, help="stress.csv of a report: becomes the table of the package")
    options = parser.parse_args()
    if options.csv:
        head, *lines = options.csv.read_text(encoding="utf-8").splitlines()
        TABLE.write_text("\n".join([head, *(x for x in lines if x.split(",")[0] in SHOWN)]) + "\n", encoding="utf-8")
    stale = update_pages(check=options.check)
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
