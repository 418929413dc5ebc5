"""Read the records of runs (axes, titles, inputs, values), and verify them and their store files."""

import json
import logging
import math
import os
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openended.harness import results, storage
from openended.harness.core import DataError, HarnessError, MetricResult, RunNote
from openended.harness.results.axes import make_natural_sort_key
from openended.harness.storage import RECORD, Entry, RunInput, RunRecord, find_input, read_entry, read_record

log = logging.getLogger(__name__)

ARCHIVES = "imported"  # folder of the outputs with the archives that were imported, each with runs, grids and store
ARCHIVE = "archive"  # axis of their runs
_STORE = "../../../store"
HUMAN_FILES = {
    "human": ("human", storage.HUMAN_ROWS),
    "more human": ("human", storage.SPARE_ROWS),
    "other human": ("other human", storage.SPARE_ROWS),
}
"""Role of human texts → role of the artifact with their rows, and the file; those of a system are `data.arrow`."""
_RUN_NAME = re.compile(r".+-[0-9a-f]{8}", re.DOTALL)
_HARDWARE = ("accelerator", "processor", "machine", "system")


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The parts of a run record that reports use."""

    folder: Path
    created: str
    name: str  # `experiment/key8`; repetitions of a run have the same name
    experiment: str
    axes: Mapping[str, Any]
    titles: Mapping[str, str]  # display names of `model` and `decoder`
    store: Path | None
    inputs: Sequence[RunInput]  # its artifacts
    results: Sequence[MetricResult]
    notes: tuple[RunNote, ...]  # on its texts
    skipped: tuple[str, ...] = ()  # lines about records of its data that were skipped
    archive: str = ""  # imported archive that it is from; empty for a run of this machine
    command: tuple[str, ...] = ()  # arguments of the command line that started it
    metrics: Mapping[str, Any] = field(default_factory=dict)  # name → options, as in the record's spec
    seconds: float = math.nan  # that generating its texts took; NaN if any of them was cached
    task_digest: str = ""

    @property
    def task(self) -> str:
        """Name of its task; `texts` without one."""
        return str(self.axes.get("task") or "texts")

    def find_rows(self, role: str) -> tuple[str | None, str]:
        """Return the artifact with the texts of a role, None if there is none, and the name of their file."""
        made_as, file = HUMAN_FILES.get(role, (role, "data.arrow"))
        rows = find_input(self.inputs, made_as, *(("human",) if role in HUMAN_FILES else storage.MODEL_STAGES))
        return rows.artifact if rows is not None else None, file

    def find_losses(self, role: str) -> str | None:
        """Return the artifact with the scorer's losses of the texts of a role; None if there is none."""
        return next((each.artifact for each in self.inputs if each.role == role and "losses" in each.gives), None)

    def find_vectors(self, role: str, scope: str = "") -> str | None:
        """Return the artifact with the embedder's vectors of the texts of a role, of any scope if none is given."""
        of_role = ((each.artifact, each.gives.get("vectors", "")) for each in self.inputs if each.role == role)
        return next((artifact for artifact, of_scope in of_role if of_scope and scope in ("", of_scope)), None)


def find_records(paths: Sequence[Path]) -> tuple[list[Path], dict[str, str]]:
    """Return the record files under paths without duplicates, and run folder → what is wrong where it has none."""
    records: dict[Path, None] = {}
    lost: dict[str, str] = {}
    for path in paths:
        if not path.exists() and not _RUN_NAME.fullmatch(path.name):
            raise DataError(f"no such run folder: {path}")
        if path.is_file() and path.name != RECORD:  # a record that was kept under another name
            try:
                read_record(path)
            except DataError as err:
                raise DataError(
                    f"{path}: expected a run's {RECORD}, runs or a name{results.suggest_command(path)}"
                ) from err
        of_path = [path] if path.is_file() else list(_walk(path)) if path.is_dir() else [path / RECORD]
        if not of_path:
            raise DataError(f"no finished run under {path}: no {RECORD} found{results.suggest_command(path)}")
        for record in of_path:
            if record.is_file():
                records[record.resolve()] = None
            else:
                lost[str(record.parent.resolve())] = f"{record}: no such file"
    return list(records), lost


def find_run(word: str, outputs: Path) -> Path:
    """Return the folder of a run by its path or the end of its name."""
    path = Path(word)
    if (path / RECORD).is_file() or path.name == RECORD:
        return path if path.is_dir() else path.parent
    homes = [outputs, *list_archives(outputs)]
    records = sorted(path for home in homes for path in (home / "runs").glob(f"*/*/{RECORD}"))
    folders = [path.parent for path in records if path.parent.name.endswith(word)]
    if not folders:
        names = [run.name.rpartition("-")[2] for run in sorted((outputs / "runs" / word).glob("*")) if run.is_dir()]
        hint = f"; of the name {word}: {', '.join(names[:9])}" if names and word.strip("./") else ""
        where = f"expected a folder with {RECORD}, or the end of one's name in {outputs}/runs{hint}"
        raise DataError(f"no run {word!r}: {where}")
    if len(folders) > 1:
        raise DataError(f"{len(folders)} runs end with {word!r}: {', '.join(map(str, folders[:5]))}; give the folder")
    return folders[0]


def find_runs(word: str, outputs: Path) -> list[Path]:
    """Return the folders of the runs of a name or of its folder, or that of one run by its path or end of its name."""
    home = Path(word) if "/" in word else outputs / "runs" / word
    folders = sorted(path.parent for path in home.glob(f"*/{RECORD}")) if word not in ("", ".", "..") else []
    return folders or [find_run(word, outputs)]


def locate_run(folder: Path) -> Path:
    """Return a run's folder or, where its record is lost, the newest in which the same run was written again."""
    if (folder / RECORD).is_file() or not _RUN_NAME.fullmatch(folder.name):
        return folder
    twins = [path.parent for path in folder.parent.glob(f"*-{folder.name.rpartition('-')[2]}/{RECORD}")]
    return max(twins, default=folder)


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the record of every run folder; it is missing in a run that has not finished."""
    children = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if (folder / RECORD).is_file() or (not children and _RUN_NAME.fullmatch(folder.name)):
        yield folder / RECORD
        return
    for child in children:
        yield from _walk(child)


def find_archive(folder: Path) -> str:
    """Return the imported archive that the folder of a run is in; empty for a run of this machine."""
    home = folder.resolve().parent.parent.parent  # …/imported/NAME/runs/EXPERIMENT/RUN
    return home.name if home.parent.name == ARCHIVES else ""


def list_archives(outputs: Path) -> list[Path]:
    """Return the folders of the archives that were imported."""
    return sorted(path for path in (outputs / ARCHIVES).glob("*") if path.is_dir())


def read_runs(paths: Sequence[Path]) -> tuple[list[Run], dict[str, str]]:
    """Read the records under paths; leave out, with a warning, those that are lost or damaged.

    Returns the runs, and run folder → why it is left out.
    """
    runs: list[Run] = []
    records, wrong = find_records(paths)
    for path in records:
        try:
            runs.append(read_run(path))
        except DataError as err:
            wrong[str(path.parent)] = str(err)
    if not runs:
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise DataError(f"{next(iter(wrong.values()), 'no path of a run was given')}{more}")
    for message in wrong.values():
        log.warning("%s: left out of the report", message)

    def make_sort_key(run: Run) -> tuple[Any, ...]:  # depends neither on paths nor on which job of a grid ends first
        return serialize_axes(run.axes), [make_natural_sort_key(row.signature) for row in run.results], run.created

    return sorted(_unify_model_paths(runs), key=make_sort_key), wrong


def serialize_axes(axes: Mapping[str, Any]) -> str:
    """Serialize axes to a text that does not depend on their order."""
    return json.dumps({k: v for k, v in axes.items() if v is not None}, sort_keys=True, default=str)


def read_run(path: Path) -> Run:
    """Read the record of a run."""
    record, folder = read_record(path), path.parent
    experiment = str(record.spec.get("experiment") or folder.parent.name)
    archive = find_archive(folder)
    axes = {**record.axes, ARCHIVE: archive} if archive else record.axes
    generated = find_input(record.inputs, "model", "generate")
    # `device` is noted of cached artifacts, `reused_tokens` where a part of the texts was made before.
    is_reused = generated is not None and {"device", "reused_tokens"} & (generated.provenance or {}).keys()
    metrics = record.spec.get("metrics")
    is_slurm_job = record.command and record.command[0].endswith("/_submit.py")
    return Run(
        folder=folder,
        created=record.created,
        name=f"{experiment}/{folder.name.rpartition('-')[2]}",
        experiment=experiment,
        axes={
            name: json.dumps(value, sort_keys=True, separators=(",", ":")) if isinstance(value, (list, dict)) else value
            for name, value in axes.items()
        },
        titles={"model": "", "decoder": "", **record.titles},
        # An archive has its own store, whatever its records say.
        store=(folder / (_STORE if archive else record.store)).resolve() if record.store else None,
        inputs=record.inputs,
        task_digest=record.task_digest,
        results=record.results,
        notes=(*record.notes, *describe_reused_artifacts(record)),
        skipped=tuple(record.describe_skipped()),
        archive=archive,
        command=("openended", *record.overrides) if is_slurm_job else tuple(record.command),
        metrics={
            str(node.get("name")): node for node in map(_get_mapping, metrics if isinstance(metrics, list) else [])
        },
        seconds=math.nan if is_reused else record.timings.get("generate", math.nan),
    )


def _get_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _unify_model_paths(runs: Sequence[Run]) -> list[Run]:
    """Give all copies of a model the same path, so that a copy in another folder is not a separate system."""

    def list_paths(run: Run) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield the path axes of a run's models, each with its role and the digest of the model's content."""
        for role in (a.removesuffix(".digest") for a in run.axes if a.endswith(".digest") and a != "task.digest"):
            # Models that a decoder needs besides the one under test have one axis with all their options.
            axis = f"{role}.path" if f"{role}.path" in run.axes else role
            if isinstance(run.axes.get(axis), str):
                yield axis, (role, str(run.axes[f"{role}.digest"]))

    paths: dict[tuple[str, str], str] = {}
    for run in sorted(runs, key=lambda run: bool(run.archive)):
        for axis, key in list_paths(run):
            paths[key] = (
                paths[key] if run.archive and key in paths else min(paths.get(key, run.axes[axis]), run.axes[axis])
            )
    return [replace(run, axes={**run.axes, **{axis: paths[key] for axis, key in list_paths(run)}}) for run in runs]


def describe_reused_artifacts(record: RunRecord) -> tuple[RunNote, ...]:
    """Return remarks on cached artifacts that were computed with other packages, code or hardware than this run."""
    groups: dict[str, list[str]] = {}
    for each in record.inputs:
        packages, git, hardware = (
            _get_mapping((each.provenance or {}).get(part)) for part in ("packages", "git", "hardware")
        )
        commit = git.get("commit")
        parts = [f"{n} {was or 'absent'} (now {record.packages.get(n, 'absent')})" for n, was in packages.items()]
        parts += [f"code {str(commit)[:7]} (now {str(record.git.get('commit'))[:7]})"] if commit else []
        parts += [f"{k} {hardware[k]} (now {record.hardware.get(k)})" for k in _HARDWARE if k in hardware]
        if parts:
            groups.setdefault(", ".join(parts), []).append(each.stage)
    lines = {origin: ", ".join(s for s in storage.STAGES if s in stages) for origin, stages in sorted(groups.items())}
    remarks = (f"cached, not computed by this run: {names}; computed with {origin}" for origin, names in lines.items())
    return tuple(RunNote("remark", (remark,)) for remark in remarks)


# Store files ----------------------------------------------------------------------------------------------------------


def locate_verified_file(
    store: Path | None, artifact: str | None, name: str, damaged: MutableMapping[str, str]
) -> Path | None:
    """Return the path of an artifact's file after verifying its bytes; None if it is missing or damaged.

    Args:
        store: Root of the store; None if a run has none.
        artifact: `stage/ab/key`.
        name: File name.
        damaged: Collects artifact → what is wrong with it; each is logged once.
    """
    entry = read_verified_entry(store, artifact, name, damaged)
    return entry.path / name if entry is not None else None


def read_verified_entry(
    store: Path | None, artifact: str | None, name: str, damaged: MutableMapping[str, str]
) -> Entry | None:
    """Return an artifact after verifying the bytes of one of its files; see `locate_verified_file`."""
    folder = store / artifact if store is not None and artifact and artifact not in damaged else None
    if folder is None or artifact is None or not os.path.lexists(folder):
        return None
    try:
        return read_entry(folder, only=name)
    except HarnessError as err:
        damaged[artifact] = str(err)
        log.warning("%s is damaged (%s): skipped; rerun the run that wrote it to compute it again", folder, err)
        return None
