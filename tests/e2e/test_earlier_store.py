"""A store and a report written by earlier code are found and read by today's.

`tests/fixtures/earlier_store/outputs.tar.gz` was written at commit e3aa3b1, before modules were moved and renamed: a grid
of eight jobs and one run of imported generations, with their store, records and the report's CSV.
"""

from __future__ import annotations

import csv
import tarfile
from pathlib import Path

import pytest

from tests.helpers import ROOT, openended

ARCHIVE = ROOT / "tests/fixtures/earlier_store/outputs.tar.gz"
COMMON = (
    "task=jsonl", "scoring=docs-m", "task.path=human.jsonl", "num_examples=24", "max_new_tokens=12",
    "runtime.device=cpu", "runtime.threads=1", "name=before",
)  # fmt: skip
GRID = (
    "-m", "decoder=greedy,nucleus,beam,adversarial", *COMMON, "task.id_field=null", "seed=0,1",
    "metric=[mauve,gen_ppl,distinct_n,zipf,frechet,sparsemax_score,repetition,knn_precision_recall]",
)  # fmt: skip
IMPORTED = ("generations=made.jsonl", *COMMON, "metric=[mauve,gen_ppl,distinct_n,zipf]")
COLUMNS = ("run", "system", "setting", "metric", "key", "value", "sd", "status", "n_human", "n_model", "signature")
RAISED: frozenset[str] = frozenset({"bradley_terry", "distinct_n", "entropy", "self_bleu"})
"""Metrics whose version was raised since: they are measured again, and their values may differ."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("earlier")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(target, filter="data")
    return target


def entries(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in (folder / "outputs/store").glob("[a-z]*/*/*")}


@pytest.mark.slow
@pytest.mark.parametrize("words", [GRID, IMPORTED], ids=["grid", "imported"])
def test_every_entry_of_an_earlier_store_is_found(folder: Path, words: tuple[str, ...]) -> None:
    before = entries(folder)
    done = openended(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    new = entries(folder) - before
    # The version of resampling was raised since (degenerate intervals): results, which all have intervals, are measured
    # again. Texts and features are not.
    unexpected = [p for p in new if p.parts[2] != "measure"]
    assert not unexpected, f"computed again, although it is in the store: {sorted(map(str, unexpected))}"


def rows_of(path: Path) -> set[tuple[str, ...]]:
    with path.open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.DictReader(handle) if row["metric"] not in RAISED]
    return {tuple(row[column] for column in COLUMNS) for row in rows}


def test_the_report_of_earlier_records_has_the_same_values(folder: Path) -> None:
    earlier = rows_of(folder / "outputs/reports/before/results.csv")
    runs = sorted({row[0] for row in earlier})
    folders = [next((folder / "outputs/runs/before").glob(f"*-{run.rpartition('/')[2]}")) for run in runs]
    done = openended("report", *map(str, folders), "--out", "again", cwd=folder)
    assert done.returncode == 0, done.stderr
    missing = earlier - rows_of(folder / "again/results.csv")
    assert len(earlier) > 150
    assert not missing, f"{len(missing)} of {len(earlier)} rows differ; the first: {sorted(missing)[0]}"
