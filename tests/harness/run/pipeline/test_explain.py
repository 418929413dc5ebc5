"""`explain.jsonl`: texts by their ids, whatever metric singled them out."""

import json
from types import SimpleNamespace

import numpy as np

from openended.harness.core.types import Generation, MetricResult
from openended.harness.run.artifact_files import save_result
from openended.harness.run.pipeline.explain import write_explanations
from openended.harness.run.pipeline.measure import SystemResult
from openended.harness.storage.record import EXPLAIN
from openended.harness.storage.rows import Row, write_rows
from openended.metrics.mauve import Mauve


def rows(path, samples):
    write_rows(
        path,
        [
            Row("p", (), Generation(f"t/{i}", sample, "words", (), "eos", 0.0))
            for i in range(4)
            for sample in range(samples)
        ],
    )
    return SimpleNamespace(path=path)


def measured(store, place, system, arrays):
    result = MetricResult("m", "m|v:1", "x", {"x": 0.5}, 4, 8, arrays=arrays)
    (store / place).mkdir(parents=True)
    save_result(store / place, result)
    return SystemResult(system, Mauve(), result, place)


def test_lines_name_texts_and_not_their_words(tmp_path):
    human, model = rows(tmp_path / "h.arrow", 1), rows(tmp_path / "m.arrow", 2)
    cell = {
        "cell": np.array([7]), "cell_shares": np.array([[0.5, 0.0]]),
        "cell_human_rows": np.array([[3, 0, -1]]), "cell_model_rows": np.array([[-1, -1, -1]]),
    }  # fmt: skip
    missed = {"missed_human_rows": np.arange(0), "missed_model_rows": np.array([1, 7])}
    ratio = {"ratio_model_rows": np.array([5]), "ratio_model": np.array([-2.5])}
    results = [
        measured(tmp_path, "a", "ceiling", cell),
        measured(tmp_path, "b", "model", cell),
        measured(tmp_path, "c", "model", missed),
        measured(tmp_path, "d", "model", ratio),
        measured(tmp_path, "e", "model", {"precision": np.zeros(3)}),
    ]
    write_explanations(tmp_path, tmp_path, results, human, model)
    text = (tmp_path / EXPLAIN).read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert "words" not in text
    assert [line["kind"] for line in lines] == ["cell", "missed", "missed", "ratio"]
    assert lines[0]["human"] == ["t/3#0", "t/0#0"]
    assert (lines[0]["model"], lines[0]["human_share"], lines[0]["cell"]) == ([], 0.5, 7)
    assert [line["count"] for line in lines[1:3]] == [0, 2]
    assert lines[2]["texts"] == ["t/0#1", "t/3#1"]
    assert (lines[3]["side"], lines[3]["texts"], lines[3]["log_ratio"]) == ("model", ["t/2#1"], [-2.5])
    assert all(line["signature"] == "m|v:1" for line in lines)


def test_nothing_to_say_leaves_no_file(tmp_path):
    results = [
        measured(tmp_path, "a", "model", {}),
        SystemResult("model", Mauve(), MetricResult("m", "m", "x", {}, 0, 0), None),
    ]
    write_explanations(tmp_path, tmp_path, results, SimpleNamespace(), SimpleNamespace())
    assert not (tmp_path / EXPLAIN).exists()
