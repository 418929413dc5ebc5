"""Judgments of raters that nobody is, of the texts of a whole grid: `judgments=simulated:mauve`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness.core import Metric, SpecError
from openended.metrics.judgments import SIMULATED

if TYPE_CHECKING:
    from openended.harness.run import RunTexts


def of_grid(judgments: str | None) -> bool:
    """Say whether the judgments of a run are still to be made, of the texts of the whole grid."""
    return str(judgments).startswith(SIMULATED)


def judged_by_nobody(jobs: Sequence[RunTexts]) -> dict[str, str]:
    """Return `simulated:…` → the file of judgments, made of the texts of all jobs that ask for it.

    Raises:
        SpecError: If a job does not say what its system is called, or two systems have one name.
    """
    from openended.harness.rating import run_simulated_study

    groups: dict[str, list[RunTexts]] = {}
    for texts in jobs:
        if of_grid(texts.run.metrics.judgments):
            groups.setdefault(str(texts.run.metrics.judgments), []).append(texts)
    files = {}
    for asked, group in groups.items():
        systems: dict[str, Path] = {}
        for texts in group:
            name = _system_of(texts.run.metrics.specs)
            path = texts.model_rows.path
            if systems.setdefault(name, path) != path:
                raise SpecError(f"judgments={asked}: two systems are called {name!r}; sweep over one seed")
        runtime, human = group[0].run.runtime, group[0].human_rows.path
        folder = runtime.outputs_dir / "studies" / runtime.experiment
        files[asked] = str(run_simulated_study(asked.removeprefix(SIMULATED), human, systems, folder))
    return files


def _system_of(metrics: Iterable[Metric]) -> str:
    """Return what the metrics of human judgments call the run's system."""
    names = {str(own) for own in (getattr(metric, "system", None) for metric in metrics) if own is not None}
    if len(names) != 1:
        raise SpecError(
            "judgments=simulated:…: name the run's system by metric.bradley_terry.system (and metric.huse.system, the "
            f"same); got {', '.join(sorted(names)) or 'none'}"
        )
    return names.pop()
