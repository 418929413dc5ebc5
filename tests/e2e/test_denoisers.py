"""A denoiser from the command line: prefixes, infilling, resuming, the record, and what is refused while planning."""

import json
from pathlib import Path

import pytest

from openended.harness.storage import RowFile, read_record
from tests.helpers import openended, tiny_masked_model, write_jsonl


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("denoiser")
    tiny_masked_model(where / "masked")
    write_jsonl(where / "gaps.jsonl", [{"prompt": f"One {i} ____ two.", "human": "and"} for i in range(3)])
    return where


def run(folder: Path, *words: str) -> tuple[int, str]:
    task = ("task=jsonl", "task.path=gaps.jsonl", "num_examples=all", "metric=[distinct_n,eps_ppl]", "scoring=none")
    done = openended("max_new_tokens=6", *task, "intervals=0", *words, cwd=folder, verbose=False)
    return done.returncode, done.stderr


MODEL = ("model=denoiser", "model.path=masked")


def test_texts_reach_the_metrics_and_the_record(folder):
    code, error = run(folder, *MODEL, "decoder=remdm", "decoder.steps=3", "model.infill=____", "samples=2")
    assert code == 0, error
    (data,) = (folder / "outputs/store/generate").rglob("data.arrow")
    rows = list(RowFile(data))
    assert [row.generation.sample for row in rows] == [0, 1] * 3
    assert {len(row.generation.token_ids) for row in rows} <= set(range(7))
    (path,) = (folder / "outputs/runs").rglob("record.json")
    record = read_record(path.parent)
    status = {row.metric: (row.status, row.notes) for row in record.results if row.system == "model"}
    assert status["distinct_n"][0] == "ok"
    assert status["eps_ppl"][0] == "undefined"
    assert "no distribution over the next token" in status["eps_ppl"][1][0]
    assert record.axes["decoder.precision"] == "float64"
    assert record.axes["model.trust_remote_code"] is False
    manifest = json.loads((data.parent / "manifest.json").read_text())
    assert manifest["meta"]["denoiser"] == {"mask_id": 257, "noise": "mask", "time_input": "none"}
