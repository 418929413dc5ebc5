"""The record of a run: one strict JSON file, written by a run and read by reports and tasks, by the classes here.

The file holds a digest of the rest of itself: a flipped bit in a number is told, not believed.

In memory a value that is not there is NaN and an open bound is infinite; in the file both are null.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from openended.harness.core import (
    DataError,
    Json,
    Metric,
    MetricResult,
    digest,
    read_json,
    shareable,
    suggest,
    to_json,
    write_json,
)

RECORD = "record.json"
EXPLAIN = "explain.jsonl"  # in the folder of a run: the texts behind its scores
GRID = "grid.json"  # in the folder of a grid: how it is called, what it shows, how many jobs it has
SCHEMA = 3  # 2 had no digest
DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One metric of one system."""

    system: str
    """`model`, the system under test; `human`, the human row; `ceiling`, human text against more human text."""
    metric: str
    """Registered name of the metric."""
    signature: str
    """Everything that identifies the number but the system under test."""
    primary: str
    """The key of `values` that a table shows first."""
    values: Mapping[str, float]
    """Name → value; NaN where there is none."""
    sd: Mapping[str, float] = field(default_factory=dict)
    """Name → spread over the metric's own repetitions."""
    n_human: int
    """Texts of the human side."""
    n_model: int
    """Texts of the system under test."""
    status: str
    """`ok`; `undefined`, it has no value here; `failed`, its code raised."""
    notes: tuple[str, ...] = ()
    """What the reader of a table must know; the reason where the metric has no value."""
    family: str = ""
    """Family of the metric, which groups tables."""
    direction: str = "none"
    """`higher`, `lower` or `match_human`: which value of the metric is best."""
    directions: Mapping[str, str] = field(default_factory=dict)
    """Name of a value → its own direction, `target` or `none`."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """Name of a value whose direction is `target` → the number that is best; in the file: direction `nearest 0.5`."""
    titles: Mapping[str, str] = field(default_factory=dict)
    """Name of a value → display name, where it differs."""
    bounds: tuple[float, ...] = (-math.inf, math.inf)
    """Least and greatest value that the metric can have."""
    resampling: str = "none"
    """Which interval over examples is valid: `bootstrap`, `subsample` or `none`."""
    artefact: str | None = None
    """Place of its arrays in the store; None where nothing was computed."""
    intervals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a value → `low`, `high`, `std_error`, `level`, `method`, `replicates` of its interval over examples."""

    @classmethod
    def of(cls, system: str, metric: Metric, result: MetricResult, artefact: str | None) -> ResultRow:
        """Return the row of a metric's result."""
        r, m = result, metric
        return cls(
            system=system, metric=r.metric, signature=r.signature, primary=r.primary, values=dict(r.values),
            sd=dict(r.sd), n_human=r.n_human, n_model=r.n_model, status=r.status, notes=tuple(r.notes),
            family=m.family, direction=m.direction, directions={n: m.best_of(n) for n in r.values},
            targets={n: m.targets[n] for n in r.values if n in m.targets}, titles=dict(m.titles),
            bounds=m.bounds, resampling=m.resampling, artefact=artefact,
            intervals={n: dict(i) for n, i in r.intervals.items()},
        )  # fmt: skip

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON."""
        row = _written(self)
        del row["targets"]
        nearest = {name: direction_text("target", target) for name, target in self.targets.items()}
        return row | {"directions": {**self.directions, **nearest}}

    @classmethod
    def from_json(cls, value: object, where: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            DataError: Names the place, the field and what is wrong with it.
        """
        row = _read(cls, value, where)
        nearest = {name: text for name, text in row["directions"].items() if text.startswith(_NEAREST)}
        row["targets"] = {name: _target(text, f"{where}: directions.{name}") for name, text in nearest.items()}
        row["directions"] |= dict.fromkeys(nearest, "target")
        bounds = row["bounds"]
        if len(bounds) != 2:
            raise DataError(f"{where}: bounds: expected two numbers, got {len(bounds)}")
        least, most = bounds
        row["bounds"] = (-math.inf if math.isnan(least) else least, math.inf if math.isnan(most) else most)
        return cls(**row)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run: enough to audit it and to run it again."""

    schema: int = SCHEMA
    """Version of this form."""
    created: str
    """When the run ended: UTC, ISO 8601, to the second."""
    spec: Mapping[str, Any]
    """Everything that can change a number: task, model, decoder, scorer, embedder, metrics, counts, seed."""
    axes: Mapping[str, Any]
    """The system as flat options: what tells this run from others of a report."""
    overrides: tuple[str, ...] = ()
    """What the user set, as typed."""
    command: tuple[str, ...] = ()
    """The words of the command line of the process."""
    git: Mapping[str, Any] = field(default_factory=dict)
    """Commit of the harness's checkout and whether it was changed; null for an installed package."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Name → version of Python and the packages that can move a number."""
    hardware: Mapping[str, Any] = field(default_factory=dict)
    """Processor, memory, accelerator."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """`stage:what` → the artefact's place in the store, which ends with its key; `task` → digest of the task's data."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Name of an input that was found, not made by this run → what made it differently (empty: nothing)."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Stage → seconds in this run."""
    store: str | None = None
    """The store's folder, relative to the record's; None: the artefacts are not at hand."""
    notes: tuple[str, ...] = ()
    """What the reader of a table must know of the texts."""
    results: tuple[ResultRow, ...]
    """One row a metric and system."""

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON."""
        return _written(self)

    @classmethod
    def from_json(cls, value: object, where: str) -> Self:
        """Read what `to_json` wrote.

        Raises:
            DataError: Names the place, the field and what is wrong with it.
        """
        if isinstance(value, Mapping) and value.get("schema", SCHEMA) != SCHEMA:
            raise DataError(f"{where}: expected record schema {SCHEMA}, got {value['schema']!r:.40}; run it again")
        return cls(**_read(cls, value, where))


def read_record(path: Path) -> RunRecord:
    """Read the record of a run, given its file or its folder.

    Raises:
        DataError: One line that says which file, and what is wrong in it.
    """
    file = path / RECORD if path.is_dir() else path
    told = read_json(file)
    stated = told.pop(DIGEST, None) if isinstance(told, dict) else None
    try:
        record = RunRecord.from_json(told, str(file))
        agrees = stated == digest(told)
    except (RecursionError, ValueError) as err:
        raise DataError(f"{file}: not a run record ({type(err).__name__})") from err
    if not agrees:
        raise DataError(f"{file}: damaged: it does not agree with its own digest; the same command writes it again")
    return record


def save_record(folder: Path, record: RunRecord) -> None:
    """Write a record into its folder, sealed with a digest; of what it says, what others may see.

    Raises:
        StoreError: If it cannot be written.
    """
    told = shareable(record.to_json())
    write_json(folder / RECORD, {**typing.cast("dict[str, Json]", told), DIGEST: digest(told)})


_LATER = ("intervals",)  # fields that records of this schema may lack: written before there were any
_UNWRITTEN = ("targets",)  # fields that stand in another one's place in the file
_NEAREST = "nearest "


def direction_text(direction: str, target: float) -> str:
    """Return a direction as files hold it: `nearest 0.5` where a number is best."""
    return f"{_NEAREST}{target:g}" if direction == "target" else direction


def _target(text: str, where: str) -> float:
    try:
        return float(text.removeprefix(_NEAREST))
    except ValueError as err:
        raise DataError(f"{where}: expected `{_NEAREST}` and a number, got {text[:40]!r}") from err


def _written(record: ResultRow | RunRecord) -> dict[str, Json]:
    def plain(value: Any) -> Json:  # noqa: ANN401
        if isinstance(value, ResultRow):
            return value.to_json()
        return [plain(v) for v in value] if isinstance(value, tuple) else to_json(value)

    return {f.name: plain(getattr(record, f.name)) for f in dataclasses.fields(record)}


def _read(cls: type[ResultRow | RunRecord], value: object, where: str) -> dict[str, Any]:
    """Return the fields of a record, each of the kind that its annotation says."""
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: not a run record: expected a JSON object, got {_kind(value)}")
    hints = {name: hint for name, hint in typing.get_type_hints(cls).items() if name not in _UNWRITTEN}
    for name in value:
        if name not in hints:
            raise DataError(f"{where}: not a run record: no field {name!r}{suggest(str(name), hints)}")
    for name in hints:
        if name not in value and name not in _LATER:
            raise DataError(f"{where}: not a run record: field {name!r} is missing")
    return {name: _fitted(value[name], hint, f"{where}: {name}") for name, hint in hints.items() if name in value}


def _fitted(value: object, hint: Any, where: str) -> Any:  # noqa: ANN401 - of the kind that the hint says
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin is types.UnionType:  # of the kinds here only `str | None`
        return None if value is None else _fitted(value, args[0], where)
    if origin is tuple and isinstance(value, list):
        return tuple(_fitted(v, args[0], f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Mapping and isinstance(value, Mapping):
        return {str(k): _fitted(v, args[1], f"{where}.{k}") for k, v in value.items()}
    if hint is ResultRow:
        return ResultRow.from_json(value, where)
    if hint is float and value is None:
        return math.nan
    kind = origin or hint
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (int, float, str) and isinstance(value, kind) and not isinstance(value, bool):
        return value
    names = {tuple: "a list", Mapping: "an object", int: "a whole number", float: "a number or null", str: "a text"}
    raise DataError(f"{where}: expected {names[kind]}, got {_kind(value)}")


def _kind(value: object) -> str:
    return "null" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
