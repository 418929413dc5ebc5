"""What the faults are tried on, and what is kept of them."""

import csv
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openended.harness.app.hydra.compose import Composer
from openended.harness.core import format_error, read_json
from openended.harness.report import build_report
from openended.harness.run import Session, Settings, run
from openended.harness.storage.store import Store
from tests.helpers import tiny_model, write_jsonl

FACTS = ("manifest.json",)  # hold times
WORDS = (
    "task=jsonl model=folder scorer=none embedder=none metric=[distinct_n,repetition] metric.distinct_n.unit=words "
    "metric.repetition.unit=words max_new_tokens=12 runtime.batch_size=1 runtime.flush_seconds=0 "
    "runtime.progress=false runtime.threads=1 runtime.device=cpu"
).split()


class World:
    """A small run: a byte-level model of one layer, sixty prompts, two metrics."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.composer = folder, Composer()
        tiny_model(folder / "model")
        rows = ({"prompt": f"Number {i} is", "human": f" a number {i * i} of this kind."} for i in range(60))
        write_jsonl(folder / "own.jsonl", rows)

    def list_words(self, out: str) -> list[str]:
        """The words of the run's command, with its outputs in a folder of the world."""
        files = {"task.path": "own.jsonl", "model.path": "model", "outputs_dir": out}
        return [*WORDS, *(f"{name}={self.folder / file}" for name, file in files.items())]

    def settings(self, out: str, *more: str) -> Settings:
        words = [*self.list_words(out), "decoder=ancestral", "num_examples=5", *more]
        return self.composer.compose_job(words, unnamed="campaign").settings

    def run(self, out: str, *more: str) -> tuple[Any, ...]:
        """Run in a fresh session; returns everything that the run says and leaves, but times."""
        settings = self.settings(out, *more)
        folder = run(settings, Session(Store(settings.outputs_dir / "store", locking=settings.runtime.locking))).folder
        return read_run_folder(folder)

    def report(self, out: str) -> str:
        """Build the report; returns its table."""
        built = build_report([self.folder / out / "runs"], self.folder / out / "report", figures=False)
        return (built.folder / "tables" / "full.csv").read_text()

    def values(self, out: str) -> set[tuple[str, ...]]:
        """What the last report shows: every value with its spread and count."""
        with (self.folder / out / "report" / "results.csv").open() as handle:
            kept = ("system", "metric", "key", "value", "sd", "n_human", "n_model", "signature", "status")
            return {tuple(row[name] for name in kept) for row in csv.DictReader(handle)}


def read_run_folder(folder: Path) -> tuple[Any, ...]:
    """What a run folder says and what it names in the store, but times."""
    record = read_json(folder / "record.json")
    store = folder / record["store"]
    data = {
        each["artifact"]: {p.name: p.read_bytes() for p in path.iterdir() if p.name not in FACTS}
        for each in record["inputs"]
        if (path := store / each["artifact"]).is_dir()
    }
    return record["results"], record["spec"], record["notes"], data


def check_line(err: Exception, most: int = 20_000) -> str:
    """Return the line of an error; fail where it is more than one, longer, or steers the terminal."""
    line = format_error(err)
    assert "\n" not in line, line
    assert "\x1b" not in line, line
    assert len(line) < most, f"{len(line)} characters"
    return line


class Tally:
    """What was tried and what was survived."""

    def __init__(self, kind: str) -> None:
        self.kind, self.tried, self.survived = kind, 0, 0
        self.lost: list[str] = []
        self.facts: dict[str, Any] = {}

    @contextmanager
    def one(self, what: str) -> Iterator[None]:
        """Try one fault."""
        self.tried += 1
        try:
            yield
        except Exception as err:
            last = traceback.extract_tb(err.__traceback__)[-1]
            self.lost.append(f"{what}: {type(err).__name__}: {err} ({Path(last.filename).name}:{last.lineno})")
        else:
            self.survived += 1

    def json(self) -> dict[str, Any]:
        return {"kind": self.kind, "tried": self.tried, "survived": self.survived, "lost": self.lost[:10], **self.facts}
