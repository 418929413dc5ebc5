"""A file of judgments alone: which metrics it feeds, whoever laid it out."""

from __future__ import annotations

import pytest

from openended.harness.core.errors import DataError, UndefinedMetric
from openended.harness.run.pipeline import run_judgments, select_metrics_for_file
from openended.harness.run.session import Session
from openended.harness.storage.record import read_record
from openended.harness.storage.store import Store
from tests.harness.run.small import settings
from tests.helpers import openended

ARENA = (
    "\ufeffquestion_id;model_a;model_b;winner;judge\n1;x;y;model_a;j1\n2;x;y;tie (bothbad);j1\n3;y;x;y;j2\n4;x;y;;j2\n"
)


def test_the_metrics_are_those_that_the_file_feeds(tmp_path):
    ratings, pairs = tmp_path / "ratings.csv", tmp_path / "pairs.csv"
    ratings.write_text("example_id,system,rating\n1,human,3\n1,model,4\n")
    pairs.write_text("item,system_a,system_b,outcome\n1,a,b,a\n")
    for path, name in ((ratings, "huse"), (pairs, "bradley_terry")):
        words = [f"judgments={path}"]
        assert [m.name for m in select_metrics_for_file(settings(tmp_path, *words), words).metrics] == [name]
    chosen = settings(tmp_path, f"judgments={pairs}", "metric=[huse]")
    assert select_metrics_for_file(chosen, [f"judgments={pairs}", "metric=[huse]"]) is chosen


def test_a_file_of_neither_is_refused_with_what_is_expected(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    words = [f"judgments={path}"]
    with pytest.raises(DataError, match=r"has the columns a, b: neither ratings .* nor comparisons"):
        select_metrics_for_file(settings(tmp_path, *words), words)


def test_arena_votes_need_two_words_and_empty_ones_are_counted(tmp_path):
    (tmp_path / "arena.csv").write_text(ARENA, encoding="utf-8")
    done = openended("judgments=arena.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "arena.csv:5: no outcome; metric=[bradley_terry] metric.bradley_terry.empty=skip" in done.stderr
    done = openended("judgments=arena.csv", "metric=[bradley_terry]", "metric.bradley_terry.empty=skip", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 comparisons of 2 players (x, y); 1 ties (half)" in done.stdout
    assert "1 without an outcome left out" in done.stdout
    assert "Preferred by people" in done.stdout
    assert "[95 % CI]" in done.stdout
    assert "±" not in done.stdout  # one run: no spread over seeds


def test_columns_of_any_name_are_mapped_and_enter_the_signature(tmp_path):
    (tmp_path / "own.tsv").write_text("who\tother\tsays\nx\ty\t1\ny\tx\t1\nx\ty\t2\n")
    words = "judgment_columns={system_a: who, system_b: other, outcome: says}"
    done = openended("judgments=own.tsv", words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 comparisons of 2 players (x, y)" in done.stdout
    assert "columns:outcome=says+system_a=who+system_b=other" in done.stdout.replace("\n", "").replace(" ", "")
    done = openended("judgments=own.tsv", words.replace("says", "said"), cwd=tmp_path)
    assert "judgment_columns: no column 'said'; did you mean 'says'" in done.stderr


def test_the_interval_of_huse_stands_in_the_table(tmp_path):
    done = openended("judgments=bundled:example_ratings.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.strip().startswith("rated"))
    assert row.count("[") == 1
    assert "HUSE (low)" not in done.stdout


def session(folder):
    return Session(Store(folder / "store"))


def test_judgments_are_alone_where_no_metric_reads_a_text_and_no_texts_are_given(tmp_path):
    given, pairs = "judgments=x.csv", "metric=[bradley_terry]"
    assert settings(tmp_path, given, pairs).is_judgments_only()
    for words in ((pairs,), (given, "metric=[bradley_terry,zipf]"), (given, pairs, "generations=x.jsonl")):
        assert not settings(tmp_path, *words).is_judgments_only(), words


def test_a_record_of_judgments_names_no_model_and_is_made_once(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("item,system_a,system_b,outcome\n1,a,b,a\n2,a,b,b\n3,a,b,a\n")
    words = (f"judgments={path}", "metric=[bradley_terry]")
    planned = run_judgments(settings(tmp_path, *words, "plan_only=true"), session(tmp_path))
    assert [(step.stage, step.state) for step in planned.plan] == [("measure", "make")]
    assert not list(tmp_path.rglob("record.json"))
    first = run_judgments(settings(tmp_path, *words), session(tmp_path))
    record = read_record(first.folder)
    assert (record.spec["model"], record.spec["decoder"], record.spec["scorer"]) == (None, None, None)
    assert [(row.system, row.metric, row.status) for row in record.results] == [("model", "bradley_terry", "ok")]
    again = run_judgments(settings(tmp_path, *words), session(tmp_path))
    assert (first.num_computed, again.num_computed, again.folder) == (1, 0, first.folder)
    path.write_text(path.read_text() + "4,a,b,b\n")
    assert run_judgments(settings(tmp_path, *words), session(tmp_path)).num_computed == 1


def test_judgments_without_their_file_or_for_a_metric_of_texts_are_refused(tmp_path):
    lost = settings(tmp_path, f"judgments={tmp_path}/lost.csv", "metric=[bradley_terry]")
    for call in (
        lambda: run_judgments(lost, session(tmp_path)),
        lambda: select_metrics_for_file(lost, ["judgments=lost.csv"]),
    ):
        with pytest.raises(DataError, match=r"judgments: no such file: .*lost\.csv"):
            call()
    path = tmp_path / "pairs.csv"
    path.write_text("item,system_a,system_b,outcome\n1,a,b,a\n")
    with pytest.raises(UndefinedMetric, match="zipf needs texts, not judgments"):
        run_judgments(settings(tmp_path, f"judgments={path}", "metric=[zipf]"), session(tmp_path))
