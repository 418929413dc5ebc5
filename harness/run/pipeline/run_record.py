"""The record of a run, written once for each spec and results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from openended.harness.core import DataError, Json, canonicalize, digest, make_shareable, to_json
from openended.harness.decoders import Decoder
from openended.harness.run.artifacts import ArtifactBuilder, PlannedArtifact, UnavailableInput
from openended.harness.run.identity import collect_axes
from openended.harness.run.pipeline.measure import SystemResult
from openended.harness.run.resolve import ResolvedRun
from openended.harness.storage import (
    Entry,
    RunRecord,
    describe_hardware,
    list_package_versions,
    read_git_state,
    read_record,
    save_record,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run or a plan."""

    folder: Path
    """The run folder; holds `record.json`."""
    num_computed: int
    """Number of artifacts computed, not cached."""
    plan: tuple[PlannedArtifact, ...]
    missing: tuple[UnavailableInput, ...] = ()
    """What a plan found to be missing, with how to get it."""
    failed: tuple[str, ...] = ()
    """Metrics whose code raised, with what it said; "–" in the table."""


def write_record(
    run: ResolvedRun,
    builder: ArtifactBuilder,
    measured: Sequence[SystemResult],
    *,
    decoder: Decoder | None,
    human: Entry | None,
    task: str,
    notes: Sequence[str],
    overrides: Sequence[str],
) -> Path:
    """Write the run record unless an equal one exists; return the run folder."""
    spec = run.spec()
    if decoder is not None and isinstance(spec["decoder"], dict):
        decoder_spec = canonicalize(decoder)
        spec["decoder"] |= decoder_spec if isinstance(decoder_spec, dict) else {}
    facts = collect_axes(run, decoder, fingerprint=task, human=human)
    spec["seed"] = facts["seed"]  # null where it changes nothing, so that such runs are one run
    runs = run.runtime.outputs_dir / "runs" / run.runtime.experiment
    key = digest({"spec": to_json(spec), "task": task})[:8]
    stamp = datetime.now(UTC)
    folder = runs / f"{stamp:%Y%m%dT%H%M%S}-{key}"
    record = RunRecord(
        created=stamp.isoformat(timespec="seconds"), spec=spec, axes=facts, overrides=tuple(overrides),
        command=tuple(sys.argv), git=read_git_state(), packages=list_package_versions(), hardware=describe_hardware(),
        inputs={"task": task, **builder.inputs}, provenance=builder.provenance, timings=builder.timings,
        store="../../../store", notes=tuple(notes), results=tuple(m.row() for m in measured),
    )  # fmt: skip
    with builder.session.store.hold_lock(
        f"run-{key}", f"run {key}"
    ):  # a greedy decoder and two seeds: one run, two jobs
        for earlier in sorted(runs.glob(f"*-{key}"), reverse=True):
            if _is_same_run(earlier, record):
                return earlier
        save_record(folder, record)
    return folder


def _is_same_run(folder: Path, record: RunRecord) -> bool:
    """True if a folder holds a record of the same spec and results."""
    try:
        earlier = read_record(folder).to_json()
    except DataError:
        return False
    now = cast("dict[str, Json]", make_shareable(record.to_json()))
    return all(earlier[name] == now[name] for name in ("spec", "results"))
