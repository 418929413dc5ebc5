"""Whole runs with several human texts per prompt, with answers that are not valid, and with the entropy of a known law."""

import math
import re

import numpy as np
import pytest

from openended.harness.results import read_results
from tests.harness.report.synthetic import draw_figure
from tests.helpers import openended, read_records, tiny_model, write_jsonl

HUMAN, GIVEN = ["a b", "c d", "e f", "a b"], ["a b", "g h", "i j"]


def read_values(folder):
    """(metric, system) → values and notes of the one run in a folder."""
    (record,) = read_records(folder / "outputs/runs")
    return {(row["metric"], row["system"]): (row["values"], row["notes"], row) for row in record["results"]}


def run_answers(folder, *words, drop=False):
    people = [{"id": f"q{i}", "prompt": f"say {i}", "references": HUMAN} for i in range(4)]
    people += [{"id": "few", "prompt": "few", "human": "x y", "references": ["z"]}]
    write_jsonl(folder / "people.jsonl", people)
    given = [(row["id"], i, text) for row in people for i, text in enumerate(GIVEN) if row["id"] != "few" or not drop]
    rows = [{"id": i, "sample": s, "text": text, "ok": int(text != "i j")} for i, s, text in given]
    write_jsonl(folder / "system.jsonl", rows)
    task = ["task=jsonl", "task.path=people.jsonl", "task.references_field=references", "num_examples=all"]
    return openended(*task, "generations=system.jsonl", "max_new_tokens=null", *words, cwd=folder, code=0)


def test_people_have_a_row_at_the_number_of_texts_of_the_system(tmp_path):
    metrics = "metric=[distinct_k,prompt_self_bleu]"
    run_answers(tmp_path, metrics, "task.least_references=3", drop=True)
    found = read_values(tmp_path)
    # of a b, a b, c d, e f three are drawn: without one of the first two 3 classes, without another 2
    assert found["distinct_k", "human"][0]["distinct_k"] == pytest.approx(2.5)
    # one other text is equal, with probability 1 for 2 texts of 4, where 3 others are drawn
    assert found["distinct_k", "human"][0]["coverage"] == pytest.approx(0.5)
    assert found["distinct_k", "model"][0] == {"distinct_k": 3, "distinct_share": 1, "coverage": 0.5}
    assert 0 < found["prompt_self_bleu", "human"][0]["prompt_self_bleu"] < 1
    signatures = {system: found["distinct_k", system][2]["signature"] for system in ("human", "model")}
    assert re.sub(r"\|n:\d+", "", signatures["human"]) == re.sub(r"\|n:\d+", "", signatures["model"])
    assert "|references:" in signatures["model"]


def test_prompts_with_too_few_human_texts_are_refused_with_their_number(tmp_path):
    run_answers(tmp_path, "metric=[distinct_k]")
    values, notes, row = read_values(tmp_path)["distinct_k", "human"]
    assert values == {"distinct_k": None}
    assert row["status"] == "undefined"
    assert "1 of 5 prompts have fewer human texts than a system has per prompt, 3; task.least_references=3" in notes[0]
    assert read_values(tmp_path)["distinct_k", "model"][0]["distinct_k"] == 3


def test_a_column_of_the_generations_says_which_answers_are_valid(tmp_path):
    judged = ["judgments=system.jsonl", "judgment_columns={example_id: id, valid: ok}"]
    run_answers(tmp_path, "metric=[distinct_k]", "metric.distinct_k.valid=file", *judged)
    values = read_values(tmp_path)["distinct_k", "model"][0]
    assert (values["distinct_k"], values["narrowing_share"]) == (2, 0)
    assert values["valid_share"] == pytest.approx(2 / 3)
    assert "human text" in read_values(tmp_path)["distinct_k", "human"][1][0]  # the file says nothing of it


@pytest.mark.slow
def test_the_entropy_of_a_known_law_and_its_curve(tmp_path):
    """The logits do not depend on the context; before the fourth token the end of text is forbidden."""
    import torch
    from transformers import GPT2LMHeadModel

    folder = tiny_model(tmp_path / "model")
    model = GPT2LMHeadModel.from_pretrained(folder)
    with torch.no_grad():
        logits = -0.3 * np.arange(len(model.transformer.wte.weight))
        logits[0] = 1.0  # the end of text
        model.transformer.wte.weight[:, 0] = torch.tensor(logits)
        model.transformer.ln_f.weight.zero_()
        model.transformer.ln_f.bias.copy_(torch.eye(16)[0])
    model.save_pretrained(folder)
    write_jsonl(tmp_path / "prompts.jsonl", [{"prompt": f"p{i}", "human": "x y z"} for i in range(40)])

    def compute_entropy(rows):
        best = np.sort(rows)[::-1][:20] / 1.5
        q = np.exp(best - best.max()) / np.exp(best - best.max()).sum()
        return -(q * np.log(q)).sum()

    early, late = compute_entropy(logits[1:]), compute_entropy(logits)
    openended(
        "task=jsonl", "task.path=prompts.jsonl", "num_examples=40", f"model.path={folder}", "decoder=top_k",
        "decoder.k=20", "decoder.temperature=1.5", "metric=[q_entropy]", "max_new_tokens=10", "min_new_tokens=3",
        "samples=5", cwd=tmp_path, code=0,
    )  # fmt: skip
    results = read_results([tmp_path / "outputs"])
    (value,) = [item for item in results.values if item.system == "model" and item.key == "q_entropy"]
    arrays = results.arrays(*value.sources[0])
    lengths = arrays["arrays/texts"]
    curve = np.where(np.arange(len(lengths)) < 3, early, late)
    assert abs(early / late - 1) > 0.01
    np.testing.assert_allclose(arrays["arrays/mean"], curve, rtol=1e-5)
    assert value.mean == pytest.approx((lengths * curve).sum() / lengths.sum(), rel=1e-5)
    values, notes, _ = read_values(tmp_path)["q_entropy", "human"]
    assert values == {"q_entropy": None}
    assert "its own texts" in notes[0]
    assert math.exp(value.mean) == pytest.approx(read_values(tmp_path)["q_entropy", "model"][0]["branching_factor"])
    (figure,) = draw_figure("entropy", results).values()
    (line,) = figure.axes[0].lines
    np.testing.assert_allclose(line.get_ydata(), curve, rtol=1e-5)
    assert line.get_xdata().tolist() == list(range(1, len(curve) + 1))
