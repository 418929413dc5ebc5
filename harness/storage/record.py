"""The record of a run: one strict JSON file, written by the run and read by reports.

The file contains a digest of its other fields, so that damage is detected. Missing values are NaN and open bounds
infinite in memory; both are null in the file.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Self

from openended.harness import core
from openended.harness.storage.store import check_entry_name

RECORD = "record.json"
EXPLAIN = "explain.jsonl"  # in a run folder: the texts behind the scores
GRID = "grid.json"  # in a grid folder: name, report and number of jobs
SCHEMA = 3
DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """One metric of one system."""

    system: str
    """`model`, the system under test; `human`, the human row; `ceiling`, human text against more human text."""
    metric: str
    """Registered name of the metric."""
    signature: str
    """Everything that identifies the number except the system under test."""
    primary: str
    """The key of `values` that a table shows first."""
    values: Mapping[str, float]
    """Name → value; NaN if missing."""
    sd: Mapping[str, float] = field(default_factory=dict)
    """Name → standard deviation over the metric's own repetitions."""
    n_human: int
    """Texts of the human side."""
    n_model: int
    """Texts of the system under test."""
    status: str
    """`ok`; `undefined`: it has no value for these texts; `failed`: its code raised."""
    notes: tuple[str, ...] = ()
    """Notes for readers of a table; the reason if the metric has no value."""
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
    bounds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Name of a value → least and greatest number that it can be."""
    resampling: str = "none"
    """Which interval over examples is valid: `bootstrap`, `subsample` or `none`."""
    artifact: str | None = None
    """Store entry (`stage/ab/key`) of its arrays; None if nothing was computed."""
    intervals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Name of a value → `low`, `high`, `std_error`, `level`, `method`, `replicates` of its interval over examples."""

    @classmethod
    def from_result(cls, system: str, metric: core.Metric, result: core.MetricResult, artifact: str | None) -> Self:
        """Build the row of a metric's result."""
        ranked = [name for name in result.values if name not in result.unranked]
        same = ("metric", "signature", "primary", "n_human", "n_model", "status")
        return cls(
            **{name: getattr(result, name) for name in same}, system=system, artifact=artifact,
            values=dict(result.values), sd=dict(result.sd), notes=tuple(result.notes), family=metric.family,
            direction=metric.direction,
            directions={name: metric.best_of(name) if name in ranked else "none" for name in result.values},
            targets={name: target for name in ranked if (target := metric.target_of(name)) is not None},
            titles=dict(metric.titles), bounds={name: metric.bounds_of(name, result) for name in result.values},
            resampling=metric.resampling, intervals={name: dict(i) for name, i in result.intervals.items()},
        )  # fmt: skip

    def to_json(self) -> dict[str, core.Json]:
        """Return plain JSON."""
        row = _fields_to_json(self)
        del row["targets"]
        nearest = {name: format_direction("target", target) for name, target in self.targets.items()}
        return row | {"directions": {**self.directions, **nearest}}

    @classmethod
    def from_json(cls, value: object, where: str) -> Self:
        """Parse the output of `to_json`."""
        row = _read(cls, value, where)
        nearest = {name: text for name, text in row["directions"].items() if text.startswith(_NEAREST)}
        row["targets"] = {}
        for name, text in nearest.items():
            try:
                row["targets"][name] = float(text.removeprefix(_NEAREST))
            except ValueError as err:
                where = f"{where}: directions.{name}"
                raise core.DataError(f"{where}: expected `{_NEAREST}` and a number, got {text[:40]!r}") from err
        row["directions"] |= dict.fromkeys(nearest, "target")
        for name, bounds in row["bounds"].items():
            if len(bounds) != 2:
                raise core.DataError(f"{where}: bounds.{name}: expected two numbers, got {len(bounds)}")
            least, most = bounds
            row["bounds"][name] = -math.inf if math.isnan(least) else least, math.inf if math.isnan(most) else most
        if row["artifact"] is not None:
            check_entry_name(row["artifact"], f"{where}: artifact")
        return cls(**row)


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
    inputs: Mapping[str, str] = field(default_factory=dict)
    """`stage:what` → store entry (`stage/ab/key`); `task` → digest of the task's data."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Name of a cached input → how its environment differed (empty: not at all)."""
    timings: Mapping[str, float] = field(default_factory=dict)
    """Stage → seconds in this run."""
    store: str | None = None
    """The store's folder, relative to the record's; None: the artifacts are not available."""
    notes: tuple[str, ...] = ()
    """Notes on the texts for readers of a table."""
    results: tuple[ResultRow, ...]
    """One row per metric and system."""

    def to_json(self) -> dict[str, core.Json]:
        """Return plain JSON."""
        return _fields_to_json(self)

    @classmethod
    def from_json(cls, value: object, where: str) -> Self:
        """Parse the output of `to_json`."""
        if isinstance(value, Mapping) and value.get("schema", SCHEMA) != SCHEMA:
            raise core.DataError(f"{where}: expected record schema {SCHEMA}, got {value['schema']!r:.40}; run it again")
        record = cls(**_read(cls, value, where))
        try:
            datetime.fromisoformat(record.created)
        except ValueError as err:
            raise core.DataError(
                f"{where}: created: expected a time as 2027-01-31T12:00:00+00:00, got {record.created[:40]!r}"
            ) from err
        for name, entry in record.inputs.items():
            if name != "task":
                check_entry_name(entry, f"{where}: inputs.{name}")
        return record


def read_record(path: Path) -> RunRecord:
    """Read the record of a run, given its file or its folder."""
    file = path / RECORD if path.is_dir() else path
    return _unseal(core.read_json(file), str(file), "; the same command writes it again")[0]


def _unseal(value: Any, where: str, advice: str = "") -> tuple[RunRecord, dict[str, core.Json]]:  # noqa: ANN401 - JSON
    """Return the record in a JSON value and its fields without the digest, which must be theirs."""
    fields = dict(value) if isinstance(value, dict) else value
    stated = fields.pop(DIGEST, None) if isinstance(fields, dict) else None
    try:
        record = RunRecord.from_json(fields, where)
        is_sound = stated == core.digest(fields)
    except (RecursionError, TypeError, ValueError) as err:
        raise core.DataError(f"{where}: not a run record ({type(err).__name__})") from err
    if not is_sound:
        raise core.DataError(f"{where}: damaged: its digest does not match{advice}")
    return record, fields


def save_record(folder: Path, record: RunRecord) -> None:
    """Write a record with its digest into its folder, with home folder and keys removed."""
    fields = core.make_shareable(record.to_json())
    core.write_json(folder / RECORD, {**typing.cast("dict[str, core.Json]", fields), DIGEST: core.digest(fields)})


_UNWRITTEN = ("targets",)  # fields that are stored inside another field
_NEAREST = "nearest "


def format_direction(direction: str, target: float) -> str:
    """Format a direction for files: `nearest 0.5` if a target value is best."""
    return f"{_NEAREST}{target:g}" if direction == "target" else direction


def _fields_to_json(record: ResultRow | RunRecord) -> dict[str, core.Json]:
    def plain(value: Any) -> core.Json:  # noqa: ANN401
        if isinstance(value, ResultRow):
            return value.to_json()
        return [plain(v) for v in value] if isinstance(value, tuple) else core.to_json(value)

    return {f.name: plain(getattr(record, f.name)) for f in dataclasses.fields(record)}


def _read(cls: type[ResultRow | RunRecord], value: object, where: str) -> dict[str, Any]:
    """Parse the fields of a record, each coerced to its annotation."""
    if not isinstance(value, Mapping):
        raise core.DataError(f"{where}: not a run record: expected a JSON object, got {_describe_value(value)}")
    hints = _list_hints(cls)  # type: ignore[arg-type] # a class is hashable
    for name in value:
        if name not in hints:
            raise core.DataError(f"{where}: not a run record: no field {name!r}{core.suggest(str(name), hints)}")
    for name in hints:
        if name not in value:
            raise core.DataError(f"{where}: not a run record: field {name!r} is missing")
    return {name: _coerce(value[name], hint, f"{where}: {name}") for name, hint in hints.items()}


@cache
def _list_hints(cls: type[ResultRow | RunRecord]) -> dict[str, Any]:
    return {name: hint for name, hint in typing.get_type_hints(cls).items() if name not in _UNWRITTEN}


def _coerce(value: object, hint: Any, where: str) -> Any:  # noqa: ANN401 - of the type of the hint
    if hint is Any or type(value) is hint:
        return value
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:  # only `str | None` occurs here
        return None if value is None else _coerce(value, args[0], where)
    if origin is tuple and isinstance(value, list):
        return tuple(_coerce(v, args[0], f"{where}[{i}]") for i, v in enumerate(value))
    if origin is Mapping and isinstance(value, Mapping):
        return {str(k): _coerce(v, args[1], f"{where}.{k}") for k, v in value.items()}
    if hint is ResultRow:
        return ResultRow.from_json(value, where)
    if hint is float and value is None:
        return math.nan
    kind = origin or hint
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind in (int, float, str) and isinstance(value, kind) and not isinstance(value, bool):
        return value
    names = {tuple: "a list", Mapping: "an object", int: "a whole number", float: "a number or null", str: "a string"}
    raise core.DataError(f"{where}: expected {names[kind]}, got {_describe_value(value)}")


def _describe_value(value: object) -> str:
    return "null" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
