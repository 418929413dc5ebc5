"""What a table shows: a layout is a small YAML in `conf/report`, or a user's own file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from openended.harness.core import Spec, SpecError, construct, first_line, full_source, names_of, read_options, suggest

TARGET = "openended.harness.results.layout.Layout"


@dataclass(frozen=True, kw_only=True)
class Layout(Spec):
    """Which rows, columns and values a table has."""

    group: ClassVar[str] = "report"
    name: ClassVar[str] = "report"

    title: str = "Results"
    kind: Literal["values", "correlation", "embedders", "variants", "spread", "findings", "fair"] = "values"
    """`values`: systems × metrics; `correlation`: metrics × human scores; `embedders`: agreement of the scores under
    several embedders; `variants`: the scores under several options of a metric and their agreement; `spread`: standard
    deviations over seeds; `findings`: the papers' claims on these runs; `fair`: best of N settings, Pareto front, wins
    and losses."""
    metrics: tuple[str, ...] = ()
    """`metric`, `metric.key` or `metric.*`, in order; those not measured are left out; none: every metric."""
    companions: bool = True
    """Without `metrics`: show beside a primary value those that must not be read without each other."""
    gaps: bool = False
    """Print |model − human| for the values whose target is the human value (MAUVE's Tables 3 and 4)."""
    intervals: bool = False
    """Print the 95 % interval of every value over the examples."""
    human: bool = True
    rows: tuple[str, ...] = ()
    """Axes that name the rows, outermost first; none: model, then decoder, then whatever else differs."""
    columns: tuple[str, ...] = ()
    """Axes that make columns of their own beside the metric (for example `embedder`)."""
    split: tuple[str, ...] = ()
    """Axes for each value of which there is a table of its own; `auto`: those of the data in which the runs differ."""
    allow: tuple[str, ...] = ()
    """Signature fields that may differ within a column, because the rows are about them."""
    differing: Literal["refuse", "columns"] = "refuse"
    """What to do with two signatures of one metric: refuse them, naming the field, or give each a column of its own."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """Axis → accepted value, or several joined by `|`."""
    targets: tuple[str, ...] = ("bradley_terry.*", "huse.huse", "discriminator_accuracy", "mauve")
    """`correlation`: what the metrics are correlated with; those not measured are left out."""

    latex_width: float = 345.0
    """Points of a line of the paper: a LaTeX table that is wider is split by columns. 345: `article`; a column of a
    two-column paper has about 240."""
    latex_signatures: bool = False
    """Print the signatures under the LaTeX table; else they stand in its file as comments."""

    def check(self) -> None:
        """Refuse an axis in two places at once, and a line too narrow for any table."""
        if not self.latex_width >= 100:
            raise SpecError(f"report.latex_width: expected 100 points or more, got {self.latex_width}")
        both = (
            set(self.rows) & set(self.columns) | set(self.rows) & set(self.split) | set(self.columns) & set(self.split)
        )
        if both:
            raise SpecError(f"report: axis {min(both)!r} is in more than one of rows, columns and split")


def layout_names() -> list[str]:
    """Return the names of the layouts that ship with the harness."""
    return names_of("report")


def load_layout(name: str | Path | Layout, **changes: Any) -> Layout:  # noqa: ANN401
    """Read a layout by name (`conf/report/<name>.yaml`) or from a YAML file of the user's.

    Raises:
        SpecError: If there is no such layout, it has an unknown option, or a value is not accepted.
    """
    if isinstance(name, Layout):
        return dataclasses.replace(name, **changes)
    text, where = _layout_text(str(name))
    node = dict(read_options(text, where, first_line))
    node.pop("defaults", None)  # of a copy of one of ours: what `_base` says is the default here too
    return layout_of(node, where, changes)


def layout_of(node: Mapping[str, Any], where: str, changes: Mapping[str, Any] | None = None) -> Layout:
    """Make a layout from a YAML node."""
    if node.get("_target_", TARGET) != TARGET:
        raise SpecError(f"{where}: expected _target_ {TARGET}, got {node['_target_']!r}")
    return construct(Layout, {**node, **(changes or {})}, where)


def _layout_text(name: str) -> tuple[str, str]:
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            raise SpecError(f"no such layout file: {path}")
        return path.read_text(encoding="utf-8"), name
    known = layout_names()
    if name not in known:
        raise SpecError(f"no layout {name!r}{suggest(name, known)}, or the path of a .yaml")
    return full_source("report", name), f"layout {name}"
