"""What a run says of itself: counts, a plan that lists the same artifacts, its record, explanations, and judgments alone."""

import json
import os
import re
import shutil
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from openended.harness import core
from openended.harness.core import (
    DataError,
    Generation,
    MetricResult,
    RunNote,
    UndefinedMetric,
    read_json,
    temporary_files,
)
from openended.harness.run import plan, run, run_judgments, select_metrics_for_file
from openended.harness.run.measure import describe_result
from openended.harness.run.run_record import write_explanations, write_record
from openended.harness.storage import save_result, store as store_module
from openended.harness.storage.record import EXPLAIN, find_input, read_record
from openended.harness.storage.rows import Row, write_rows
from openended.metrics._mauve.quantizers import LATTICE_CELLS
from openended.metrics.knn_precision_recall import KnnPrecisionRecall
from openended.metrics.mauve import Mauve
from openended.metrics.mauve_ratio import MauveRatio
from tests.harness.run.small import ONE_MODEL, make_executor, open_session, settings
from tests.helpers import change_settings, openended, write_file, write_jsonl

METRICS = "metric=[frechet,gen_ppl,ppl,zipf]"


def test_a_plan_within_which_answers_are_kept_is_the_same_plan(tmp_path):
    """Also of a decoder whose options have no hash."""
    for words in (ONE_MODEL, (*ONE_MODEL, "decoder=contrastive_decoding")):
        made = settings(tmp_path, *words, METRICS)
        with core.use_plan_cache():
            kept = [plan(made, open_session(tmp_path)) for _ in range(2)]
        alone = plan(made, open_session(tmp_path))
        assert [[line.key for line in each.plan] for each in kept] == [[line.key for line in alone.plan]] * 2


def test_a_plan_lists_what_a_run_makes_and_counts_are_of_artifacts(tmp_path):
    made, session = settings(tmp_path, *ONE_MODEL, METRICS), open_session(tmp_path)
    before = plan(made, session)
    assert session.loads == []
    assert {step.state for step in before.plan} == {"make", "waits"}
    first = run(made, open_session(tmp_path))
    manifests = list((tmp_path / "out" / "store").glob("*/*/*/manifest.json"))
    assert first.num_computed == len(first.plan) == len(manifests)
    assert len({(line.step.stage, line.step.what) for line in first.plan}) == len(first.plan)
    assert len({step.key for step in first.plan}) == len(first.plan)
    after = plan(made, open_session(tmp_path))
    assert [(line.step.what, line.key) for line in first.plan] == [(line.step.what, line.key) for line in after.plan]
    assert {step.state for step in after.plan} == {"hit"}
    assert {(s.step.stage, s.step.what) for s in before.plan} == {(s.step.stage, s.step.what) for s in after.plan}
    again = run(made, open_session(tmp_path))
    assert (again.num_computed, len(again.plan), again.folder) == (0, first.num_computed, first.folder)
    record = read_record(first.folder)
    assert len(record.inputs) == first.num_computed
    assert {each.provenance for each in record.inputs} == {None}


def test_progress_ends_at_its_total_in_its_unit(tmp_path, monkeypatch):
    shown = []

    @contextmanager
    def show(title, total=None, *, unit="", **_):
        counts = []
        yield counts.append
        shown.append((title, unit, total, sum(counts)))

    monkeypatch.setattr(core, "show_progress", show)
    metrics = "metric=[gen_ppl,sparsemax_score,knn_precision_recall,gradient_moment,q_entropy]"
    run(settings(tmp_path, *ONE_MODEL, metrics, "metric.gen_ppl.window=16"), open_session(tmp_path))
    assert {unit for _, unit, total, _ in shown if total} == {"texts", "tokens"}
    assert not [line for line in shown if line[2] and line[3] > line[2]]


def test_a_record_says_where_a_cached_artifact_came_from(tmp_path, monkeypatch):
    now = store_module.describe_environment()

    def elsewhere() -> dict[str, Any]:
        return {**now, "packages": {**now["packages"], "numpy": "0.1"}, "git": {**now["git"], "commit": "c0ffee"}}

    monkeypatch.setattr(store_module, "describe_environment", elsewhere)
    first = run(settings(tmp_path, *ONE_MODEL, "metric=[gen_ppl]"), open_session(tmp_path))
    monkeypatch.undo()
    (manifest,) = (tmp_path / "out/store/generate").glob("*/*/manifest.json")
    told = read_json(manifest)
    assert (told["maker"]["packages"]["numpy"], told["meta"]["device"]) == ("0.1", "cpu")
    again = run(settings(tmp_path, *ONE_MODEL, "metric=[gen_ppl,zipf]"), open_session(tmp_path))
    assert again.folder != first.folder
    record = read_record(again.folder)
    assert {each.what.split()[0] for each in record.inputs if each.provenance is None} == {"zipf"}
    source: Any = find_input(record.inputs, "model", "generate").provenance
    assert (source["packages"], source["git"]["commit"], source["device"]) == ({"numpy": "0.1"}, "c0ffee", "cpu")


NOTES = (RunNote("remark", ("a note",)),)


def test_a_run_that_says_the_same_is_recorded_once(tmp_path):
    def write(*, task: str = "t", **change: Any) -> Any:
        chosen, executor = change_settings(settings(tmp_path), **change), make_executor(tmp_path)
        return write_record(chosen, executor, [], (), task=task, notes=NOTES)

    first = write()
    assert (read_record(first).notes, first.parent) == (NOTES, tmp_path / "out" / "runs" / "test")
    assert write(seed=7) == first  # greedy: the seed changes nothing
    assert write(max_new_tokens=3) != first
    assert write(task="other") != first
    killed = first.with_name(f"20260101T000000-{first.name.rpartition('-')[2]}")
    mine = temporary_files.create_temporary_name(".record.json")
    (killed / mine.replace(f"-{os.getpid()}-", "-999999999-")).mkdir(parents=True)
    shutil.rmtree(first)
    assert read_record(write()).notes == NOTES
    assert not killed.exists(), "what a run left that was killed while it wrote its record"


def rows(path, samples):
    texts = [Generation(f"t/{i}", sample, "words", (), "eos", 0.0) for i in range(4) for sample in range(samples)]
    write_rows(path, [Row("p", (), text) for text in texts])
    return path


def measured(store, name, system, arrays):
    result = MetricResult("m", "m|v:1", "x", {"x": 0.5}, 4, 8, arrays=arrays)
    (store / name).mkdir(parents=True)
    save_result(store / name, result)
    return describe_result(system, Mauve(), result, name)


def test_explanations_name_texts_and_not_their_words(tmp_path):
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
    without = describe_result("model", Mauve(), MetricResult("m", "m", "x", {}, 0, 0), None)
    write_explanations(tmp_path, tmp_path, [results[-1], without], human, model)
    assert not (tmp_path / EXPLAIN).exists()
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


def test_texts_are_compared_whole_and_few_of_them_are_a_warning(tmp_path):
    write_jsonl(tmp_path / "human.jsonl", [{"text": f"the cat number {i} sat on a mat"} for i in range(60)])
    write_jsonl(tmp_path / "one.jsonl", [{"text": " ".join(f"word{i}" for i in range(200))}])
    words = ["task=texts", "task.path=human.jsonl", "generations=one.jsonl", "metric=[length]", "scorer=none"]
    done = openended(*words, cwd=tmp_path, verbose=False, code=0)
    assert "human values are based on 60 texts" in " ".join(done.stdout.split())
    assert "200" in done.stdout
    assert "whole texts" in done.stdout


def test_too_few_texts_for_an_option_that_was_set():
    assert Mauve().explain_too_few(4, 4) == ""
    assert Mauve(num_buckets=8).explain_too_few(4, 4) == ""
    assert Mauve(num_buckets=9).explain_too_few(4, 4).startswith("num_buckets=9: needs 9 texts")
    assert Mauve(num_buckets=9, cluster_fit="joint").explain_too_few(4, 4) == ""
    assert Mauve(num_buckets=8, cluster_fit="reference").explain_too_few(4, 40) != ""
    assert MauveRatio(estimator="knn", neighbors=8).explain_too_few(4, 4) == ""
    many = MauveRatio(estimator="knn", neighbors=9)
    assert many.explain_too_few(4, 4).startswith("neighbors=9: both sides have 8 texts")
    assert Mauve(num_buckets=1000, quantizer="residual_kmeans").explain_too_few(5, 5) == ""
    assert Mauve(num_buckets=LATTICE_CELLS, quantizer="lattice").explain_too_few(5, 5) == ""  # a lattice is not fitted
    assert KnnPrecisionRecall().explain_too_few(2, 2) == ""
    assert KnnPrecisionRecall(k=9).explain_too_few(9, 20).startswith("k=9")


ARENA = (
    "\ufeffquestion_id;model_a;model_b;winner;judge\n1;x;y;model_a;j1\n2;x;y;tie (bothbad);j1\n3;y;x;y;j2\n4;x;y;;j2\n"
)
PAIRS = "item,system_a,system_b,outcome\n1,a,b,a\n2,a,b,b\n3,a,b,a\n"


def test_the_metrics_are_those_that_the_file_feeds(tmp_path):
    ratings, pairs, other = (tmp_path / name for name in ("ratings.csv", "pairs.csv", "other.csv"))
    ratings.write_text("example_id,system,rating\n1,human,3\n1,model,4\n")
    pairs.write_text(PAIRS)
    other.write_text("a,b\n1,2\n")
    scored = tmp_path / "scored.csv"
    scored.write_text("example_id,system,rating,log_prob,length\n1,human,3,-4,2\n1,model,4,-3,2\n")
    fed = ((ratings, ["mean_rating"]), (scored, ["huse", "mean_rating"]), (pairs, ["bradley_terry"]))
    for path, names in fed:
        words = [f"judgments={path}"]
        assert [m.name for m in select_metrics_for_file(settings(tmp_path, *words), words).metrics] == names
    words = [f"judgments={pairs}", "metric=[huse]"]
    chosen = settings(tmp_path, *words)
    assert select_metrics_for_file(chosen, words) == chosen
    words = [f"judgments={other}"]
    with pytest.raises(DataError, match=r"has the columns a, b: neither ratings .* nor comparisons"):
        select_metrics_for_file(settings(tmp_path, *words), words)


def test_arena_votes_need_two_words_and_empty_ones_are_counted(tmp_path):
    (tmp_path / "arena.csv").write_text(ARENA, encoding="utf-8")
    done = openended("judgments=arena.csv", cwd=tmp_path, code=2)
    assert "arena.csv:5: no outcome; metric=[bradley_terry] metric.bradley_terry.empty=skip" in done.stderr
    words = ("judgments=arena.csv", "metric=[bradley_terry]", "metric.bradley_terry.empty=skip")
    done = openended(*words, cwd=tmp_path, code=0)
    assert "3 comparisons of 2 systems (x, y); 1 tie (half)" in done.stdout
    assert "1 without an outcome left out" in " ".join(done.stdout.split())
    assert "Preferred by people" in done.stdout
    assert "[95 % CI]" in done.stdout
    assert "±" not in done.stdout  # one run: no standard deviation over seeds


def test_columns_of_any_name_are_mapped_and_enter_the_signature(tmp_path):
    (tmp_path / "own.tsv").write_text("who\tother\tsays\nx\ty\t1\ny\tx\t1\nx\ty\t2\n")
    words = "judgment_columns={system_a: who, system_b: other, outcome: says}"
    done = openended("judgments=own.tsv", words, cwd=tmp_path, code=0)
    assert "3 comparisons of 2 systems (x, y)" in done.stdout
    assert "columns:outcome=says+system_a=who+system_b=other" in done.stdout.replace("\n", "").replace(" ", "")
    done = openended("judgments=own.tsv", words.replace("says", "say"), cwd=tmp_path)
    assert "judgment_columns: no column 'say'; did you mean 'says'" in done.stderr


@pytest.mark.slow
def test_the_interval_of_huse_stands_in_the_table(tmp_path):
    done = openended("judgments=bundled:example_ratings.csv", "report.uncertainty=interval", cwd=tmp_path, code=0)
    row = next(line for line in done.stdout.splitlines() if line.strip().startswith("rated"))
    assert re.search(r"0\.520 \[0\.\d+, 0\.\d+\]", row)
    assert "HUSE (low)" not in done.stdout


def test_judgments_are_alone_where_no_metric_reads_a_text_and_no_texts_are_given(tmp_path):
    given, pairs = "judgments=x.csv", "metric=[bradley_terry]"
    assert settings(tmp_path, given, pairs).is_judgments_only()
    for words in ((pairs,), (given, "metric=[bradley_terry,zipf]"), (given, pairs, "generations=x.jsonl")):
        assert not settings(tmp_path, *words).is_judgments_only(), words


def test_a_record_of_judgments_names_no_model_and_is_made_once(tmp_path):
    path = write_file(tmp_path / "pairs.csv", PAIRS)
    words = (f"judgments={path}", "metric=[bradley_terry]")
    planned = run_judgments(settings(tmp_path, *words), open_session(tmp_path), plan_only=True)
    assert [(line.step.stage, line.state) for line in planned.plan] == [("measure", "make")]
    assert not list(tmp_path.rglob("record.json"))
    first = run_judgments(settings(tmp_path, *words), open_session(tmp_path))
    record = read_record(first.folder)
    models = record.spec["models"]
    assert (models["model"], record.spec["decoder"], models["scorer"]) == (None, None, None)
    assert [(row.system, row.metric, row.status) for row in record.results] == [("model", "bradley_terry", "ok")]
    again = run_judgments(settings(tmp_path, *words), open_session(tmp_path))
    assert (first.num_computed, again.num_computed, again.folder) == (1, 0, first.folder)
    path.write_text(path.read_text() + "4,a,b,b\n")
    assert run_judgments(settings(tmp_path, *words), open_session(tmp_path)).num_computed == 1


def test_a_metric_of_texts_has_no_value_of_judgments(tmp_path):
    (tmp_path / "pairs.csv").write_text(PAIRS)
    with pytest.raises(UndefinedMetric, match="zipf needs texts, not judgments"):
        run_judgments(settings(tmp_path, f"judgments={tmp_path}/pairs.csv", "metric=[zipf]"), open_session(tmp_path))
