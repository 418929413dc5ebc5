"""Read the record of a run: axes, titles, inputs and values."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from openended.harness.core import DataError
from openended.harness.storage import STAGES, ResultRow, RunRecord, read_record

log = logging.getLogger(__name__)
T = TypeVar("T")


ARRAYS = "arrays.safetensors"

_HARDWARE = ("accelerator", "processor", "machine", "system")


@dataclass(frozen=True, slots=True)
class Run:
    """The parts of a run record that reports use."""

    folder: Path
    created: str
    name: str
    """`experiment/key8`; repetitions of a run have the same name."""
    experiment: str
    axes: Mapping[str, Any]
    titles: Mapping[str, str]
    """Display names of `model` and `decoder`."""
    store: Path | None
    inputs: Mapping[str, str]
    """Name of a stage's artifact → `stage/ab/key` in the store."""
    results: Sequence[ResultRow]
    notes: tuple[str, ...]
    """Caveats about its texts."""
    imported_stages: tuple[str, ...] = ()
    """Stages whose artifacts were imported, not computed here."""
    command: tuple[str, ...] = ()
    """Arguments of the command line that started it."""


def unify_model_paths(runs: Sequence[Run]) -> list[Run]:
    """Give all copies of a model the same path, so that a copy in another folder is not a separate system."""
    paths: dict[tuple[str, str], str] = {}
    for run in runs:
        for axis, key in _list_model_paths(run):
            paths[key] = min(paths.get(key, run.axes[axis]), run.axes[axis])
    return [
        replace(run, axes={**run.axes, **{axis: paths[key] for axis, key in _list_model_paths(run)}}) for run in runs
    ]


def _list_model_paths(run: Run) -> list[tuple[str, tuple[str, str]]]:
    """Return the path axes of a run's models, each with its role and the digest of the model's content.

    Models that a decoder needs besides the one under test have one axis with all their options.
    """
    roles = [axis.removesuffix(".digest") for axis in run.axes if axis.endswith(".digest") and axis != "task.digest"]
    axes = [f"{role}.path" if f"{role}.path" in run.axes else role for role in roles]
    keys = [(axis, (role, str(run.axes[f"{role}.digest"]))) for role, axis in zip(roles, axes, strict=True)]
    return [(axis, key) for axis, key in keys if isinstance(run.axes.get(axis), str)]


def read_run(path: Path) -> Run:
    """Read the record of a run."""
    record, folder = read_record(path), path.parent
    experiment = str(record.spec.get("experiment") or folder.parent.name)
    return Run(
        folder=folder,
        created=record.created,
        name=f"{experiment}/{folder.name.rpartition('-')[2]}",
        experiment=experiment,
        axes={name: _to_scalar(value) for name, value in record.axes.items()},
        titles={role: _read_title(path, record, role) for role in ("model", "decoder")},
        store=(folder / record.store).resolve() if record.store else None,
        inputs=record.inputs,
        results=record.results,
        notes=(*record.notes, *describe_reused_artifacts(record)),
        imported_stages=_list_imported_stages(record),
        command=_read_command(record),
    )


def _read_command(record: RunRecord) -> tuple[str, ...]:
    """Return the command of a run; for a Slurm job, which its launcher started, the overrides of the user."""
    words = tuple(record.command)
    return ("openended", *record.overrides) if words and words[0].endswith("submitit/core/_submit.py") else words


def _read_title(path: Path, record: RunRecord, role: str) -> str:
    """Return the display name of the model or decoder; empty if the record has none."""
    part = record.spec.get(role) or {}
    if not isinstance(part, Mapping):
        raise DataError(f"{path}: spec.{role}: expected an object, got {part!r:.40}")
    return str(part.get("title") or "")


def _to_scalar(value: Any) -> Any:  # noqa: ANN401
    """Return an axis value as a scalar; lists and objects become compact JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if isinstance(value, (list, dict)) else value


def describe_reused_artifacts(record: RunRecord) -> tuple[str, ...]:
    """Return remarks on cached artifacts that were computed with other packages, code or hardware than this run.

    Stage version, options and inputs are equal, but such differences can change the last digits or explain why two
    machines disagree.
    """
    groups: dict[str, list[str]] = {}
    for name, other in record.provenance.items():
        origin = _describe_origin(other if isinstance(other, Mapping) else {}, record)
        if origin:
            groups.setdefault(origin, []).append(name.partition(":")[0])
    return tuple(
        f"cached, not computed by this run: {', '.join(s for s in STAGES if s in stages)}; computed with {origin}"
        for origin, stages in sorted(groups.items())
    )


def _list_imported_stages(record: RunRecord) -> tuple[str, ...]:
    """Return the stages whose artifacts were imported."""
    names = (name for name, other in record.provenance.items() if isinstance(other, Mapping) and other.get("imported"))
    return tuple(dict.fromkeys(name.partition(":")[0] for name in names))


def _describe_origin(other: Mapping[str, Any], record: RunRecord) -> str:
    """Describe how the origin of a cached artifact differs from the run; empty if it does not."""
    if "maker" in other:
        return "versions that were not noted"
    packages = _get_mapping(other, "packages")
    parts = [f"{name} {was or 'absent'} (now {record.packages.get(name, 'absent')})" for name, was in packages.items()]
    commit = _get_mapping(other, "git").get("commit")
    if commit:
        parts.append(f"code {str(commit)[:7]} (now {str(record.git.get('commit'))[:7]})")
    hardware = _get_mapping(other, "hardware")
    parts += [f"{k} {hardware[k]} (now {record.hardware.get(k)})" for k in _HARDWARE if k in hardware]
    return ", ".join(parts)


def _get_mapping(other: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = other.get(name)
    return part if isinstance(part, Mapping) else {}
