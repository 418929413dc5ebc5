"""Metrics and options without an effect or a value are refused before anything is generated."""

from __future__ import annotations

import pytest

from openended.metrics.knn_precision_recall import KnnPrecisionRecall
from openended.metrics.mauve import Mauve
from tests.helpers import openended, write_jsonl

SMALL = ["num_examples=8", "max_new_tokens=4"]
REFUSED = {
    "no metric": (["metric=[]"], "metric: expected at least one metric"),
    "no judgments": (["metric=[huse]"], "metric.huse: needs human judgments; add judgments=FILE"),
    "no judgments beside others": (["metric=[zipf,bradley_terry]"], "metric.bradley_terry: needs human judgments"),
    "lost judgments": (["metric=[huse]", "judgments=lost.csv", "decoder=nucleus"], "judgments: no such file: lost.csv"),
    "wrong judgments": (["metric=[huse]", "judgments=wrong.csv", "decoder=nucleus"], "wrong.csv"),
    "judgments of a grid": (["metric=[bradley_terry]", "judgments=simulated:mauve"], "rates the texts of a whole grid"),
    "too many cells": (["metric.mauve.num_buckets=5000"], "num_buckets=5000: needs 5,000 texts"),
    "a server that cannot score": (["scorer=openai", "scorer.path=m", "metric=[gen_ppl]"], "needs tokenizer=HUB_ID"),
    "a server that cannot rank": (
        ["scorer=openai", "scorer.path=m", "scorer.tokenizer=bundled:docs-s", "metric=[rank_histogram]"],
        "cannot do rank",
    ),
    "negative seed": (["seed=-1"], "seed: expected 0 or more, got -1"),
    "texts alone": (["task=texts", "task.path=human.jsonl"], "task texts has no prompts: add generations=FILE"),
    "unused option": (
        ["task=texts", "task.path=human.jsonl", "generations=one.jsonl", "decoder.p=0.3"],
        "generates nothing, so these options have no effect: decoder.p=0.3",
    ),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    write_jsonl(tmp_path / "human.jsonl", [{"text": f"the cat number {i} sat on a mat"} for i in range(60)])
    write_jsonl(tmp_path / "one.jsonl", [{"text": "a dog ran over the hill and far away"}])
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n")
    return tmp_path


@pytest.mark.thin(2)
@pytest.mark.parametrize("how", [[], ["plan_only=true"], ["-m", "samples=1,2"]], ids=["run", "plan", "grid"])
@pytest.mark.parametrize("case", REFUSED)
def test_refused_while_planning(case, how, folder):
    words, message = REFUSED[case]
    if how[:1] == ["-m"] and case in ("judgments of a grid", "unused option"):
        pytest.skip("allowed, or the axis itself has no effect")
    sizes = [] if "task=texts" in words else SMALL
    done = openended(*how, *words, *sizes, cwd=folder, verbose=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert message in done.stderr
    assert not list(folder.glob("outputs/store/generate/*"))
    assert not (folder / "outputs/runs").exists()
    assert not (folder / "outputs/grids").exists()


def test_texts_are_compared_whole_and_few_of_them_are_a_warning(folder):
    long = " ".join(f"word{i}" for i in range(200))
    write_jsonl(folder / "one.jsonl", [{"text": long}])
    words = ["task=texts", "task.path=human.jsonl", "generations=one.jsonl", "metric=[length]", "scorer=none"]
    done = openended(*words, cwd=folder, verbose=False)
    assert done.returncode == 0, done.stderr
    assert "one.jsonl: 1 text beside 60 human texts: values of so few texts say little" in done.stderr
    assert "200" in done.stdout
    assert "whole texts" in done.stdout


def test_too_few_texts_for_an_option_that_was_set():
    assert Mauve().explain_too_few(4, 4) == ""
    assert Mauve(num_buckets=8).explain_too_few(4, 4) == ""
    assert Mauve(num_buckets=9).explain_too_few(4, 4).startswith("num_buckets=9: needs 9 texts")
    assert Mauve(num_buckets=9, cluster_fit="joint").explain_too_few(4, 4) == ""
    assert Mauve(num_buckets=8, cluster_fit="reference").explain_too_few(4, 40) != ""
    assert Mauve(num_buckets=1000, quantizer="residual_kmeans").explain_too_few(5, 5) == ""
    assert KnnPrecisionRecall().explain_too_few(2, 2) == ""
    assert KnnPrecisionRecall(k=9).explain_too_few(9, 20).startswith("k=9")
