"""Pages made from the code: one a metric, decoder and task; the changelog; the published tables; the navigation.

MkDocs runs this before it builds. What only a person can say of a metric stands in `docs/metrics/NAME.md` (formula,
what it says and does not, an example that is run); options, needs and the functions come from the code.
"""

from __future__ import annotations

import csv
import inspect
import re
from pathlib import Path

import mkdocs_gen_files

from openended.harness.core.catalogue import choices, full_source, own_choices
from openended.harness.core.registry import members

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
_OUT = re.compile(r"\[([^\]]+)\]\((?!https?:|#)(?:\.\./)*([^)#\s]+)(#[^)]*)?\)")
ARROWS = {"higher": "higher is better", "lower": "lower is better", "match_human": "nearest to the human value is best"}
TUTORIALS = (
    "first_table", "own_model", "somebodys_texts", "sweep", "human_study", "server", "cluster", "own_metric",
)  # fmt: skip


class MissingPageError(Exception):
    """A metric has no page that says what it is."""


def write(name: str, text: str) -> None:
    """Write a page of the site."""
    with mkdocs_gen_files.open(name, "w") as page:
        page.write(text)


def yaml_of(group: str, name: str) -> str:
    """The options of a name, as its file says them."""
    kept = [line for line in full_source(group, name).splitlines() if "_target_" not in line and "@package" not in line]
    return "## Options\n\n```yaml\n" + "\n".join(kept).strip() + "\n```\n"


def metric_page(name: str, cls: type) -> str:
    """A person's words, then what the code knows."""
    said = DOCS / "metrics" / f"{name}.md"
    if not said.is_file():
        raise MissingPageError(f"docs/metrics/{name}.md: not there; every metric needs its page")
    metric = cls()
    reads = ", ".join(dict.fromkeys(need.kind + (f" by the {need.by}" if need.by else "") for need in metric.needs()))
    low, high = metric.bounds
    facts = [
        f"| reads | {reads} |", f"| direction | {ARROWS[metric.direction]} |", f"| range | {low:g} to {high:g} |",
        f"| version | {metric.version} |", f"| intervals | {getattr(metric, 'resampling', '–')} |",
    ]  # fmt: skip
    table = "\n".join(["| | |", "| --- | --- |", *facts])
    module = f"openended.{cls.__module__.removeprefix('openended.')}"
    words = said.read_text(encoding="utf-8").rstrip()
    return f"{words}\n\n{table}\n\n{yaml_of('metric', name)}\n## In Python\n\n::: {module}\n"


def plain_page(group: str, name: str, cls: type) -> str:
    """A decoder's or task's page: its docstring, its options."""
    told = inspect.getdoc(cls) or ""
    return f"# {name}\n\n{choices(group)[name]}.\n\n{told}\n\n{yaml_of(group, name)}"


def outside(text: str) -> str:
    """A text of the repository's top as a page: links into docs/ become the site's, other files are named."""

    def mend(found: re.Match[str]) -> str:
        path = found[2]
        inside = path.removeprefix("docs/")
        if path != inside and (DOCS / inside).is_file() and inside.endswith((".md", ".png")):
            return f"[{found[1]}]({inside}{found[3] or ''})"
        return f"{found[1]} (`{path}`)" if found[1].strip("`") != path else f"`{path}`"

    return _OUT.sub(mend, text)


def published() -> str:
    """Every published table that the harness can compare with."""
    lines = ["# Published values", "", "What `openended report --compare PAPER/TABLE` sets beside a run's numbers."]
    for path in sorted((ROOT / "harness/reference").glob("**/*.csv")):
        with path.open(encoding="utf-8") as handle:
            rows = list(csv.reader(line for line in handle if not line.startswith("#")))
        if not rows:
            continue
        name = str(path.relative_to(ROOT / "harness/reference").with_suffix(""))
        lines += ["", f"## {name}", "", "| " + " | ".join(rows[0]) + " |", "|" + " --- |" * len(rows[0])]
        lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows[1:]]
    return "\n".join(lines) + "\n"


def title(path: Path) -> str:
    """A page's first heading."""
    return next(
        (line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")), path.stem
    )


def listed(folder: str, names: list[str]) -> list[str]:
    """Lines of the navigation below a heading."""
    return [f"    * [{name}]({folder}/{name}.md)" for name in names]


def main() -> None:
    """Write all pages."""
    nav = ["* [openended](index.md)", "* Tutorials"]
    nav += [f"    * [{title(DOCS / 'tutorials' / f'{t}.md')}](tutorials/{t}.md)" for t in TUTORIALS]
    apart = {"index", "benchmarks", "reading", "reference"}
    guides = [p for p in sorted(DOCS.glob("*.md")) if p.stem not in apart]
    nav += ["* [How to read these numbers](reading.md)", "* [Reference](reference.md)", "* Guides"]
    nav += [f"    * [{title(p)}]({p.name})" for p in guides]
    for group, heading, make in (
        ("metric", "Metrics", metric_page),
        ("decoder", "Decoders", lambda n, c: plain_page("decoder", n, c)),
        ("task", "Tasks", lambda n, c: plain_page("task", n, c)),
    ):
        found = {name: cls for name, cls in members(group).items() if name in own_choices(group)}
        for name, cls in found.items():
            write(f"{group}s/{name}.md", make(name, cls))
        rows = "\n".join(f"| [{name}]({name}.md) | {choices(group)[name]} |" for name in found)
        write(f"{group}s/index.md", f"# {heading}\n\n| name | |\n| --- | --- |\n{rows}\n")
        nav += [f"* [{heading}]({group}s/index.md)", *listed(f"{group}s", list(found))]
    write("published.md", published())
    write("changelog.md", outside((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    write("contributing.md", outside((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    write("security.md", outside((ROOT / "SECURITY.md").read_text(encoding="utf-8")))
    nav += [
        "* Project", "    * [Published values](published.md)", "    * [How fast](benchmarks.md)",
        "    * [Contributing](contributing.md)", "    * [Security](security.md)", "    * [Changes](changelog.md)",
    ]  # fmt: skip
    write("SUMMARY.md", "\n".join(nav) + "\n")


main()
