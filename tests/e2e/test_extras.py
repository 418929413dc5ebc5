"""What the base dependencies alone can do: score, report and list; the rest names the extra that it needs."""

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from openended.metrics._mauve import kmeans as kmeans_module
from tests.helpers import ROOT, cases, read_records, write_jsonl

MAUVE = ("score", "model.jsonl", "--human", "human.jsonl", "--features", "model.npy", "--human-features", "human.npy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Texts and vectors of two sides."""
    where = tmp_path_factory.mktemp("light")
    rng = np.random.default_rng(0)
    for side, words in (("human", "a cat and {} dogs lay on a mat"), ("model", "the {} dogs ran over the hill")):
        write_jsonl(where / f"{side}.jsonl", [{"text": words.format(i % 7)} for i in range(40)])
        np.save(where / f"{side}.npy", rng.normal(size=(40, 8)).astype(np.float32))
    write_jsonl(where / "prompts.jsonl", [{"prompt": f"A cat {i}", "human": " lay on a mat"} for i in range(8)])
    return where


def run_light(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without the packages of the extras."""
    fonts = {"MPLCONFIGDIR": mpl.get_cachedir()}  # in another home, fonts would be searched for again
    return subprocess.run(
        [sys.executable, "-m", "tests.e2e.without_extras", *words],
        cwd=cwd, env={"PYTHONPATH": str(ROOT), "PATH": "", "OMP_NUM_THREADS": "1", "HOME": str(cwd), **fonts},
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.slow
def test_texts_and_vectors_are_scored_and_reported(folder):
    done = run_light(*MAUVE, "--metrics", "distinct_n,self_bleu,zipf,mauve", "--name", "light", cwd=folder)
    assert done.returncode == 0, done.stderr
    (record,) = read_records(folder / "outputs/runs/light")
    made = {r["metric"]: r for r in record["results"] if r["system"] == "model"}
    assert {name: result["status"] for name, result in made.items()} == dict.fromkeys(made, "ok")
    assert "|kmeans:scikit-learn|" in made["mauve"]["signature"]
    assert "kmeans" not in made["distinct_n"]["signature"]
    assert (folder / "outputs/reports/light/report.html").is_file()


@pytest.mark.slow
@cases(
    "words, extra",
    (("metric=[zipf]", "num_examples=8"), "local"),
    (("score", "model.jsonl", "--human", "human.jsonl", "--scoring", "docs-s"), "local"),
    (("model=openai", "model.path=x", "model.base_url=http://127.0.0.1:1", "task=jsonl", "task.path=prompts.jsonl",
      "decoder=nucleus", "scoring=none", "metric=[zipf]", "num_examples=all"), "servers"),
    ids=["a bundled model", "a scorer", "a server"],
)  # fmt: skip
def test_what_is_missing_names_its_extra(words, extra, folder):
    done = run_light(*words, cwd=folder)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].endswith(f"is not installed; pip install 'openended[{extra}]'"), done.stderr


def test_both_libraries_of_k_means_find_clusters_that_are_apart(monkeypatch):
    rng = np.random.default_rng(1)
    centers = 100 * np.eye(4, 6)
    points = (centers[np.arange(400) % 4] + rng.normal(size=(400, 6))).astype(np.float32)
    by_faiss = kmeans_module.kmeans(points, 4, restarts=10, seed=3)
    cells = kmeans_module.nearest(points, by_faiss)[0]
    monkeypatch.setattr(kmeans_module, "has_faiss", lambda: False)
    by_sklearn = kmeans_module.kmeans(points, 4, restarts=10, seed=3)
    others = kmeans_module.nearest(points, by_sklearn)[0]
    assert len({(int(a), int(b)) for a, b in zip(cells, others, strict=True)}) == 4
    order = [int(others[list(cells).index(cell)]) for cell in range(4)]
    np.testing.assert_allclose(by_faiss, by_sklearn[order], atol=1e-3)
    assert kmeans_module.describe_library() == {"kmeans": "scikit-learn"}
