"""`openended compare` on real logs of Inspect and lm-evaluation-harness, on tables, and on damaged files."""

import json
import re
import shutil
import zipfile

import numpy as np
import pytest
from pyarrow import csv, parquet

from openended.harness.app.commands.compare import main, name_files
from openended.harness.imported import read_system_scores
from tests.helpers import ROOT, cases, write_jsonl

LOGS = ROOT / "tests/fixtures/logs"  # written by Inspect 0.3.285 (mockllm) and lm_eval 0.4.13, 8 samples each
LINES = [f"q{i},{e},{int((i + e) % 3 > 0)},{i % 5 + e},a\n" for i in range(40) for e in (1, 2)]
TABLE = "id,epoch,acc,words,answer\n" + "".join(LINES)


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "150")


def compare(capsys, *words, code=0):
    assert main([*map(str, words)]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def test_logs_of_inspect_are_compared_by_sample(capsys):
    printed = compare(capsys, LOGS / "a.eval", f"B={LOGS / 'b.json'}")
    assert re.search(r"a +0\.75 \[0\.43, .*\n B +0\.81 ", printed)
    assert "8 samples." in printed
    assert "averaged: up to 2 of a, 2 of B." in printed
    assert re.search(r"includes: a − B +-0\.062 \[-0\.411, 0\.286\] +paired t ", printed)
    clustered = compare(capsys, LOGS / "a.eval", LOGS / "b.eval", "--cluster", "metadata.topic")
    assert "8 samples in 2 clusters." in clustered
    assert "clustered t" in clustered


def test_one_log_reads_alike_as_archive_summaries_and_json():
    archive, whole, document = (
        read_system_scores("b", [LOGS / file], cluster=cluster)
        for file, cluster in (("b.eval", None), ("b.eval", "metadata.topic"), ("b.json", None))
    )
    assert archive.values == whole.values == document.values
    assert set(whole.clusters.values()) == {"t0", "t1"}
    assert list(archive.values) == ["includes", "words", "graded/fluent", "graded/short"]


def test_our_reader_gives_what_that_of_inspect_gives():
    log = pytest.importorskip("inspect_ai.log").read_eval_log(str(LOGS / "a.eval"))
    grades = [float({"C": 1, "I": 0}[s.scores["includes"].value]) for s in log.samples]
    sums = {s.id: sum(g for g, t in zip(grades, log.samples, strict=True) if t.id == s.id) for s in log.samples}
    assert read_system_scores("a", [LOGS / "a.eval"]).values["includes"] == {key: of / 2 for key, of in sums.items()}


def test_samples_of_lm_eval_are_compared_with_their_filters_and_directions(capsys, tmp_path):
    shutil.copytree(LOGS / "mb", tmp_path / "mb")
    results = next((tmp_path / "mb").glob("results_*"))
    results.write_text(results.read_text().replace('"acc_norm": true', '"acc_norm": false'))
    printed = compare(capsys, tmp_path / "mb", LOGS / "ma", "--difference", "0.1")
    assert re.search(r"exact_match/strict ↑ .*exact_match/loose ↑ .*acc ↑ .*acc_norm ↓", printed)
    assert "No numbers in ma: bleu/strict, bleu/loose." in printed
    assert re.search(r"acc: mb − ma .* McNemar, mid-p ", printed)
    one = next((LOGS / "ma").glob("samples_parity*"))
    assert "acc: " in compare(capsys, one, next((LOGS / "mb").glob("samples_parity*")), "--cluster", "doc.passage")


def test_tables_are_written_and_the_best_is_bold(capsys, tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    rows = [{"doc_id": f"q{i}", "acc": True, "words": 9, "seed": s} for i in range(40) for s in (0, 1)]
    write_jsonl(tmp_path / "b.jsonl", rows)
    parquet.write_table(csv.read_csv(tmp_path / "a.csv"), tmp_path / "c.parquet")
    out = tmp_path / "out"
    files = (tmp_path / "a.csv", tmp_path / "b.jsonl", tmp_path / "c.parquet")
    printed = compare(capsys, *files, "--lower", "words", "--out", out)
    assert "No numbers in a: answer." in printed
    table = (out / "tables/scores.md").read_text()
    assert "| b | **1.000** [0.912, 1.000] | 9.00 |" in table
    assert table.count("**3.50**") == 2
    lines = (out / "tables/differences.csv").read_text().splitlines()
    assert len(lines) == 1 + 2 * 3
    assert {path.name for path in (out / "tables").iterdir()} >= {"scores.tex", "differences.tex"}
    assert "Mean scores" in (out / "report.html").read_text()


def test_unequal_clusters_are_said_to_be_worth_fewer(capsys, tmp_path):
    for name in "ab":
        rows = (f"{i},{max(i - 39, 0)},{(i * i + ord(name)) % 7}\n" for i in range(100))
        (tmp_path / f"{name}.csv").write_text("id,cluster,x\n" + "".join(rows))
    printed = compare(capsys, tmp_path / "a.csv", tmp_path / "b.csv")
    assert "100 samples in 61 clusters, worth 7 of equal size." in printed


def test_unmatched_samples_are_refused_or_counted(capsys, tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "b.csv").write_text(TABLE.replace("\nq3,", "\nx3,"))
    files = (tmp_path / "a.csv", tmp_path / "b.csv")
    refused = compare(capsys, *files, code=2)
    assert refused.count("\n") == 1
    assert f"acc: of 41 samples, {files[0]} lacks 1 (x3); {files[1]} lacks 1 (q3)" in refused
    assert "--unmatched drop compares the 39 that all have" in refused
    assert "39 samples, 2 dropped that some systems lack." in compare(capsys, *files, "--unmatched", "drop")


def pack(header, members):
    def write(path):
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in {"header.json": header, **members}.items():
                archive.writestr(name, json.dumps(content))

    return write


HEADER = {"status": "success", "eval": {}, "results": {"total_samples": 2}}
SAMPLE = {"id": "q", "epoch": 1, "scores": {"acc": {"value": "C"}}}
DAMAGED = [
    ("a.eval", lambda path: path.write_bytes((LOGS / "a.eval").read_bytes()[:9000]), "not a readable Inspect log"),
    ("a.eval", lambda path: path.write_bytes(b"\0".join((LOGS / "a.eval").read_bytes().split(b"\x28\xb5\x2f\xfd"))), "cannot be read"),
    ("a.eval", pack([], {}), "its run has the status None, expected 'success'"),
    ("a.eval", pack({**HEADER, "status": "error"}, {}), "its run has the status 'error', expected 'success'"),
    ("a.eval", pack(HEADER, {"summaries.json": [SAMPLE]}), "holds 1 of its 2 samples"),
    ("a.eval", pack(HEADER, {"summaries.json": [SAMPLE, {}]}), "sample 2: expected a sample of Inspect with an id, got {}"),
    ("a.eval", pack(HEADER, {"summaries.json": [SAMPLE, SAMPLE]}), "sample 'q' appears twice, first at "),
    ("a.eval", pack(HEADER, {"summaries.json": [{"id": 1}, {"id": 2}]}), "expected numbers of single samples, got none"),
    ("a.json", lambda path: path.write_text("[]"), "expected a log of Inspect; JSON lines end in .jsonl"),
    ("a.jsonl", lambda path: path.write_text('{"doc_id": 0, "doc": {}, "resps": [], "filtered_resps": []}'), "field 'metrics': expected a list of names, got None"),
    ("a.jsonl", lambda path: path.write_text('{"doc_id": 0, "doc": {}, "resps": [], "filtered_resps": [], "metrics": [{"a": 1}]}'),
     "field 'metrics': expected a list of names, got"),
    ("a.jsonl", lambda path: path.write_text('{"id": 1, "acc": 1}\n{"id": 1, "acc": 0}'), "sample '1' appears twice, first at …/a.jsonl:1; name its repeats in a column epoch or seed"),
    ("a.jsonl", lambda path: path.write_text('{"id": 1, "acc": 1}\n{"id": 2, "a'), "a.jsonl:2: not JSON"),
    ("a.csv", lambda path: path.write_text("name,acc\nx,1\n"), "a.csv:2: no id of the sample in id, sample_id, example_id, doc_id, question_id, got name, acc; name its column: --id COLUMN"),
    ("a.csv", lambda path: path.write_text("id,answer\nx,yellow\n"), "got none; no numbers: answer"),
    ("a.csv", lambda path: path.write_text("id,answer\nx,1_000\n"), "got none; no numbers: answer"),
    ("a.csv", lambda path: path.write_text("id,system,acc\nx,m,1\nx,n,1\n"), "scores of several systems (m and n); give each a file"),
    ("a.csv", lambda path: path.write_text("id,cluster,epoch,acc\nx,c,1,1\nx,d,2,1\n"), "sample 'x' is in two clusters: c, d"),
    ("a.jsonl", lambda path: path.write_text('{"id": 1, "acc": 1}\n{"id": 2, "acc": 1, "cluster": 3}'), "sample '1' has no cluster, others have one"),
    ("a.csv", lambda path: path.write_text("id,acc\nx,1\n"), "0 samples in common; expected 2 or more with equal ids"),
    ("a.csv", lambda path: path.write_text("id,bleu\nx,1\n"), "no metric in common: …/a.csv has bleu; …/b.csv has acc, words"),
    ("a.parquet", lambda path: path.write_text("no"), "not a readable Parquet file"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "write", "message"), DAMAGED)
def test_damaged_files_are_one_clear_line(capsys, tmp_path, name, write, message):
    write(tmp_path / name)
    (tmp_path / "b.csv").write_text(TABLE)
    refused = compare(capsys, tmp_path / name, tmp_path / "b.csv", "--unmatched", "drop", code=2)
    assert refused.count("\n") == 1
    assert re.search(re.escape(message).replace("…", ".*"), refused), refused


@cases(
    "words, message",
    (["a.csv"], "expected scores of two systems or more, got 1"),
    (["a.csv", "a.csv"], "a.csv is listed twice"),
    (["a.csv", "b="], "expected FILE or NAME=FILE, got 'b='"),
    (["a.csv", "b=nothing.csv"], "nothing.csv"),
    (["a.csv", "b=c.csv", "--metrics", "words,ac"], "--metrics: a.csv has no scores 'ac'; did you mean 'acc'"),
    (["a.csv", "b=c.csv", "--id", "ident"], "a.csv:2: no id of the sample in ident"),
    (["a.csv", "b=c.csv", "--cluster", "topic"], "a.csv:2: no topic"),
    (["a.csv", "b=c.csv", "--difference", "-1"], "--difference: expected a number above 0, got -1"),
)
def test_wrong_words_say_what_to_type(capsys, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "c.csv"):
        (tmp_path / name).write_text(TABLE)
    refused = compare(capsys, *words, code=2)
    assert refused.count("\n") == 1
    assert message in refused


def test_a_file_is_called_as_it_differs(tmp_path):
    stamp, ending = "2026-11-26T22-30-18-00-00_", "_D6rZFagfdq9rxR4GtJNZww.eval"
    assert list(name_files([f"x/{stamp}sums{ending}", f"y/{stamp}sums{ending}"])) == ["x/sums", "y/sums"]
    assert list(name_files(["m/samples_gsm_2026-01-01T00-00-00.1.jsonl", "b=z.csv"])) == ["gsm", "b"]


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """A judge that says 1 more than people, of 400 samples in pairs; people rated 40 of them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    quality = rng.normal(size=400)
    judge, people = quality + 1 + 0.3 * rng.normal(size=400), quality + 0.3 * rng.normal(size=400)
    write_jsonl(tmp_path / "judge.jsonl", [{"id": i, "score": s, "topic": i // 2} for i, s in enumerate(judge)])
    rated = range(0, 400, 10)
    (tmp_path / "people.csv").write_text("id,rating\n" + "".join(f"{i},{people[i]}\n" for i in rated))
    return judge, people, [*rated]


def test_a_judge_is_corrected_by_a_few_scores_of_people(judged, capsys):
    judge, people, rated = judged
    printed = compare(capsys, "judge.jsonl", "--people", "people.csv", "--metrics", "score")
    numbers = re.search(r"score +(\S+) +(\S+) \[(\S+), (\S+)\] +(\S+) \[(\S+), (\S+)\] +40 +(\d+) +(\S+)", printed)
    judge_mean, alone, _, _, value, low, high, worth, rho = map(float, numbers.groups())
    rest = [i for i in range(400) if i not in rated]
    # By hand: least squares of people on the judge, shrunk by the rated share, and the judge's mean moved by it.
    x, y = judge[rated], people[rated]
    spread = (((x - x.mean()) ** 2).sum() + ((judge[rest] - judge[rest].mean()) ** 2).sum()) / 398
    weight = ((x - x.mean()) * (y - y.mean())).sum() / 39 / (1 + 40 / 360) / spread
    assert value == pytest.approx(y.mean() + weight * (judge[rest].mean() - x.mean()), abs=6e-3)
    assert (judge_mean, alone) == pytest.approx((judge.mean(), y.mean()), abs=6e-3)
    assert low < people.mean() < high
    assert worth > 40
    assert rho > 0.8
    assert "must be a random choice" in " ".join(printed.split())


def test_clusters_of_rated_samples_are_corrected_whole(judged, capsys, tmp_path):
    words = ("judge.jsonl", "--people", "people.csv", "--metrics", "score")
    clustered = compare(capsys, *words, "--cluster", "topic", "--out", "out")
    # One sample of each of 40 pairs is rated: the other 40 samples of these pairs are neither rated nor the rest.
    assert re.search(r"score .*\] +40 ", clustered)
    (corrected, *_) = [path.name for path in sorted((tmp_path / "out/tables").iterdir())]
    assert corrected.startswith("corrected")
    assert clustered != compare(capsys, *words)


@cases(
    "people, words, message",
    ("id,rating\n1,2\n", [], "people.csv: 1 samples of score rated; expected 20 or more"),
    ("id,rating\nx,2\n", [], "people.csv: 1 samples have no score in judge.jsonl: x"),
    ("id,a,b\n1,2,3\n", [], "people.csv: has a, b, and judge.jsonl has score, topic; expected a column"),
    ("id,rating\n1,2\n", ["--people", "b=people.csv"], "--people b=people.csv: expected SYSTEM=FILE, of judge"),
    ("id,rating\n1,2\n", ["b=judge.jsonl"], "--people people.csv: expected SYSTEM=FILE, of judge, b"),
)
def test_people_that_cannot_correct_a_judge_are_one_line(judged, capsys, tmp_path, people, words, message):
    (tmp_path / "people.csv").write_text(people)
    metrics = [] if "a,b" in people else ["--metrics", "score"]
    assert message in compare(capsys, "judge.jsonl", "--people", "people.csv", *metrics, *words, code=2)


def test_a_metric_whose_name_has_a_blank_is_chosen(capsys, tmp_path):
    rows = "".join(f"{i},{i % 2},{i}\n" for i in range(12))
    files = [tmp_path / name for name in ("a.csv", "b.csv")]
    for file in files:
        file.write_text(f"id,exact match,words\n{rows}")
    printed = compare(capsys, *files, "--metrics", "exact match")
    assert "exact match" in printed
    assert "words" not in printed
