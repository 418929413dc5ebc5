import numpy as np
import pytest

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.prompt_similarity import prompt_similarity
from openended.metrics.remote_clique import RemoteClique, remote_clique
from tests.metrics.within_helpers import check_rows, run, sizes_of, vectors
from tests.oracles import diversity as oracle


def test_hand_value():
    """Cosines 0.6, 0, 0.8: distances 0.4, 1, 0.2, mean 1.6 / 3."""
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0]])
    assert remote_clique(rows, ["a", "a", "a"]) == pytest.approx(1.6 / 3)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pair_after_pair(seed):
    ids = sizes_of(seed)
    rows = vectors(len(ids), seed)
    assert remote_clique(rows, ids) == pytest.approx(oracle.over_prompts(oracle.remote_clique, rows.tolist(), ids))


def test_meaning():
    ids = np.repeat([f"p/{i}" for i in range(20)], 5).tolist()
    centers = np.repeat(vectors(20, 1, 16), 5, axis=0)
    found = [remote_clique(centers + s * vectors(100, 2, 16), ids) for s in (0.0, 0.3, 1.0, 5.0)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(0, abs=1e-12)
    assert found[0] >= 0
    assert remote_clique(np.array([[1.0, 0.0], [-2.0, 0.0]]), ["a", "a"]) == pytest.approx(2)


def test_is_one_minus_the_similarity():
    ids = sizes_of(9)
    rows = vectors(len(ids), 9)
    assert remote_clique(rows, ids) == pytest.approx(1 - prompt_similarity(rows, ids)["prompt_similarity"])


def test_edges():
    with pytest.raises(UndefinedMetric, match="samples=2"):
        remote_clique(vectors(3), ["a", "b", "c"])
    with pytest.raises(UndefinedMetric, match="zero"):
        remote_clique(np.array([[0.0, 0.0], [1.0, 0.0]]), ["a", "a"])


def test_the_metric_has_a_value_by_row():
    ids = sizes_of(3)
    check_rows(run(RemoteClique(), ids, {"embeddings": vectors(len(ids), 3)}), "remote_clique")
