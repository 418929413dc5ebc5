"""The settings of the runs behind a page: each axis with what it was."""

from __future__ import annotations

from collections.abc import Sequence

from openended.harness.report.tables.about import listed
from openended.harness.results import Run, in_order


def settings_of(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return every option of the runs with its values, those that no run sets left out; the swept ones first."""
    told = [(axis, listed(runs, axis)) for axis in in_order(name for run in runs for name in run.axes)]
    known = [(axis, values) for axis, values in told if values]
    return sorted(known, key=lambda pair: not _several(runs, pair[0]))


def _several(runs: Sequence[Run], axis: str) -> bool:
    return len({str(run.axes.get(axis)) for run in runs} - {"None"}) > 1
