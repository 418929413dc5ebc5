"""What `evaluate` returns: finished runs, as a table, a frame or a report."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from openended.harness.core import MetricResult, Status
from openended.harness.storage import ResultRow, RunRecord, read_record

if TYPE_CHECKING:
    import pandas as pd

    from openended.harness.report import Report, Table


# One table even if numbers of texts differ; a note shows where they differ from the human side.
TOGETHER: Mapping[str, Any] = {"differing": "refuse", "allow": ("n",)}


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The scores of some systems against human texts."""

    folders: tuple[Path, ...]
    """Run folders, one a system; each holds `record.json`."""
    systems: tuple[str, ...]
    """Their names, in the same order."""
    failed: tuple[str, ...] = ()
    """Metrics whose code raised, and what it said."""

    def __repr__(self) -> str:
        names = list(dict.fromkeys(row.metric for record in self.records.values() for row in record.results))
        broken = f"; {len(self.failed)} failed" if self.failed else ""
        systems = f"{len(self.systems)} system{'s' if len(self.systems) != 1 else ''} ({', '.join(self.systems)})"
        return (
            f"<Evaluation: {systems}, {len(names)} metric{'s' if len(names) != 1 else ''} ({', '.join(names)}){broken}>"
        )

    @cached_property
    def records(self) -> Mapping[str, RunRecord]:
        """System → its run's record."""
        return {name: read_record(folder) for name, folder in zip(self.systems, self.folders, strict=True)}

    @cached_property
    def results(self) -> Mapping[str, Mapping[str, MetricResult]]:
        """System → metric → result, without arrays; `human` is the human side by itself."""
        out: dict[str, dict[str, MetricResult]] = {}
        for name, record in self.records.items():
            for row in record.results:
                if row.system in ("model", "human"):
                    out.setdefault(name if row.system == "model" else "human", {})[row.metric] = _convert_row(row)
        return out

    @property
    def values(self) -> Mapping[str, Mapping[str, float]]:
        """System → metric → its first value; NaN where it has none."""
        return {
            system: {name: result.values.get(result.primary, math.nan) for name, result in metrics.items()}
            for system, metrics in self.results.items()
        }

    def table(self, **layout: Any) -> str:  # noqa: ANN401 - options of `Layout`
        """Return the tables as text."""
        from rich.console import Console

        from openended.harness.report import WIDTH, print_table

        out = io.StringIO()
        console = Console(file=out, width=WIDTH)
        for table in self._make_tables(layout):
            print_table(table, console)
            console.print()
        return out.getvalue()

    def to_pandas(self, *, all: bool = False) -> pd.DataFrame:  # noqa: A002 - what a reader tries first
        """Return one row per value: system, metric, key, value and its 95 % interval (low, high)."""
        from openended.harness.results import INTERNAL, read_results

        frame = read_results(self.folders).frame.drop(columns=INTERNAL)
        if all:
            return frame
        names = frame["model_title"].where(frame["system"] == "model", frame["system"])
        return frame.assign(system=names)[["system", "metric", "key", "value", "low", "high"]]

    def report(self, path: str | Path, **options: Any) -> Report:  # noqa: ANN401 - of `build_report`
        """Write tables, figures, the frame and a page into a folder."""
        from openended.harness.report import build_report

        return build_report(self.folders, path, **{"layout": "default", **TOGETHER, **options})

    def _make_tables(self, options: Mapping[str, Any]) -> list[Table]:
        from openended.harness.report import make_tables
        from openended.harness.results import load_layout, read_results

        return make_tables(read_results(self.folders), load_layout("default", **{**TOGETHER, **options}), "results")


def _convert_row(row: ResultRow) -> MetricResult:
    return MetricResult(
        row.metric, row.signature, row.primary, row.values, row.n_human, row.n_model,
        cast("Status", row.status), row.notes, sd=row.sd, intervals=row.intervals,
    )  # fmt: skip
