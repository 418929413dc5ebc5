#!/usr/bin/env python
"""Update the generated blocks of README.md and docs: names, tables and the quick start's table.

A block is the text between `<!-- NAME -->` and `<!-- /NAME -->`. `--check` changes nothing and exits with 1 if one is
stale.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openended.harness.app.commands.list import describe_state, read_papers  # noqa: E402
from openended.harness.core.metric_spec import Metric  # noqa: E402
from openended.harness.core.registry import load_members  # noqa: E402
from openended.harness.decoders.base import SamplingDecoder  # noqa: E402


def format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table."""
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def first_docstring_line(thing: object) -> str:
    """Return the first line of a docstring without its period."""
    return (inspect.getdoc(thing) or "").split("\n")[0].rstrip(".")


def format_metrics() -> str:
    """Format one row per metric: name, meaning, needs, direction, range."""
    arrows = {"higher": "↑", "lower": "↓", "match_human": "≈ human"}
    rows = []
    for name, cls in load_members("metric").items():
        metric: Metric = cls()
        reads = ", ".join(dict.fromkeys(f"{n.kind}" + (f" by {n.by}" if n.by else "") for n in metric.needs()))
        low, high = (f"{bound:g}".replace("-inf", "−∞").replace("inf", "∞") for bound in metric.bounds)
        meaning = first_docstring_line(inspect.getmodule(cls))
        rows.append((f"[`{name}`](metrics/{name}.md)", meaning, reads, arrows[metric.direction], f"{low} to {high}"))
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


def format_names() -> str:
    """Format the names of all metrics, decoders and tasks."""
    rows = ["| | |", "| --- | --- |"]
    for group, heading in (("metric", "Metrics"), ("decoder", "Decoders"), ("task", "Tasks")):
        rows.append(f"| **{heading}** | {' '.join(f'`{name}`' for name in load_members(group))} |")
    return "\n".join(rows)


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


BLOCKS = {
    "README.md": {"NAMES": format_names},
    "docs/reference.md": {"METRICS": format_metrics, "DECODERS": format_decoders, "TASKS": format_tasks},
    "docs/papers.md": {"PAPERS": format_papers},
}


def rewrite(page: str, text: str, blocks: dict[str, str]) -> str:
    """Replace the text between the marks of each block."""
    for name, body in blocks.items():
        pattern = rf"<!-- {name} -->\n.*?<!-- /{name} -->"
        if not re.search(pattern, text, flags=re.DOTALL):
            raise SystemExit(f"{page}: no block <!-- {name} -->; add it and its end <!-- /{name} -->")
        block = f"<!-- {name} -->\n{body}\n<!-- /{name} -->"
        text = re.sub(pattern, lambda _, block=block: block, text, flags=re.DOTALL)
    return text


def main() -> int:
    """Update or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a block is stale")
    parser.add_argument("--quickstart", type=Path, help="the quick start's results.md: put its table into the README")
    options = parser.parse_args()
    stale = 0
    for page, makers in BLOCKS.items():
        path = ROOT / page
        old = path.read_text(encoding="utf-8")
        blocks = {name: make() for name, make in makers.items()}
        if options.quickstart and page == "README.md":
            blocks["QUICKSTART"] = extract_table(options.quickstart.read_text(encoding="utf-8"))
        new = rewrite(page, old, blocks)
        stale += new != old
        if not options.check:
            path.write_text(new, encoding="utf-8")
    return int(options.check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
