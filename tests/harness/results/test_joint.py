"""Differences of systems from one space, from the embeddings that runs leave in the store."""

import shutil

import pytest

from openended.harness.core import combine_replicates
from openended.harness.report.analysis.paired import compare_values, describe_estimates
from openended.harness.results import find_joint_space, load_replicates, read_results, select_values
from tests.harness.run import small
from tests.helpers import openended, write_jsonl

WORDS = ("num_examples=12", "human_examples=all", "metric=[mauve,kid]")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two systems of 12 texts; the task holds 30: 12 with prompts, 12 of the ceiling, 6 more."""
    folder = tmp_path_factory.mktemp("joint")
    text = " raise an error if the number {} is too large, or return it.".format
    rows = [{"prompt": f"Return {i} and", "human": text(i) * (1 + i % 3)} for i in range(30)]
    write_jsonl(folder / "own.jsonl", rows)
    for decoder in ("greedy", "ancestral"):
        small.measured(folder, f"decoder={decoder}", *WORDS)
    return folder / "out"


@pytest.mark.slow
def test_differences_rest_on_all_human_texts_and_are_kept_in_the_store(runs):
    results = read_results([runs / "runs"])
    first, second = select_values(results.values, "kid", "kid")
    space = find_joint_space(results, first)
    assert (space.reason, space.num_systems, space.num_human, space.num_clusterings) == ("", 2, 30, 0)
    test = compare_values(results, results.values, first, second)
    assert test is not None
    assert test.difference == pytest.approx(space.estimate(first)[0] - space.estimate(second)[0])
    assert test.difference != pytest.approx(first.mean - second.mean), "the printed values have 12 human texts"
    own = combine_replicates((1.0, -1.0), [load_replicates(results, item) for item in (first, second)])
    assert test.p_value != own.p_value(first.mean - second.mean)

    kept = sorted((runs / "store" / "measure").glob("*/*"))
    again = read_results([runs / "runs"])
    assert compare_values(again, again.values, *select_values(again.values, "kid", "kid")) == test
    assert sorted((runs / "store" / "measure").glob("*/*")) == kept, "it is read, not computed again"
    (mauve, *_) = select_values(results.values, "mauve", "mauve")
    (line,), _ = describe_estimates(results, [first, mauve])
    assert line.startswith(
        "Differences of kid, mauve (30 clusterings) rest on one space of 2 sets of texts and 30 human"
    )
    words = ("power", "runs", "--outputs", str(runs), "--difference", "0.5", "--metrics", "kid")
    done = openended(*words, cwd=runs, verbose=False, code=0)
    assert f"{test.difference:+.3g} with 12 texts" in done.stdout
    assert "0.5 needs" in done.stdout
    assert "tokens" in done.stdout


@pytest.mark.slow
def test_without_embeddings_the_printed_values_are_compared_and_a_line_says_so(runs, tmp_path):
    copy = tmp_path / "out"
    shutil.copytree(runs, copy)
    shutil.rmtree(copy / "store" / "embed")
    results = read_results([copy / "runs"])
    first, second = select_values(results.values, "kid", "kid")
    test = compare_values(results, results.values, first, second)
    assert test is not None
    assert test.difference == first.mean - second.mean
    (line,), _ = describe_estimates(results, [first])
    assert line.endswith("rest on each system's own values, which resolve less: its embeddings are not stored.")
