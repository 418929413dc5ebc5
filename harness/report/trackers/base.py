"""The contract between finished runs and experiment trackers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

from openended.harness.core import Json

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class TrackedJob:
    """What a tracker logs about a finished run or about the report of a grid."""

    id: str
    """Equal for equal results: the folder of the run below `runs`, or the name and digest of the report."""
    name: str
    """Display name."""
    group: str
    """Name that the runs of a grid share."""
    config: Mapping[str, Json]
    """Option → value."""
    values: Mapping[str, float]
    """`metric/key` → value, with `metric/key.low` and `metric/key.high`; human values below `human/`."""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    figures: Mapping[str, Path] = field(default_factory=dict)
    """Name → PNG."""


class Tracker(Protocol):
    """The interface of trackers; if a method raises, the run is kept."""

    package: ClassVar[str]
    """Import name of the package."""
    extra: ClassVar[str]
    """Extra that installs it."""

    def start(self, job: TrackedJob) -> None:
        """Open an entry for a job with its config; what a failed attempt left of it is replaced where possible."""

    def log_values(self, values: Mapping[str, float]) -> None:
        """Log finite values, once."""

    def log_table(self, name: str, table: pd.DataFrame) -> None:
        """Log a table."""

    def log_figure(self, name: str, path: Path) -> None:
        """Log a PNG."""

    def finish(self, *, failed: bool) -> None:
        """Close the entry, whether or not an earlier call raised."""


def flatten_config(config: Mapping[str, Json]) -> dict[str, str]:
    """Return a config as text, for trackers whose parameters are text."""
    return {name: str(value) for name, value in config.items() if value is not None}
