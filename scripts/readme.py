#!/usr/bin/env python
"""Update the generated blocks of README.md, paper and docs: names, counts, tables and what metrics detect.

A block is the text between `<!-- NAME -->` and `<!-- /NAME -->`; blocks `STRESS` show harness/assets/stress_docs.csv.
"""

import argparse
import dataclasses
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from openended.harness.app.commands.list import describe_state, read_papers
from openended.harness.app.stress_reference import StressRow, find_smallest, load_stress_rows
from openended.harness.core.interfaces import Metric
from openended.harness.core.registry import load_members
from openended.harness.decoders.base import SamplingDecoder
from scripts.pages import ROOT, format_table, replace_block

STRESS_TABLE = ROOT / "harness/assets/stress_docs.csv"
# Values kept in the package.
SHOWN = (
    "mauve frechet kid knn_precision_recall.precision knn_precision_recall.recall "
    "clipped_density_coverage.clipped_density clipped_density_coverage.clipped_coverage energy_distance typicality "
    "gen_ppl gen_ppl.entropy rank_histogram face.so distinct_n.distinct_2 entropy.entropy_1 repetition.loop_rate "
    "self_bleu.self_bleu_4 zipf compression_ratio length novelty.novelty_4 overused_phrases.overused_words"
).split()


def first_docstring_line(thing: object) -> str:
    """Return the first line of a docstring without its period."""
    return (inspect.getdoc(thing) or "").split("\n")[0].rstrip(".")


def list_needs(metric: Metric) -> str:
    """List the features that a metric reads, and the models that make them."""
    return ", ".join(dict.fromkeys(n.kind + (f" by {n.by}" if n.by else "") for n in metric.needs()))


def format_metrics() -> str:
    """Format one row per metric: name, meaning, needs, direction, range."""
    arrows = {"higher": "↑", "lower": "↓", "match_human": "≈ human"}
    rows = []
    for name, cls in load_members("metric").items():
        metric: Metric = cls()
        reads = list_needs(metric)
        low, high = (f"{bound:g}".replace("-inf", "−∞").replace("inf", "∞") for bound in metric.bounds)
        meaning = first_docstring_line(inspect.getmodule(cls))
        page = f"metrics/{name}.md"
        title = f"[`{name}`]({page})" if (ROOT / "docs" / page).is_file() else f"`{name}`"
        rows.append((title, meaning, reads, arrows[metric.direction], f"{low} to {high}"))
    return format_table(("metric", "measures", "reads", "better", "range"), rows)


def format_decoders() -> str:
    """Format one row per decoder: name, what it does, parameters."""
    rows = []
    shared = {f.name for f in dataclasses.fields(SamplingDecoder)}
    for name, cls in load_members("decoder").items():
        fields = [f.name for f in dataclasses.fields(cls) if f.name not in shared or f.name in cls.title_fields]
        parameters = ", ".join(f"`{f}`" for f in fields) or "–"
        rows.append((f"`{name}`", first_docstring_line(cls), parameters, "yes" if cls.has_q else "–"))
    return format_table(("decoder", "what it does", "parameters", "Q"), rows)


def format_tasks() -> str:
    """Format one row per task: contents, source, size, license, files, command."""
    rows = []
    for name, cls in load_members("task").items():
        facts = [getattr(cls, f, "–") for f in ("source", "size", "license", "obtained")]
        rows.append((f"`{name}`", first_docstring_line(cls), *facts, f"`{cls.command}`"))
    return format_table(("task", "contents", "source", "size", "license", "files", "command"), rows)


FAMILIES = {"two_sample": "distance of two sets of texts", "scored": "likelihood under a model"}
FAMILIES |= {"text": "statistics of a text", "teacher_forced": "a decoder's Q on human text"}
FAMILIES |= {"human": "judgments of people"}


def format_names() -> str:
    """Format the names of all metrics by what they measure, with links to their pages; decoders and tasks."""
    rows = ["| | |", "| --- | --- |"]
    metrics = load_members("metric")
    pages = {n: page if (ROOT / (page := f"docs/metrics/{n}.md")).is_file() else f"metrics/{n}.py" for n in metrics}
    for family, meaning in FAMILIES.items():
        links = (f"[{n}]({pages[n]})" for n, cls in metrics.items() if getattr(cls, "family", "") == family)
        rows.append(f"| **Metrics**: {meaning} | {', '.join(links)} |")
    for group, heading in (("decoder", "Decoders"), ("task", "Tasks")):
        rows.append(f"| [**{heading}**](docs/reference.md#{group}s) | {', '.join(load_members(group))} |")
    return "\n".join(rows)


def format_counts() -> str:
    """Format how many metrics, decoders and tasks there are."""
    metrics, decoders, tasks = (len(load_members(group)) for group in ("metric", "decoder", "task"))
    return f"It has {metrics} metrics, {decoders} decoders and {tasks} tasks."


def format_papers() -> str:
    """Format one table per paper: what each table and figure shows, its experiment, and what it needs."""
    blocks = []
    for paper in read_papers().values():
        made_by = [
            item.get("experiment", f"openended {item['command']}" if "command" in item else "")
            for item in paper["items"]
        ]
        names = [f"`{name}`" if name else "–" for name in made_by]
        rows = [(i["item"], i["shows"], name, describe_state(i)) for i, name in zip(paper["items"], names, strict=True)]
        blocks.append(f"## {paper['title']}\n\n{format_table(('item', 'shows', 'experiment', 'runs'), rows)}")
    return "\n\n".join(blocks)


def extract_table(report: str) -> str:
    """Return the table of a report with its legend and footnotes, without notes and signatures."""
    lines = [line for line in report.splitlines() if line.startswith(("|", "↑", "↓", "≈", "→", "Bold", "<sup>"))]
    at = next(i for i, line in enumerate(lines) if not line.startswith("|"))
    return "\n".join(lines[:at]) + "\n\n" + "\n\n".join(lines[at:])


def format_stress_overview() -> str:
    """Format one table per embedder: values by perturbations."""
    rows, parts = load_stress_rows(), []
    for embedder in sorted({row.embedder for row in rows}):
        columns = [(m, embedder) for m in SHOWN if any((m, embedder) == (row.metric, row.embedder) for row in rows)]
        title = f"Embedder `{embedder}`" if embedder else "Without an embedder"
        parts += [f"### {title}", "", *_format_stress(rows, columns, [f"`{metric}`" for metric, _ in columns]), ""]
    return "\n".join(parts).rstrip()


def format_stress_of_metric(name: str) -> str:
    """Format a metric's own rows: values (by embedder) and the smallest strength of each perturbation."""
    rows = [row for row in load_stress_rows() if row.metric.partition(".")[0] == name]
    columns = list(dict.fromkeys((row.metric, row.embedder) for row in rows))
    labels = [f"`{metric}`{f', {embedder}' if embedder else ''}" for metric, embedder in columns]
    about = (
        "Smallest strength of a perturbation of human text that is detected at 5 %, in percent, n = 500 on `docs` "
        "([all metrics](../stress.md)); no: not at any strength measured."
    )
    return "\n".join(["## What it detects", "", about, "", *_format_stress(rows, columns, labels)])


def _format_stress(rows: Sequence[StressRow], columns: Sequence[tuple[str, str]], labels: Sequence[str]) -> list[str]:
    smallest = find_smallest(rows)
    lines = [f"| perturbation | {' | '.join(labels)} |", "| --- |" + " ---: |" * len(labels)]
    for perturbation in dict.fromkeys(row.perturbation for row in rows if row.strength):
        cells = [smallest.get((metric, embedder, perturbation), "–") for metric, embedder in columns]
        lines.append(f"| {perturbation.replace('_', ' ')} | {' | '.join(cells)} |")
    return lines


def list_blocks() -> dict[str, dict[str, Callable[[], str]]]:
    """Return page → name of a block → what writes it."""
    metrics = {row.metric.partition(".")[0] for row in load_stress_rows()}
    return {
        "README.md": {"NAMES": format_names},
        "paper/paper.md": {"COUNTS": format_counts},
        "docs/reference.md": {"METRICS": format_metrics, "DECODERS": format_decoders, "TASKS": format_tasks},
        "docs/papers.md": {"PAPERS": format_papers},
        "docs/stress.md": {"STRESS": format_stress_overview},
        **{f"docs/metrics/{name}.md": {"STRESS": partial(format_stress_of_metric, name)} for name in sorted(metrics)},
    }


def main() -> int:
    """Update or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a block is stale")
    parser.add_argument("--quickstart", type=Path, help="the quick start's results.md: put its table into the README")
    parser.add_argument("--stress", type=Path, help="stress.csv of a report: becomes the table of the package")
    options = parser.parse_args()
    if options.stress:
        first, *lines = options.stress.read_text(encoding="utf-8").splitlines()
        selected = [line for line in lines if line.split(",")[0] in SHOWN]
        STRESS_TABLE.write_text("\n".join([first, *selected]) + "\n", encoding="utf-8")
    stale = []
    for page, makers in list_blocks().items():
        path = ROOT / page
        old = path.read_text(encoding="utf-8")
        blocks = {name: make() for name, make in makers.items()}
        if options.quickstart and page == "README.md":
            blocks["QUICKSTART"] = extract_table(options.quickstart.read_text(encoding="utf-8"))
        new = old
        for name, body in blocks.items():
            new = replace_block(page, new, name, body)
        stale += [page] if new != old else []
        if not options.check:
            path.write_text(new, encoding="utf-8")
    if options.check and stale:
        print(f"stale: {', '.join(stale)}", file=sys.stderr)
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
