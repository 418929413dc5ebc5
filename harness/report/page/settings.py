"""The settings of the runs behind a page: each axis with what it was."""

from __future__ import annotations

from collections.abc import Sequence

from openended.harness.report.tables.run_summary import format_axis_values
from openended.harness.results import Run, order_axes


def settings_of(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return every option of the runs with its values, those that no run sets left out; the swept ones first."""
    told = [(axis, format_axis_values(runs, axis)) for axis in order_axes(name for run in runs for name in run.axes)]
    known = [(axis, values) for axis, values in told if values]
    return sorted(known, key=lambda pair: not _several(runs, pair[0]))


def _several(runs: Sequence[Run], axis: str) -> bool:
    return len({str(run.axes.get(axis)) for run in runs} - {"None"}) > 1
