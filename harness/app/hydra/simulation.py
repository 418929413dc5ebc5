"""Simulate human judgments of the texts of a whole grid (`judgments=simulated:mauve`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness.core import Metric, SpecError
from openended.metrics.judgments import SIMULATED

if TYPE_CHECKING:
    from openended.harness.run import RunTexts


def needs_whole_grid(judgments: str | None) -> bool:
    """Check whether the judgments of a run are simulated from the texts of the whole grid."""
    return str(judgments).startswith(SIMULATED)


def refuse_single_run(judgments: str | None) -> None:
    """Refuse judgments of a whole grid for a run by itself."""
    if needs_whole_grid(judgments):
        raise SpecError(f"judgments={judgments} rates the texts of a whole grid: add -m, as in openended -m …")


def simulate_judgments(jobs: Sequence[RunTexts]) -> dict[str, str]:
    """Simulate judgments of all jobs with `judgments=simulated:…`; return option value → file of judgments."""
    from openended.harness.rating import run_simulated_study

    groups: dict[str, list[RunTexts]] = {}
    for texts in jobs:
        if needs_whole_grid(texts.settings.judgments):
            groups.setdefault(str(texts.settings.judgments), []).append(texts)
    files = {}
    for source, group in groups.items():
        systems: dict[str, Path] = {}
        for texts in group:
            name = _find_system_name(texts.settings.metrics)
            path = texts.model_rows.path
            if systems.setdefault(name, path) != path:
                raise SpecError(f"judgments={source}: two systems are called {name!r}; sweep over one seed")
        settings, human = group[0].settings, group[0].human_rows.path
        folder = settings.outputs_dir / "studies" / settings.experiment
        files[source] = str(run_simulated_study(source.removeprefix(SIMULATED), human, systems, folder))
    return files


def _find_system_name(metrics: Iterable[Metric]) -> str:
    """Return the run's system name from the options of its human-judgment metrics."""
    names = {str(name) for name in (getattr(metric, "system", None) for metric in metrics) if name is not None}
    if len(names) != 1:
        raise SpecError(
            "judgments=simulated:…: name the run's system by metric.bradley_terry.system (and metric.huse.system, the "
            f"same); got {', '.join(sorted(names)) or 'none'}"
        )
    return names.pop()
