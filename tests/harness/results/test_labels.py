"""Names of systems: short, and no two alike."""

from __future__ import annotations

from openended.harness.results.frame import read_results
from openended.harness.results.labels import find_varying_axes, label_system, label_systems
from tests.harness.report.synthetic import result, write_run


def items_of(folder, *runs):
    """One value of every run: (decoder, more options of the run)."""
    for decoder, more in runs:
        lines = [result(side, "gen_ppl", {"gen_ppl": 30.0}) for side in ("model", "human")]
        write_run(folder, decoder, None, results=lines, **more)
    return read_results([folder]).values


def models(items):
    return [i for i in items if i.system == "model"]


def test_decoders_alone_are_named_by_their_titles(tmp_path):
    items = items_of(tmp_path, ("greedy", {}), ("nucleus", {}))
    assert sorted(label_systems(models(items))) == ["greedy", "nucleus p=0.95"]
    assert find_varying_axes(items) == []


def test_what_differs_beside_model_and_decoder_is_said(tmp_path):
    items = items_of(tmp_path, ("greedy", {"length": 32}), ("greedy", {"length": 96}))
    assert find_varying_axes(items) == ["max_new_tokens"]
    assert sorted(label_systems(models(items))) == ["greedy, length=32", "greedy, length=96"]
    assert label_systems(models(items), skip=["max_new_tokens"]) == ["greedy", "greedy"], "the columns say it"


def test_titles_that_are_alike_are_told_apart_by_a_decoder_option(tmp_path):
    runs = [("top_k", {"options": {"k": k}, "title": "top-k"}) for k in (5, 40)]
    assert sorted(label_systems(models(items_of(tmp_path, *runs)))) == ["top-k (k=40)", "top-k (k=5)"]


def test_models_are_named_where_there_are_several_and_the_human_side_by_its_data(tmp_path):
    items = items_of(tmp_path, ("greedy", {"model": "docs-s"}), ("greedy", {"model": "docs-m"}))
    assert sorted(label_systems(models(items))) == ["docs-m greedy", "docs-s greedy"]
    human = next(i for i in items if i.system == "human")
    assert (
        label_system(human, ["task", "model", "max_new_tokens"], several_models=True) == "human, task=docs, length=96"
    )


def test_an_option_that_all_who_have_it_share_is_not_said(tmp_path):
    runs = [("greedy", {"axes": {"min_new_tokens": 0}}), ("nucleus", {"axes": {"min_new_tokens": 0}}), ("top_k", {})]
    labels = label_systems(models(items_of(tmp_path, *runs)))
    assert not any("min_new_tokens" in label for label in labels)
