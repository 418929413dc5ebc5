"""List the settings of the runs on a page."""

from __future__ import annotations

from collections.abc import Sequence

from openended.harness.report.tables.run_summary import format_axis_values
from openended.harness.results import Run, order_axes


def list_settings(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return every option of the runs with its values, swept options first; unset options are left out."""
    all_settings = [
        (axis, format_axis_values(runs, axis)) for axis in order_axes(name for run in runs for name in run.axes)
    ]
    settings = [(axis, values) for axis, values in all_settings if values]
    return sorted(settings, key=lambda pair: not _is_swept(runs, pair[0]))


def _is_swept(runs: Sequence[Run], axis: str) -> bool:
    return len({str(run.axes.get(axis)) for run in runs} - {"None"}) > 1
