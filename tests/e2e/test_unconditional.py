"""Texts without prompts, and those of a denoiser, from the command line: records, tables and sample files."""

import json

import pytest

from openended.harness.models import list_bundled_models
from openended.harness.storage import RowFile, read_record
from tests.helpers import openended, tiny_masked_model, write_jsonl

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
SMALL = ("task=unconditional", "task.length=24", "num_examples=8", "intervals=0")


def records(folder):
    return [read_record(path.parent) for path in sorted(folder.rglob("record.json"))]


def results(record):
    return {row.metric: row for row in record.results if row.system == "model"}


@pytest.mark.slow
def test_a_model_starts_from_its_start_token_and_goes_on_after_the_end_of_a_document(tmp_path):
    openended(*SMALL, "metric=[gen_ppl,prompt_similarity,rouge_l]", "samples=2", cwd=tmp_path, code=0)
    (record,) = records(tmp_path / "outputs" / "runs")
    made = results(record)
    assert made["gen_ppl"].values["gen_ppl"] > 1
    for metric in ("prompt_similarity", "rouge_l"):
        assert (made[metric].status, made[metric].notes) == ("undefined", ("not defined without prompts",))
    (data,) = (tmp_path / "outputs" / "store" / "generate").rglob("data.arrow")
    rows = list(RowFile(data))
    assert {row.prompt for row in rows} == {""}
    assert {len(row.generation.token_ids) for row in rows} == {24}
    assert record.axes["continue_after_end"] is True


@pytest.mark.slow
def test_naive_systems_are_rows_of_any_table(tmp_path):
    grid = "generations=naive:unigram,naive:repeated"
    for task in (SMALL, ("task=docs", "num_examples=8", "max_new_tokens=24", "intervals=0")):
        words = ("-m", *task, "metric=[distinct_n]", grid, f"outputs_dir={tmp_path / task[0][5:]}")
        done = openended(*words, cwd=tmp_path, code=0)
        assert "naive:unigram" in done.stdout
        made = {r.axes["model"]: r for r in records(tmp_path / task[0][5:] / "runs")}
        assert set(made) == {"naive:unigram", "naive:repeated"}
        repeated = results(made["naive:repeated"])["distinct_n"]
        assert repeated.values["distinct_2"] < results(made["naive:unigram"])["distinct_n"].values["distinct_2"]
        assert made["naive:unigram"].axes["seed"] == 0


def test_texts_of_a_denoiser_reach_the_metrics_and_the_record(tmp_path):
    tiny_masked_model(tmp_path / "masked")
    write_jsonl(tmp_path / "gaps.jsonl", [{"prompt": f"One {i} ____ two.", "human": "and"} for i in range(3)])
    task = ("task=jsonl", "task.path=gaps.jsonl", "num_examples=all", "metric=[distinct_n,eps_ppl]", "scoring=none")
    model = (
        "model=denoiser", "model.path=masked", "model.infill=____", "decoder=remdm", "decoder.steps=3", "samples=2",
    )  # fmt: skip
    openended(*task, *model, "max_new_tokens=6", "intervals=0", cwd=tmp_path, code=0)
    (data,) = (tmp_path / "outputs/store/generate").rglob("data.arrow")
    rows = list(RowFile(data))
    assert [row.generation.sample for row in rows] == [0, 1] * 3
    assert {len(row.generation.token_ids) for row in rows} <= set(range(7))
    (record,) = records(tmp_path / "outputs" / "runs")
    made = results(record)
    assert (made["distinct_n"].status, made["eps_ppl"].status) == ("ok", "undefined")
    assert "no distribution over the next token" in made["eps_ppl"].notes[0]
    assert record.axes["decoder.precision"] == "float64"
    assert record.axes["model.trust_remote_code"] is False
    manifest = json.loads((data.parent / "manifest.json").read_text())
    assert manifest["meta"]["denoiser"] == {"mask_id": 257, "noise": "mask", "time_input": "none"}
