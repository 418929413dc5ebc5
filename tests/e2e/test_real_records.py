"""Real published records, through the whole pipeline, have the values that were stored with them."""

import json
from pathlib import Path
from typing import Any

import pytest

from openended.harness.core.io import read_json
from openended.harness.run import Session, run
from openended.harness.storage.store import Store
from tests.helpers import SHARED, run_settings
from tests.metrics.helpers import needed

pytestmark = pytest.mark.reference
GENERATIONS = ["webtext/gpt2-large-greedy", "webtext/gpt2-large-nucleus", "wikitext/gpt2-xl-contrastive"]
WORDS = [f"metric.{name}.unit=words" for name in ("repetition", "length", "distinct_n", "zipf")]


def record(folder: Path, *overrides: str) -> Any:
    words = ["scorer=none", "embedder=none", "max_new_tokens=null", f"outputs_dir={folder / 'out'}", *overrides]
    return read_json(run(run_settings(*words), Session(Store(folder / "out" / "store"))).folder / "record.json")


@pytest.mark.slow
@pytest.mark.parametrize("name", GENERATIONS)
def test_published_generations(tmp_path: Path, name: str) -> None:
    path = needed(SHARED / "data/generations" / f"{name}.jsonl")
    book = json.loads((SHARED / "data/generations" / "expected.json").read_text(encoding="utf-8"))
    entry = next(e for e in book["files"] if e["file"] == f"{name}.jsonl")
    sides = {"model": entry["computed"], "human": book["reference_computed"][name.split("/")[0]]}
    task = ["task=jsonl", f"task.path={path}", "task.human_field=reference", "task.id_field=id"]
    metrics = ["metric=[repetition,length,distinct_n,zipf]", "metric.repetition.simctg=true", *WORDS]
    made = record(tmp_path, *task, f"generations={path}", f"num_examples={entry['n']}", *metrics)
    found = {(r["system"], r["metric"]): r["values"] for r in made["results"]}
    for side, want in sides.items():
        repetition, words = found[side, "repetition"], want["words"]
        assert round(100 * repetition["diversity"], 2) == want["diversity_pct_simctg"]
        assert {n: round(100 * repetition[f"rep_{n}"], 2) for n in "234"} == want["rep_pct_simctg"]
        assert round(repetition["loop_rate"] * entry["n"]) == words["loop_count_500"]
        assert found[side, "length"]["length"] == pytest.approx(want["mean_words"], rel=1e-12)
        for order, value in words["distinct"].items():
            assert found[side, "distinct_n"][f"distinct_{order}"] == pytest.approx(value, rel=1e-12)
        assert found[side, "zipf"]["zipf"] == pytest.approx(words["zipf_plain"], rel=1e-9)
    stored = entry["stored"]
    assert round(100 * found["model", "repetition"]["diversity"], 2) == stored["diversity_pct"]
    assert round(100 * found["human", "repetition"]["diversity"], 2) == stored["reference_diversity_pct"]
    assert found["model", "length"]["length"] == pytest.approx(stored["gen_length_words"], rel=1e-12)


@pytest.mark.parametrize(("name", "split"), [("april2019_set_mini", "any"), ("realnews_tiny", "any")])
def test_real_news_records_run_end_to_end(tmp_path: Path, name: str, split: str) -> None:
    path = needed(SHARED / "data/realnews" / f"{name}.jsonl")
    size = len(path.read_text(encoding="utf-8").splitlines())
    task = ["task=realnews", f"task.path={path}", f"task.split={split}"]
    human = [f"num_examples={size // 2}", "decoder=greedy", "model=docs-s", "max_new_tokens=4", "metric=[length]"]
    made = record(tmp_path, *task, *human, "metric.length.unit=words")
    assert {r["status"] for r in made["results"]} == {"ok"}
