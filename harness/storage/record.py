"""The record of a run: one strict JSON file, written by the run and read by reports.

The file contains a digest of its other fields, so that damage is detected. Missing values are NaN and open bounds
infinite in memory; both are null in the file.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from openended.harness import core
from openended.harness.storage.store import check_entry_name

_HIDDEN = "folders.json"  # in the cache folder: the folders that records do not show
RECORD = "record.json"
EXPLAIN = "explain.jsonl"  # in a run folder: the texts behind the scores
GRID = "grid.json"  # in a grid folder: name, report and number of jobs
SCHEMA = 6
DIGEST = "digest"


@dataclass(frozen=True, slots=True)
class RunInput:
    """An artifact of a run: what it is, where it is in the store, and where it came from."""

    artifact: str
    """Store entry, `stage/ab/key`."""
    role: str
    """Whose texts it is or was read of: `Role` in `run/steps.py`."""
    what: str
    """What the stage computed it for, in words for people."""
    gives: Mapping[str, str] = field(default_factory=dict)
    """`losses` under the scorer, `vectors` of the embedder → the scope that they are of."""
    provenance: Mapping[str, Any] | None = None
    """How the environment that computed it differed, and facts of a server; empty: not at all; None: it is new."""

    @property
    def stage(self) -> str:
        return self.artifact.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything needed to audit a run and to repeat it."""

    schema: int = SCHEMA
    """Version of this form."""
    created: str
    """When the run ended: UTC, ISO 8601, to the second."""
    spec: Mapping[str, Any]
    """Everything that can change results: task, model, decoder, scorer, embedder, metrics, counts, seed."""
    axes: Mapping[str, Any]
    """The system as flat options, which distinguish it from other runs of a report."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """What tables call `model` and `decoder`; empty where there is none."""
    overrides: tuple[str, ...] = ()
    """The overrides that the user typed."""
    command: tuple[str, ...] = ()
    """The words of the command line of the process."""
    git: Mapping[str, Any] = field(default_factory=dict)
    """Commit of the harness's checkout and whether it was changed; null for an installed package."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Name → version of Python and the packages that can change results."""
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """Processor, memory, accelerator."""
    task_digest: str = ""
    """Digest of the task's data."""
    inputs: tuple[RunInput, ...] = ()
    """The artifacts that it computed or found in the store, in the order of their use."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Stage → seconds in this run."""
    store: str | None = None
    """The store's folder, relative to the record's; None: the artifacts are not available."""
    notes: tuple[core.RunNote, ...] = ()
    """Notes on the texts for readers of a table."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Why records of the task's data were skipped → their number."""
    results: tuple[core.MetricResult, ...]
    """One row per metric and system."""

    def describe_skipped(self) -> list[str]:
        return [f"{count:,} records skipped ({reason})" for reason, count in self.skipped.items()]


def read_record(path: Path) -> RunRecord:
    """Read the record of a run, given its file or its folder."""
    file = path / RECORD if path.is_dir() else path
    where, fields = str(file), core.read_json(file)
    stated = fields.pop(DIGEST, None) if isinstance(fields, dict) else None
    if isinstance(fields, dict) and fields.get("schema", SCHEMA) != SCHEMA:
        raise core.DataError(f"{where}: expected record schema {SCHEMA}, got {fields['schema']!r:.40}; run it again")
    record = core.decode(RunRecord, fields, f"{where}: not a run record")
    try:
        datetime.fromisoformat(record.created)
    except ValueError as err:
        expected = "a time as 2027-01-31T12:00:00+00:00"
        raise core.DataError(f"{where}: created: expected {expected}, got {record.created[:40]!r}") from err
    for at, each in enumerate(record.inputs):
        check_entry_name(each.artifact, f"{where}: inputs[{at}]: artifact")
    results = tuple(_check_result(result, f"{where}: results[{i}]") for i, result in enumerate(record.results))
    try:
        is_sound = stated == core.digest(fields)
    except (RecursionError, TypeError):
        is_sound = False
    if not is_sound:
        raise core.DataError(f"{where}: damaged: its digest does not match; the same command writes it again")
    return dataclasses.replace(record, results=results)


def _check_result(result: core.MetricResult, where: str) -> core.MetricResult:
    """Return a result of a record whose open bounds, null in the file, are infinite."""
    if result.artifact is not None:
        check_entry_name(result.artifact, f"{where}: artifact")
    for name, direction in {"": result.direction, **result.directions}.items():
        try:
            core.parse_direction(direction)
        except ValueError as err:
            expected = "`nearest` and a number"
            raise core.DataError(
                f"{where}: direction of {name or result.metric}: expected {expected}, got {direction[:40]!r}"
            ) from err
    ends = {name: (-math.inf if math.isnan(low) else low, high) for name, (low, high) in result.bounds.items()}
    bounds = {name: (low, math.inf if math.isnan(high) else high) for name, (low, high) in ends.items()}
    return dataclasses.replace(result, bounds=bounds)


def find_input(inputs: Iterable[RunInput], role: str, *stages: str) -> RunInput | None:
    """Return the input of a role that is of the first of some stages; None if there is none."""
    of_role = [each for each in inputs if each.role == role]
    return next((each for stage in stages for each in of_role if each.stage == stage), None)


def save_record(folder: Path, record: RunRecord) -> None:
    """Write a record with its digest into its folder, with home folder and keys removed."""
    fields = core.make_shareable(core.to_json(record))
    core.write_json(folder / RECORD, {**cast("dict[str, core.Json]", fields), DIGEST: core.digest(fields)})
    short = {_name_hidden(str(core.make_shareable(word)), record): word for word in record.overrides}
    if hidden := {name: word for name, word in short.items() if core.SHORTENED in name}:
        path = core.find_cache_root() / _HIDDEN
        core.write_json(path, {**(core.read_json(path) if path.is_file() else {}), **hidden})


def restore_words(record: RunRecord) -> list[str]:
    """Return the overrides of a record with the folders that this machine's cache remembers of a run of that model."""
    path = core.find_cache_root() / _HIDDEN
    hidden = core.read_json(path) if path.is_file() else {}
    return [str(hidden.get(_name_hidden(word, record), word)) for word in record.overrides]


def _name_hidden(word: str, record: RunRecord) -> str:
    return f"{word} {record.axes.get('model.digest')}"
