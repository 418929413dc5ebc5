"""One record for each spec and results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.run.pipeline.run_record import write_record
from openended.harness.run.resolve import ResolvedRun, resolve_run
from openended.harness.run.session import Session
from openended.harness.storage.record import read_record
from openended.harness.storage.store import Store
from tests.harness.run.small import settings


def write(run: ResolvedRun, folder: Path, *, task: str = "t") -> Path:
    builder = ArtifactBuilder(Session(Store(folder / "store")), plan_only=False)
    decoder = run.generation.decoder
    return write_record(run, builder, [], decoder=decoder, human=None, task=task, notes=("a note",), overrides=())


def test_a_run_that_says_the_same_is_recorded_once(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    first = write(resolve_run(chosen), tmp_path)
    assert (read_record(first).notes, first.parent) == (("a note",), tmp_path / "out" / "runs" / "test")
    assert write(resolve_run(replace(chosen, seed=7)), tmp_path) == first  # greedy: the seed changes nothing
    assert write(resolve_run(replace(chosen, max_new_tokens=3)), tmp_path) != first
    assert write(resolve_run(chosen), tmp_path, task="other") != first
