"""Two runs that differ in one thing that can move a text are two systems of a report, whatever their seeds."""

import math
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.errors import SpecError
from openended.harness.report.build import build_report
from openended.harness.results import group_systems, read_results
from openended.harness.run import Session, run
from openended.harness.storage.store import Store
from tests.helpers import run_settings, tiny_model, write_jsonl

TEXT = "The quick brown fox jumps over the lazy dog, and then it sleeps for a while in the warm sun of the afternoon. "
Pair = tuple[list[str], list[str]]


def webtext(folder: Path) -> list[str]:
    rows = [{"id": i, "ended": True, "length": 40, "text": f"{i}. " + TEXT} for i in range(6)]
    return ["task=webtext", f"task.path={write_jsonl(folder / 'webtext.jsonl', rows)}"]


def own(folder: Path) -> list[str]:
    rows = [{"id": i, "prompt": f"Number {i}:", "human": " " + TEXT} for i in range(6)]
    return ["task=jsonl", f"task.path={write_jsonl(folder / 'own.jsonl', rows)}"]


def prompt_lengths(folder: Path) -> Pair:
    words = [*webtext(folder), "model=folder", f"model.path={tiny_model(folder / 'tiny')}"]
    return [*words, "task.prompt_length=8"], [*words, "task.prompt_length=9"]


def dtypes(folder: Path) -> Pair:
    words = [*own(folder), "model=folder", f"model.path={tiny_model(folder / 'tiny')}"]
    return [*words, "model.dtype=float32"], [*words, "model.dtype=bfloat16"]


def model_folders(folder: Path) -> Pair:
    """Of one name, with other weights."""
    one, other = (tiny_model(folder / name / "tiny") for name in ("a", "b"))
    from safetensors.torch import load_file, save_file

    weights = load_file(other / "model.safetensors")
    save_file({name: 3 * value for name, value in weights.items()}, other / "model.safetensors", {"format": "pt"})
    words = [*own(folder), "model=folder"]
    return [*words, f"model.path={one}"], [*words, f"model.path={other}"]


def imported_folders(folder: Path) -> Pair:
    """Files of one name."""
    made = []
    for name, word in (("a", "one"), ("b", "another text")):
        (folder / name).mkdir()
        rows = [{"id": i, "text": f" {word} {i} {word}"} for i in range(6)]
        made.append(write_jsonl(folder / name / "theirs.jsonl", rows))
    words = [*own(folder), "metric.distinct_n.unit=words"]
    return [*words, f"generations={made[0]}"], [*words, f"generations={made[1]}"]


@pytest.mark.slow
@pytest.mark.parametrize("pair", [prompt_lengths, dtypes, model_folders, imported_folders])
def test_they_are_two_systems(pair: Any, tmp_path: Path) -> None:
    session = Session(Store(tmp_path / "out" / "store"))
    folders, values = [], []
    for seed, words in enumerate(pair(tmp_path)):
        small = ["decoder=nucleus", f"seed={seed}", "num_examples=4", "max_new_tokens=8", "metric=[distinct_n]"]
        folders.append(run(run_settings(*small, f"outputs_dir={tmp_path / 'out'}", *words), session).folder)
    results = read_results(folders)
    assert (len(results.runs), results.superseded) == (2, 0)
    models = [item for item in results.values if item.system == "model" and item.key == "distinct_1"]
    assert [item.seeds for item in models] == [1, 1], "two settings were folded as two seeds of one"
    found = group_systems(results.values)
    assert len({system.name for system in found}) == 2
    values = [system.value("distinct_n", "distinct_1") for system in found]
    assert all(value is not None and math.isfinite(value.mean) for value in values)
    options: dict[str, Any] = {}
    if pair is prompt_lengths:  # other human texts: one column refuses them
        with pytest.raises(SpecError, match=r"not comparable, their signatures differ in texts .*--where"):
            build_report(folders, tmp_path / "report", figures=False, page=False)
        options = {"split": ("task.prompt_length",)}
    report = build_report(folders, tmp_path / "report", figures=False, page=False, **options)
    rows = [row for table in report.tables for row in table.rows if row.system == "model"]
    assert len(rows) == 2
    assert all(row.seeds == 1 for row in rows)
