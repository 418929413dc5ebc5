"""The product with pretrained models: a grid of two of them, its report and page, and the commands that read its runs."""

import json
import os
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

from openended.harness.results import read_results
from tests.helpers import ROOT, cases, openended, read_records

N, NEW = 24, 16
DECODERS = "greedy,nucleus,beam,contrastive_search"
METRICS = "mauve,gen_ppl,zipf,self_bleu,distinct_n,repetition,sparsemax_score,jensen_shannon,eps_ppl,frechet,knn_precision_recall"


def list_words(models, *, metrics=METRICS):
    """Return the options that all runs of this file share."""
    return [
        "task=webtext", f"task.path={models}/texts/sotu.jsonl", f"task.tokens={models}/gemma3", f"num_examples={N}", f"max_new_tokens={NEW}",
        f"scorer.path={models}/gemma3", f"embedder.path={models}/minilm", f"metric=[{metrics}]",
        *(["metric.mauve.num_buckets=6"] if "mauve" in metrics else []),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def grid(real_models, tmp_path_factory):
    """Folder with the outputs of a grid of two models, and what it printed."""
    folder = tmp_path_factory.mktemp("grid")
    both = f"model.path={real_models}/smollm2,{real_models}/gemma3"
    words = ["-m", "name=real", both, f"decoder={DECODERS}", *list_words(real_models)]
    done = openended(*words, cwd=folder, draw=True, verbose=False, code=0)
    return folder, done.stdout


def test_a_grid_of_two_models_is_one_table_with_both_names(grid):
    folder, printed = grid
    (table,) = (folder / "outputs/reports/real/tables").glob("*.md")
    rows = {line.split("|")[1].strip() for line in table.read_text().splitlines() if line.startswith("|")}
    assert sum("smollm2" in row for row in rows) == sum("gemma3" in row for row in rows) == 4
    assert sum("human" in row for row in rows) == 1
    assert not any("task.texts=" in line for line in printed.splitlines())


def test_every_metric_of_every_system_has_a_value(grid):
    frame = pd.read_csv(grid[0] / "outputs/reports/real/results.csv")
    systems = frame[frame["system"] == "model"]
    values = systems.dropna(subset="value").groupby(["model", "decoder"])["metric"].agg(set)
    assert len(values) == 8
    teacher_forced = {"sparsemax_score", "jensen_shannon", "eps_ppl"}
    for (_, decoder), names in values.items():
        without_q = teacher_forced if decoder in ("beam", "contrastive_search") else set()
        assert names == set(METRICS.split(",")) - without_q, decoder


def test_the_page_shows_both_models_without_an_error(grid):
    sync_api = pytest.importorskip("playwright.sync_api")
    import shutil

    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("no Chromium")
    (page_file,) = (grid[0] / "outputs/reports/real").glob("*.html")
    errors = []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(page_file.as_uri())
        text = page.locator("body").inner_text()
        browser.close()
    assert not errors
    assert all(name in text for name in ("smollm2", "gemma3"))


def test_a_report_from_another_folder_and_single_runs_read_the_same(grid, tmp_path):
    folder, _ = grid
    done = openended("report", str(folder / "outputs/runs/real"), "--out", str(tmp_path / "again"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    name = "tables/results.csv"
    assert (tmp_path / "again" / name).read_text() == (folder / "outputs/reports/real" / name).read_text()
    assert openended("show", "real", cwd=folder, verbose=False).returncode == 0


@cases(
    "more",
    ["decoder=adversarial"],
    ["decoder=nucleus", "model.chat_template=true"],
    ["decoder=nucleus", "model.dtype=bfloat16"],
    ["decoder=min_p", "samples=2"],
)
def test_other_ways_to_run_a_pretrained_model(real_models, tmp_path, more):
    words = [f"model.path={real_models}/smollm2", *list_words(real_models, metrics="gen_ppl,distinct_n"), *more]
    openended(*words, "num_examples=8", cwd=tmp_path, verbose=False, code=0)
    (record,) = read_records(tmp_path / "outputs/runs")
    assert all(row["status"] == "ok" for row in record["results"])


def test_audit_and_fidelity_of_the_runs(grid, real_models):
    folder, _ = grid
    runs = sorted((folder / "outputs/runs").rglob("record.json"))
    nucleus = next(r for r in runs if '"nucleus"' in r.read_text() and "smollm2" in r.read_text())
    reference = ["--reference", str(real_models / "smollm2")]
    openended("audit", str(nucleus.parent), *reference, cwd=folder, verbose=False, code=0)
    words = [str(real_models / "smollm2"), str(real_models / "smollm2"), "--texts", str(nucleus.parent)]
    openended("fidelity", *words, cwd=folder, verbose=False, code=0)


def test_files_are_scored_and_compared(real_models, tmp_path):
    lines = (real_models / "texts/sotu.jsonl").read_text().splitlines()[:60]
    texts = [json.loads(line)["text"] for line in lines]
    for name, part in (("human", texts[:20]), ("a", texts[20:40]), ("b", [t[:200] for t in texts[40:]])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
    words = ["a.jsonl", "b.jsonl", "--human", "human.jsonl", "--metrics", "mauve,gen_ppl", "metric.mauve.num_buckets=5"]
    models = ["--scorer", str(real_models / "gemma3"), "--embedder", str(real_models / "minilm"), "--name", "files"]
    openended("score", *words, *models, cwd=tmp_path, verbose=False, code=0)
    assert (tmp_path / "outputs/reports/files/results.csv").is_file()


def test_a_killed_run_goes_on_and_gives_the_same_texts(grid, real_models, tmp_path):
    folder, _ = grid
    words = [f"model.path={real_models}/smollm2", "decoder=nucleus", *list_words(real_models, metrics="distinct_n")]
    slow = ["runtime.batch_size=1", "runtime.flush_seconds=0", "-v"]
    command = [sys.executable, "-m", "openended", *words, *slow]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < deadline:
        if any((tmp_path / "outputs/store").rglob("block-*.arrow")):
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.05)
    assert process.wait() == -signal.SIGKILL
    openended(*words, cwd=tmp_path, code=0)

    def read_values(outputs):
        frame = read_results([outputs / "runs"]).frame
        is_same = (frame["metric"] == "distinct_n") & (frame["decoder"] == "nucleus") & (frame["system"] == "model")
        return frame[is_same & (frame["model"] == "smollm2")].set_index("key")["value"].to_dict()

    assert read_values(tmp_path / "outputs") == read_values(folder / "outputs")
