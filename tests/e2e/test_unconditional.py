"""Texts without prompts, from the command line: a model, naive systems and sample files in one table."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openended.harness.models import ModelSpec, list_bundled_models, load_tokenizer
from openended.harness.storage import RowFile, read_record
from tests.helpers import openended

pytestmark = pytest.mark.skipif("docs-s" not in list_bundled_models(), reason="the bundled model is not there")
SMALL = ("task=unconditional", "task.length=24", "num_examples=8", "intervals=0")


def records(folder: Path) -> list[Any]:
    return [read_record(path.parent) for path in sorted(folder.rglob("record.json"))]


def results(record: Any, system: str = "model") -> dict[str, Any]:
    return {row.metric: row for row in record.results if row.system == system}


@pytest.mark.slow
def test_a_model_starts_from_its_start_token_and_goes_on_after_the_end_of_a_document(tmp_path: Path) -> None:
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
def test_naive_systems_are_rows_of_any_table(tmp_path: Path) -> None:
    grid = "generations=naive:unigram,naive:repeated"
    for task in (SMALL, ("task=docs", "num_examples=8", "max_new_tokens=24", "intervals=0")):
        done = openended(
            "-m", *task, "metric=[distinct_n]", grid, f"outputs_dir={tmp_path / task[0][5:]}", cwd=tmp_path, code=0
        )
        assert "naive:unigram" in done.stdout
        made = {r.axes["model"]: r for r in records(tmp_path / task[0][5:] / "runs")}
        assert set(made) == {"naive:unigram", "naive:repeated"}
        repeated = results(made["naive:repeated"])["distinct_n"]
        assert repeated.values["distinct_2"] < results(made["naive:unigram"])["distinct_n"].values["distinct_2"]
        assert made["naive:unigram"].axes["seed"] == 0


@pytest.mark.slow
def test_score_reads_every_sample_format_and_says_what_values_were_computed_on(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(ModelSpec(path="bundled:docs-m"))
    texts = [f"Return the number of rows {i} of the array. The result is a new array." for i in range(6)]
    ids = [tokenizer.encode(text)[:14] for text in texts]
    human = tmp_path / "human.jsonl"
    human.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "duo.json").write_text(json.dumps({"generated_seqs": texts}))
    (tmp_path / "remdm.json").write_text(json.dumps({"text_samples": texts, "MAUVE": 0.4}, indent=2))
    np.savez(tmp_path / "sdtt.npz", samples=np.array(ids))
    rows = ({"text": t, "token_ids": tokenizer.encode(t)} for t in texts)
    (tmp_path / "bench.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "blocks.txt").write_text(f"\n{'=' * 12}\n".join(texts))
    files = ("duo.json", "remdm.json", "sdtt.npz", "bench.jsonl", "blocks.txt")
    words = "--human human.jsonl --scorer docs-m --metrics gen_ppl".split()
    done = openended("score", *files, *words, cwd=tmp_path, verbose=False, code=0)
    for said in (
        "texts under 'generated_seqs'",
        "texts under 'text_samples'",
        "NPZ, token ids",
        "plain text in blocks",
    ):
        assert said in done.stderr
    found = {r.axes["model"]: results(r)["gen_ppl"].notes for r in records(tmp_path / "outputs" / "runs")}
    as_generated = {name for name, notes in found.items() if "computed on token ids as generated" in notes}
    assert as_generated == {"sdtt.npz", "bench"}
    assert all("computed on re-tokenized text" in found[name] for name in set(found) - as_generated)
    assert len(found) == len(files)
