"""Whole runs from the command line: twice, killed, at several batch sizes, and with bad input."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from openended.harness.storage.rows import RowFile
from tests.helpers import ROOT, openended, write_jsonl

WORDS = (
    "the of a to and in is for that this with as be are by on not or from at it an if which can will array value "
    "function returns object given input output number when used data each other first last index model file list "
    "string name type class method parameter result default set new all any one two before after between"
).split()


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("texts") / "human.jsonl"
    rows = []
    for i in range(90):
        words = rng.choice(WORDS, size=rng.integers(30, 60))
        rows.append(
            {"id": f"e{i:03d}", "prompt": " ".join(words[: 5 + i % 4]), "human": " " + " ".join(words[9:]) + "."}
        )
    return write_jsonl(path, rows)


def small(texts: Path, *more: str) -> list[str]:
    fields = [
        "task=jsonl",
        "scoring=docs-m",
        f"task.path={texts}",
        "num_examples=40",
        "max_new_tokens=16",
        "runtime.batch_size=16",
    ]
    kept = {w.split("=")[0]: w for w in [*fields, "metric=[mauve,gen_ppl,distinct_n,repetition]", *more]}
    return list(kept.values())


def files(folder: Path, *patterns: str) -> dict[str, bytes]:
    found = [p for pattern in patterns for p in folder.rglob(pattern)]
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(found) if p.is_file()}


def rows_of(outputs: Path) -> list[tuple[str, int, str]]:
    (path,) = outputs.glob("store/generate/*/*/data.arrow")
    return [(r.generation.example_id, r.generation.sample, r.generation.text) for r in RowFile(path)]


@pytest.fixture(scope="module")
def grid(tmp_path_factory, texts) -> tuple[Path, str]:
    """A folder with the outputs of a small grid, and what was printed."""
    where = tmp_path_factory.mktemp("grid")
    done = openended("-m", "name=grid", "decoder=greedy,nucleus", "seed=0,1", *small(texts), cwd=where, code=0)
    return where, done.stdout


@pytest.fixture
def after_grid(grid, tmp_path) -> Path:
    """A folder of its own with the same outputs."""
    shutil.copytree(grid[0] / "outputs", tmp_path / "outputs")
    return tmp_path


@pytest.mark.slow
def test_second_run_computes_nothing_and_gives_the_same_bytes(grid, texts):
    where, said = grid
    before = files(where / "outputs", "reports/**/*", "store/**/*", "runs/**/*")
    assert len(list(where.glob("outputs/runs/*/*"))) == 3, "greedy has one run, whatever the seed"
    second = openended("-m", "name=grid", "decoder=greedy,nucleus", "seed=0,1", *small(texts), cwd=where, code=0)
    assert " computed " not in second.stderr
    assert "loaded" not in second.stderr
    assert files(where / "outputs", "reports/**/*", "store/**/*", "runs/**/*") == before
    assert second.stdout == said


def test_other_metrics_do_not_generate_again(after_grid, texts):
    again = openended(*small(texts, "metric=[distinct_n]", "metric.distinct_n.orders=[1,2]"), cwd=after_grid, code=0)
    made = [line.split()[0] for line in again.stderr.splitlines() if " computed " in line]
    assert set(made) == {"measure"}


def values_of(outputs: Path, metric: str) -> dict[str, float]:
    found = {}
    for path in outputs.glob("runs/*/*/record.json"):
        record = json.loads(path.read_text())
        (row,) = [r for r in record["results"] if r["metric"] == metric and r["system"] == "model"]
        found[record["axes"]["decoder"]] = row["values"][metric]
    return found


@pytest.mark.slow
def test_jobs_of_one_process_do_not_mix_their_features(tmp_path, texts):
    words = small(texts, "num_examples=20", "metric=[sparsemax_score]")
    openended("-m", "decoder=greedy,ancestral,top_k", *words, "outputs_dir=grid", cwd=tmp_path, code=0)
    openended("decoder=ancestral", *words, "outputs_dir=alone", cwd=tmp_path, code=0)
    found = values_of(tmp_path / "grid", "sparsemax_score")
    assert len(set(found.values())) == 3
    assert found["ancestral"] == values_of(tmp_path / "alone", "sparsemax_score")["ancestral"]


@pytest.mark.slow
def test_one_clustering_over_all_systems_of_a_grid(tmp_path, texts):
    words = small(texts, "num_examples=20", "metric=[mauve]", "metric.mauve.cluster_fit=joint")
    openended("-m", "decoder=greedy,ancestral", *words, cwd=tmp_path, code=0)
    found = values_of(tmp_path / "outputs", "mauve")
    assert set(found) == {"greedy", "ancestral"}
    assert all(0 < value <= 1 for value in found.values())
    told = list((tmp_path / "outputs").glob("runs/*/*/explain.jsonl"))
    assert len(told) == 2
    for line in map(json.loads, told[0].read_text(encoding="utf-8").splitlines()):
        assert line["kind"] == "cell"
        assert line["human_share"] != line["model_share"]
        assert line["human"] or line["model"]


@pytest.mark.slow
def test_killed_in_the_middle_goes_on_to_the_same_bytes(tmp_path, texts):
    rows = ["num_examples=24", "max_new_tokens=40", "runtime.batch_size=1", "runtime.flush_seconds=0"]
    words = small(texts, *rows, "metric=[distinct_n]")
    openended(*words, "outputs_dir=calm", cwd=tmp_path, code=0)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "openended", *words, "outputs_dir=killed"]

    def parts() -> list[Path]:
        return list((tmp_path / "killed").glob("store/generate/*/*.partial/part-*.arrow"))

    with subprocess.Popen(command, cwd=tmp_path, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as run:
        while not parts() and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(signal.SIGKILL)
    assert parts(), "it ended before it was killed"
    again = openended(*words, "outputs_dir=killed", cwd=tmp_path, code=0)
    assert "resuming after" in again.stderr
    generated = files(tmp_path / "calm", "store/generate/**/data.arrow")
    assert generated == files(tmp_path / "killed", "store/generate/**/data.arrow")
    assert files(tmp_path / "calm", "store/measure/**/result.json") == files(
        tmp_path / "killed", "store/measure/**/result.json"
    )


@pytest.mark.slow
def test_texts_do_not_depend_on_the_batch_size(tmp_path, texts):
    found = []
    for size in (1, 7, 64):
        words = small(
            texts, f"runtime.batch_size={size}", f"outputs_dir=b{size}", "metric=[distinct_n]", "decoder=ancestral",
            "num_examples=20",
        )  # fmt: skip
        openended(*words, cwd=tmp_path, code=0)
        found.append(rows_of(tmp_path / f"b{size}"))
    assert found[0] == found[1] == found[2]


def test_plan_loads_no_model_and_writes_nothing(tmp_path, texts):
    done = openended(*small(texts, "plan_only=true"), cwd=tmp_path, code=0)
    assert "generate" in done.stdout
    assert "to compute" in done.stdout
    assert "loaded" not in done.stderr
    assert not (tmp_path / "outputs").exists()


def test_a_plan_says_what_is_there(after_grid, texts):
    before = files(after_grid / "outputs", "**/*")
    after = openended(*small(texts, "plan_only=true"), cwd=after_grid)
    assert " to compute  " not in after.stdout
    assert "cached" in after.stdout
    assert files(after_grid / "outputs", "**/*") == before


def bad_jsonl(folder: Path) -> str:
    (folder / "bad.jsonl").write_text('{"prompt": "a", "human": " b"}\n{"prompt": \n')
    return "bad.jsonl:2"


def empty_human(folder: Path) -> str:
    (folder / "empty.jsonl").write_text('{"id": "x7", "prompt": "a", "human": ""}\n')
    return "empty"


def no_weights(folder: Path) -> str:
    (folder / "m").mkdir()
    (folder / "m/config.json").write_text("{}")
    return "m"


BAD = {
    "unknown option": (["num_exmples=3"], None, ["num_exmples", "num_examples"]),
    "unknown field": (["decoder=nucleus", "decoder.pp=0.9"], None, ["decoder.pp", "'p'"]),
    "unknown choice": (["decoder=nucelus"], None, ["nucelus", "nucleus"]),
    "wrong value": (["decoder=nucleus", "decoder.p=1.5"], None, ["nucleus.p", "1.5"]),
    "missing file": (["task=jsonl", "task.path=nowhere.jsonl"], None, ["nowhere.jsonl"]),
    "malformed line": (["task=jsonl", "task.path=bad.jsonl", "num_examples=1"], bad_jsonl, ["bad.jsonl:2"]),
    "empty human side": (
        ["task=jsonl", "task.path=empty.jsonl", "num_examples=1"],
        empty_human,
        ["empty.jsonl:1", "empty"],
    ),
    "no weights": (["model.path=./m"], no_weights, ["no weights", "m"]),
    "unwritable outputs": (["outputs_dir=/proc/nowhere/x"], None, ["/proc"]),
    "too many": (["num_examples=1000"], None, ["num_examples", "90", "1000"]),
    "sweep of a typo": (["-m", "decoder=nucelus,greedy"], None, ["nucelus"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case, tmp_path, texts):
    words, prepare, expected = BAD[case]
    if prepare is not None:
        prepare(tmp_path)
    given = [*small(texts), *words] if "-m" not in words else ["-m", *small(texts), *words[1:]]
    kept = {w.split("=")[0]: w for w in given if w != "-m"}
    done = openended(*(["-m"] if "-m" in given else []), *kept.values(), cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.startswith("openended:")]
    assert done.returncode == 2, done.stderr
    assert len(lines) == 1, done.stderr
    assert "Traceback" not in done.stderr
    for word in expected:
        assert word in lines[0]
    assert not list(tmp_path.glob("outputs/runs/*/*"))
    assert not list(tmp_path.glob("outputs/store/*/*/*"))


@pytest.mark.slow
def test_failed_jobs_are_told_at_the_end_and_do_not_stop_the_others(tmp_path, texts):
    done = openended("-m", "decoder=nucleus,mdlm", *small(texts, "metric=[distinct_n]"), cwd=tmp_path, code=1)
    assert "failed: decoder=mdlm: model " in done.stderr
    assert "1 of 2 jobs failed" in done.stderr
    assert len(list(tmp_path.glob("outputs/runs/*/*"))) == 1


@pytest.mark.slow
def test_help_and_plan_import_nothing_heavy():
    code = (
        "import sys; sys.argv = ['openended', 'plan_only=true', 'task=jsonl', 'task.path=x.jsonl']\n"
        "from openended.harness.app.cli import main\n"
        "try:\n    main()\nexcept SystemExit as e:\n    pass\n"
        "print([m for m in ('torch', 'transformers', 'datasets', 'faiss', 'sklearn', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, timeout=240
    )
    assert done.stdout.strip().endswith("[]")
