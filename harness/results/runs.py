"""One run folder as results read it: its axes, titles, inputs and values."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """One run folder as far as the report reads it."""

    folder: Path
    created: str
    name: str
    """`experiment/key8`: the same for a run that was repeated."""
    experiment: str
    axes: Mapping[str, Any]
    titles: Mapping[str, str]
    """Display names of `model` and `decoder`."""
    store: Path | None
    inputs: Mapping[str, str]
    """Name of a stage's artefact → `stage/ab/key` in the store."""
    results: Sequence[ResultRow]
    notes: tuple[str, ...]
    """What the reader must know about its texts."""
    command: tuple[str, ...] = ()
    """The words of the command line that made it."""


def read_run(path: Path) -> Run:
    """Read the record of a run.

    Raises:
        DataError: If it cannot be read; names the file.
    """
    record, folder = read_record(path), path.parent
    experiment = str(record.spec.get("experiment") or folder.parent.name)
    return Run(
        folder=folder,
        created=record.created,
        name=f"{experiment}/{folder.name.rpartition('-')[2]}",
        experiment=experiment,
        axes={name: _plain(value) for name, value in record.axes.items()},
        titles={role: _title(path, record, role) for role in ("model", "decoder")},
        store=(folder / record.store).resolve() if record.store else None,
        inputs=record.inputs,
        results=record.results,
        notes=(*record.notes, *reused_remarks(record)),
        command=_command(record),
    )


def _command(record: RunRecord) -> tuple[str, ...]:
    """Return the words that made a run; a job of Slurm was started by its launcher: what the user set stands for it."""
    words = tuple(record.command)
    return ("openended", *record.overrides) if words and words[0].endswith("submitit/core/_submit.py") else words


def _title(path: Path, record: RunRecord, role: str) -> str:
    """Display name of the model or the decoder; empty where the record has none."""
    part = record.spec.get(role) or {}
    if not isinstance(part, Mapping):
        raise DataError(f"{path}: spec.{role}: expected an object, got {part!r:.40}")
    return str(part.get("title") or "")


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Return an axis value that can stand in a cell: lists and objects become compact JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")) if isinstance(value, (list, dict)) else value


def reused_remarks(record: RunRecord) -> tuple[str, ...]:
    """Say which stages' artefacts were made by other versions, code or hardware than the run's, and by which.

    The artefacts are the same stage version, options and inputs: a difference can move last digits, or tell why two
    machines disagree.
    """
    groups: dict[str, list[str]] = {}
    for name, other in record.provenance.items():
        told = _told(other if isinstance(other, Mapping) else {}, record)
        if told:
            groups.setdefault(told, []).append(name.partition(":")[0])
    return tuple(
        f"found, not made by this run: {', '.join(s for s in STAGES if s in stages)}; made with {told}"
        for told, stages in sorted(groups.items())
    )


def _told(other: Mapping[str, Any], record: RunRecord) -> str:
    """Say what another maker was where it differs from the run; nothing where it does not."""
    if "maker" in other:
        return "versions that were not noted"
    packages = _part(other, "packages")
    parts = [f"{name} {was or 'absent'} (now {record.packages.get(name, 'absent')})" for name, was in packages.items()]
    commit = _part(other, "git").get("commit")
    if commit:
        parts.append(f"code {str(commit)[:7]} (now {str(record.git.get('commit'))[:7]})")
    hardware = _part(other, "hardware")
    parts += [f"{k} {hardware[k]} (now {record.hardware.get(k)})" for k in _HARDWARE if k in hardware]
    return ", ".join(parts)


def _part(other: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = other.get(name)
    return part if isinstance(part, Mapping) else {}
