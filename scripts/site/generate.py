"""Generate pages from the code: metrics, decoders, tasks, the changelog, published tables and the navigation."""

import csv
import inspect
import re
from pathlib import Path

from openended.harness.core.choices import format_options, list_bundled_choices, list_choices
from openended.harness.core.interfaces import Metric
from openended.harness.core.registry import load_members
from scripts.pages import ROOT, format_table
from scripts.readme import list_needs

DOCS = ROOT / "docs"
_OUT = re.compile(r"\[([^\]]+)\]\((?!https?:|#)(?:\.\./)*([^)#\s]+)(#[^)]*)?\)")
ARROWS = {"higher": "higher is better", "lower": "lower is better", "match_human": "nearest to the human value is best"}
TUTORIALS = ("first_table", "own_model", "somebodys_texts", "sweep", "human_study", "server", "cluster", "own_metric")


def format_option_section(group: str, name: str) -> str:
    """Format the options of a name, as YAML."""
    return f"## Options\n\n```yaml\n{format_options(group, name).strip()}\n```\n"


def format_metric_page(name: str, cls: type) -> str:
    """Join a metric's written page, or the docstring of its module, with the facts from its class."""
    source = DOCS / "metrics" / f"{name}.md"
    described = f"# {name}\n\n{inspect.getdoc(inspect.getmodule(cls))}"
    words = source.read_text(encoding="utf-8").rstrip() if source.is_file() else described
    metric: Metric = cls()
    ends = {"": metric.bounds, **{f"; `{key}`: ": bounds for key, bounds in metric.ranges.items()}}
    range_ = "".join(f"{name}{low:g} to {high:g}" for name, (low, high) in ends.items()).replace("inf", "∞")
    facts = {
        "reads": list_needs(metric),
        "direction": ARROWS[metric.direction],
        "range": range_,
        "version": str(metric.version),
        "intervals": getattr(metric, "resampling", "–"),
    }
    table = format_table(("", ""), facts.items())
    module = f"openended.{cls.__module__.removeprefix('openended.')}"
    return f"{words}\n\n{table}\n\n{format_option_section('metric', name)}\n## In Python\n\n::: {module}\n"


def format_class_page(group: str, name: str, cls: type) -> str:
    """Format a decoder's or task's page from its docstring and options."""
    docstring = inspect.getdoc(cls) or ""
    return f"# {name}\n\n{list_choices(group)[name]}.\n\n{docstring}\n\n{format_option_section(group, name)}"


def rewrite_links(text: str) -> str:
    """Rewrite the links of a file at the top of the repository so that they work on the site."""

    def rewrite_link(match: re.Match[str]) -> str:
        path = match[2]
        inside = path.removeprefix("docs/")
        if path != inside and (DOCS / inside).is_file() and inside.endswith((".md", ".png")):
            return f"[{match[1]}]({inside}{match[3] or ''})"
        return f"{match[1]} (`{path}`)" if match[1].strip("`") != path else f"`{path}`"

    return _OUT.sub(rewrite_link, text)


def format_published_values() -> str:
    """Format every published table that a report can be compared with."""
    lines = [
        "# Published values",
        "",
        "`openended report --compare PAPER/TABLE` prints these values beside those of a run.",
    ]
    for path in sorted((ROOT / "harness/reference").glob("**/*.csv")):
        with path.open(encoding="utf-8") as handle:
            rows = list(csv.reader(line for line in handle if not line.startswith("#")))
        if not rows:
            continue
        name = str(path.relative_to(ROOT / "harness/reference").with_suffix(""))
        lines += ["", f"## {name}", "", format_table(rows[0], rows[1:])]
    return "\n".join(lines) + "\n"


def read_title(path: Path) -> str:
    """Return a page's first heading."""
    return next(
        (line[2:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# ")), path.stem
    )


def make_pages() -> dict[str, str]:
    """Return file → text of all generated pages and of the navigation."""
    pages: dict[str, str] = {}
    listed_elsewhere = {"index", "using", "benchmarks", "reading", "reference", "glossary"}
    guides = [p for p in sorted(DOCS.glob("*.md")) if p.stem not in listed_elsewhere]
    nav = [
        "* [openended](index.md)",
        "* [Usage](using.md)",
        "* Tutorials",
        *(f"    * [{read_title(DOCS / 'tutorials' / f'{t}.md')}](tutorials/{t}.md)" for t in TUTORIALS),
        "* [How to read these numbers](reading.md)",
        "* [Glossary](glossary.md)",
        "* [Reference](reference.md)",
        "* Guides",
        *(f"    * [{read_title(p)}]({p.name})" for p in guides),
    ]
    for group, heading in (("metric", "Metrics"), ("decoder", "Decoders"), ("task", "Tasks")):
        classes = {name: cls for name, cls in load_members(group).items() if name in list_bundled_choices(group)}
        for name, cls in classes.items():
            page = format_metric_page(name, cls) if group == "metric" else format_class_page(group, name, cls)
            pages[f"{group}s/{name}.md"] = page
        listed = format_table(("name", ""), ((f"[{name}]({name}.md)", list_choices(group)[name]) for name in classes))
        pages[f"{group}s/index.md"] = f"# {heading}\n\n{listed}\n"
        nav += [f"* [{heading}]({group}s/index.md)", *(f"    * [{name}]({group}s/{name}.md)" for name in classes)]
    pages["site.css"] = (ROOT / "scripts/site/site.css").read_text(encoding="utf-8")
    pages["published.md"] = format_published_values()
    for name in ("changelog", "contributing", "security"):
        pages[f"{name}.md"] = rewrite_links((ROOT / f"{name.upper()}.md").read_text(encoding="utf-8"))
    project = {"Published values": "published", "Performance": "benchmarks", "Contributing": "contributing"}
    project |= {"Security": "security", "Changes": "changelog"}
    nav += ["* Project", *(f"    * [{title}]({page}.md)" for title, page in project.items())]
    pages["SUMMARY.md"] = "\n".join(nav) + "\n"
    return pages


def main() -> None:
    """Write all pages of the site."""
    import mkdocs_gen_files

    for name, text in make_pages().items():
        with mkdocs_gen_files.open(name, "w") as page:
            page.write(text)


if __name__ == "<run_path>":  # as mkdocs-gen-files runs it
    main()
