import numpy as np
import pytest

from openended.harness.core.errors import DataError, SpecError, UndefinedMetric
from openended.harness.core.metric_spec import Need
from openended.metrics.distinct_k import DistinctK, distinct_k, distinct_k_by_threshold
from tests.metrics.within_helpers import check_rows, run, sizes_of, vectors
from tests.oracles import diversity as oracle


def test_hand_value():
    """a: yes, no; b: yes: (2 + 1) / 2."""
    assert distinct_k(["yes", "no", "yes", "yes", "yes"], ["a", "a", "a", "b", "b"]) == 1.5


def test_a_chain_is_one_class():
    angles = np.deg2rad([0, 30, 60, 180])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert distinct_k_by_threshold(rows, ["p"] * 4, threshold=0.85) == 2  # cos 30° = 0.87; cos 60° = 0.5
    assert distinct_k_by_threshold(rows, ["p"] * 4, threshold=0.9) == 4
    assert distinct_k_by_threshold(rows[[3, 0, 2, 1]], ["p"] * 4, threshold=0.85) == 2


@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_a_walk_and_with_sets(seed):
    ids = sizes_of(seed)
    rows = vectors(len(ids), seed)
    for threshold in (0.2, 0.7, 0.95):
        expected = oracle.over_prompts(lambda g, t=threshold: oracle.classes(g, t), rows.tolist(), ids)
        assert distinct_k_by_threshold(rows, ids, threshold=threshold) == pytest.approx(expected)
    words = np.random.default_rng(seed).integers(0, 3, len(ids)).tolist()
    assert distinct_k(words, ids) == pytest.approx(oracle.over_prompts(lambda g: len(set(g)), words, ids))


def test_edges():
    with pytest.raises(UndefinedMetric, match="samples=2"):
        distinct_k(["x", "y"], ["a", "b"])
    with pytest.raises(SpecError, match="threshold"):
        DistinctK(threshold=2.0)
    assert distinct_k_by_threshold(np.ones((6, 3)), ["p"] * 6) == 1


def test_the_metric_under_each_partition(tmp_path):
    ids = ["a", "b", "a", "b", "a"]
    exact = run(DistinctK(), ids, {"texts": ["x", "y", "x ", "y", "x"]})
    assert exact.values == {"distinct_k": 1.5, "distinct_share": pytest.approx((2 / 3 + 1 / 2) / 2)}
    check_rows(exact, "distinct_k")
    near = run(
        DistinctK(partition="threshold"), ids, {"embeddings": np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]])}
    )
    assert near.values["distinct_k"] == 2
    spec = DistinctK(partition="file")
    path = tmp_path / "classes.csv"
    # Samples are counted in the order of the rows: a has the rows 0, 2, 4.
    path.write_text("example_id,sample,class\na,0,u\na,1,v\na,2,w\nb,0,u\nb,1,u\n")
    told = run(spec, ids, {"texts": ["x"] * 5, "judgments": spec.read(path)})
    assert told.values["distinct_k"] == 2
    path.write_text("example_id,number,class\na,0,u\nb,0,u\n")
    with pytest.raises(DataError, match="no class for sample 1 of a"):
        run(spec, ids, {"texts": ["x"] * 5, "judgments": spec.read(path, {"sample": "number"})})
    assert Need("judgments", by="file") in spec.needs()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("example_id,class\na,u\n", "no column sample"),
        ("example_id,sample,class\na,0.5,u\n", "expected 0, 1, 2"),
        ("example_id,sample,class\na,,u\n", "expected 0, 1, 2"),
        ("example_id,sample,class\na,0,u\na,0,v\n", "comes twice"),
        ("example_id,sample,class\na,0,\n", "'class' is empty"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(text, said, tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=said) as caught:
        DistinctK(partition="file").read(path)
    assert "classes.csv" in str(caught.value)
    assert "\n" not in str(caught.value)
