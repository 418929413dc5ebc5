import numpy as np
import pytest

from openended.harness.core.errors import UndefinedMetric
from openended.metrics.chamfer import Chamfer, chamfer
from tests.metrics.within_helpers import check_rows, run, sizes_of, vectors
from tests.oracles import diversity as oracle


def test_hand_value():
    """Distances 0.4, 1, 0.2: the least are 0.4, 0.2, 0.2."""
    rows = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0]])
    assert chamfer(rows, ["a", "a", "a"]) == pytest.approx(0.8 / 3)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_pair_after_pair(seed):
    ids = sizes_of(seed)
    rows = vectors(len(ids), seed)
    assert chamfer(rows, ids) == pytest.approx(oracle.over_prompts(oracle.chamfer, rows.tolist(), ids))


def test_meaning():
    ids = np.repeat([f"p/{i}" for i in range(20)], 5).tolist()
    centers = np.repeat(vectors(20, 1, 16), 5, axis=0)
    found = [chamfer(centers + s * vectors(100, 2, 16), ids) for s in (0.0, 0.3, 1.0, 5.0)]
    assert found == sorted(found)
    assert found[0] == pytest.approx(0, abs=1e-12)
    assert found[0] >= 0
    assert chamfer(np.array([[1.0, 0.0], [-2.0, 0.0]]), ["a", "a"]) == pytest.approx(2)


def test_falls_with_the_number_of_samples():
    rows = vectors(40, 1)
    found = [chamfer(rows[:n], ["p"] * n) for n in (5, 10, 20, 40)]
    assert found[0] > found[-1]


def test_edges():
    with pytest.raises(UndefinedMetric, match="samples=2"):
        chamfer(vectors(3), ["a", "b", "c"])
    with pytest.raises(UndefinedMetric, match="zero"):
        chamfer(np.array([[0.0, 0.0], [1.0, 0.0]]), ["a", "a"])


def test_the_metric_has_a_value_by_row():
    ids = sizes_of(3)
    check_rows(run(Chamfer(), ids, {"embeddings": vectors(len(ids), 3)}), "chamfer")
