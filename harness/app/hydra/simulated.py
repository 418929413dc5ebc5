"""Judgments of raters that nobody is, of the texts of a whole grid: `judgments=simulated:mauve`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openended.harness.core.errors import SpecError
from openended.harness.run.settings import Settings
from openended.metrics.judgments import SIMULATED

if TYPE_CHECKING:
    from openended.harness.run.pipeline import Made


def of_grid(settings: Settings) -> bool:
    """Say whether the judgments of a run are still to be made, of the texts of the whole grid."""
    return str(settings.judgments).startswith(SIMULATED)


def judged_by_nobody(made: Sequence[tuple[Settings, Made]]) -> dict[str, str]:
    """Return `simulated:…` → the file of judgments, made of the texts of all jobs that ask for it.

    Raises:
        SpecError: If a job does not say what its system is called, or two systems have one name.
    """
    from openended.harness.rating.collect.simulated_study import simulated_study

    groups: dict[str, list[tuple[Settings, Made]]] = {}
    for settings, texts in made:
        if of_grid(settings):
            groups.setdefault(str(settings.judgments), []).append((settings, texts))
    files = {}
    for asked, own in groups.items():
        systems: dict[str, Path] = {}
        for settings, texts in own:
            name = _system_of(settings)
            path = texts.model_source.path
            if systems.setdefault(name, path) != path:
                raise SpecError(f"judgments={asked}: two systems are called {name!r}; sweep over one seed")
        settings, texts = own[0]
        folder = settings.outputs_dir / "studies" / settings.experiment
        files[asked] = str(simulated_study(asked.removeprefix(SIMULATED), texts.human_source.path, systems, folder))
    return files


def _system_of(settings: Settings) -> str:
    """Return what the metrics of human judgments call the run's system."""
    names = {str(own) for own in (getattr(metric, "system", None) for metric in settings.metrics) if own is not None}
    if len(names) != 1:
        raise SpecError(
            "judgments=simulated:…: name the run's system by metric.bradley_terry.system (and metric.huse.system, the "
            f"same); got {', '.join(sorted(names)) or 'none'}"
        )
    return names.pop()
