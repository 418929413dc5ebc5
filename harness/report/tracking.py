"""Where finished runs and reports are logged; the trackers themselves are loaded when one is chosen."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Literal

from openended.harness.core import Spec, construct, require_package

_TRACK = "openended.harness.report.trackers.track"


@dataclass(frozen=True, kw_only=True)
class TrackerOptions(Spec):
    """Where finished runs are logged; none: nowhere."""

    name: ClassVar[str] = "tracker"

    kind: Literal["none", "trackio", "wandb", "mlflow", "tensorboard"] = "none"
    """Which tracker."""
    project: str = "openended"
    """Project of Trackio and Weights & Biases, experiment of MLflow."""
    uri: str | None = None
    """`mlflow`: a folder or a tracking server; null: a folder below the outputs."""
    mode: Literal["offline", "online"] | None = None
    """`wandb`: offline writes a folder for `wandb sync`; online sends everything at once; null: offline."""

    def check(self) -> None:
        """Check that the project has a name and that no option is given that the tracker does not have."""
        self.require(bool(self.project.strip()), "project", "a name")
        self.require(self.uri is None or self.kind == "mlflow", "uri", "null, unless tracker=mlflow")
        self.require(self.mode is None or self.kind == "wandb", "mode", "null, unless tracker=wandb")

    def list_hosts(self) -> dict[str, str]:
        """Return host → what the tracker sends there; empty if everything stays on this machine."""
        host = self.uri if self.uri is not None and "://" in self.uri and not self.uri.startswith("file:") else None
        if self.kind == "wandb" and self.mode == "online":
            host = os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")
        return {host: f"results and the key of your login ({self.kind})"} if host is not None else {}


def build_tracker_options(node: object) -> TrackerOptions:
    """Build the options from a YAML node; raises `SpecError` if an option is unknown or its value is not accepted."""
    return construct(TrackerOptions, node or {}, "tracker")


def require_tracker(options: TrackerOptions) -> None:
    """Raise `ExtraNotInstalled` if the tracker's package is missing."""
    if options.kind != "none":
        import_module(_TRACK)
        require_package(options.kind, options.kind)


def track_runs(folders: Iterable[Path], options: TrackerOptions, outputs: Path) -> None:
    """Log finished runs to the chosen tracker, if there is one."""
    if options.kind != "none":
        import_module(_TRACK).track_runs(folders, options, outputs)


def track_report(folder: Path, options: TrackerOptions, outputs: Path) -> None:
    """Log the tables and figures of a report to the chosen tracker, if there is one."""
    if options.kind != "none":
        import_module(_TRACK).track_report(folder, options, outputs)
