"""A run of a few texts on the bundled model, in this process."""

from pathlib import Path

from openended.harness.run import Session, Settings, run
from openended.harness.run.artifacts import ArtifactBuilder
from openended.harness.storage import ResultRow, RunRecord, read_record
from openended.harness.storage.store import Store
from tests.helpers import run_settings, write_jsonl

# Model under test, scorer and embedder are one model.
ONE_MODEL = ("model=docs-s", "scorer.path=bundled:docs-s", "embedder.path=bundled:docs-s")


def settings(folder: Path, *overrides: str) -> Settings:
    """Return the settings of a run over eight texts of sixteen, judged by the bundled model, its outputs under the folder."""
    path = folder / "own.jsonl"
    if not path.exists():
        rows = [
            {"prompt": f"Return {i} and", "human": f" raise an error if the number {i} is too large." * (1 + i % 3)}
            for i in range(16)
        ]
        write_jsonl(path, rows)
    words = ["task=jsonl", "scoring=docs-m", "decoder=greedy", f"task.path={path}", "num_examples=8"]
    words += ["max_new_tokens=12", f"outputs_dir={folder / 'out'}", *overrides]
    return run_settings(*words)


def open_session(folder: Path) -> Session:
    """Return a new session on the store of such a run."""
    return Session(Store(folder / "out" / "store"))


def make_builder(folder: Path, *, plan_only: bool = False) -> ArtifactBuilder:
    """Return a builder in a new session."""
    return ArtifactBuilder(open_session(folder), plan_only=plan_only)


def measured(folder: Path, *words: str) -> RunRecord:
    """Run in a new session; return the record."""
    return read_record(run(settings(folder, *words), open_session(folder)).folder)


def measure_rows(folder: Path, *words: str) -> tuple[RunRecord, dict[tuple[str, str], ResultRow]]:
    """Run in a new session; return the record, and its results by system and metric."""
    record = measured(folder, *words)
    return record, {(row.system, row.metric): row for row in record.results}
