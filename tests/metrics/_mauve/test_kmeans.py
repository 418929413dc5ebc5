"""k-means against plain Lloyd in NumPy: what it ends in is a fixed point, and the best of its starts."""

import numpy as np
import pytest

from openended.metrics._mauve.kmeans import kmeans, nearest


def plain(points, centroids):
    """One step of Lloyd's algorithm: labels and means."""
    points = points.astype(np.float64)
    squares = ((points[:, None] - centroids[None].astype(np.float64)) ** 2).sum(axis=2)
    labels = squares.argmin(axis=1)
    means = np.stack([points[labels == i].mean(axis=0) for i in range(len(centroids))])
    return labels, means, squares.min(axis=1).sum()


@pytest.mark.parametrize("start", [False, True])
def test_it_ends_in_a_fixed_point(start):
    points = np.random.default_rng(0).normal(size=(400, 6)).astype(np.float32)
    found = kmeans(points, 12, restarts=1 if start else 3, seed=27, start=points[:12] if start else None)
    labels, means, objective = plain(points, found)
    np.testing.assert_array_equal(nearest(points, found)[0], labels)
    np.testing.assert_allclose(found, means, atol=1e-5)
    # No start of its own does better than the best of several.
    if not start:
        alone = [plain(points, kmeans(points, 12, restarts=1, seed=27))[2]]
        assert objective <= min(alone) + 1e-3
    assert float(nearest(points, found)[1].sum()) == pytest.approx(objective, rel=1e-4)


def test_same_seed_same_cells():
    points = np.random.default_rng(1).normal(size=(3000, 5)).astype(np.float32)
    for k in (5, 30):  # 5: faiss thins the rows out
        once, again, other = (kmeans(points, k, restarts=2, seed=seed) for seed in (3, 3, 4))
        np.testing.assert_array_equal(once, again)
        assert not np.array_equal(once, other)


def test_copies_and_as_many_cells_as_rows():
    points = np.repeat(np.eye(3, dtype=np.float32), 2, axis=0)
    assert float(nearest(points, kmeans(points, 6, max_iter=5))[1].sum()) == pytest.approx(0, abs=1e-5)
    assert len(set(nearest(points, kmeans(points, 3, seed=1))[0])) <= 3


def test_wrong_counts_are_refused():
    points = np.eye(4, dtype=np.float32)
    for options in ({"restarts": 0}, {"max_iter": 0}):
        with pytest.raises(ValueError, match="max_iter"):
            kmeans(points, 2, **options)
