"""The search with bounds against a full search in every iteration, which is Lloyd's algorithm as faiss runs it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openended.metrics import _kmeans
from openended.metrics._assignment import FullSearch, Search, nearest
from openended.metrics._kmeans import kmeans, lloyd


def spread(rng, n, d):
    return rng.normal(size=(n, d))


def clustered(rng, n, d):
    return 5 * rng.normal(size=(12, d))[rng.integers(0, 12, n)] + rng.normal(size=(n, d))


def duplicated(rng, n, d):
    return rng.normal(size=(n // 5, d))[rng.integers(0, n // 5, n)]


def tied(rng, n, d):
    """Corners of a small grid: most rows are exactly as far from several centroids."""
    return rng.integers(0, 2, size=(n, d)).astype(float)


def distant(rng, n, d):
    """Far from the origin, where the rounding of products is large beside the distances."""
    return 300 + rng.normal(size=(n, d))


def falling(rng, n, d):
    """Unit rows with falling variances, as after PCA."""
    rows = rng.normal(size=(n, d)) * np.linspace(1, 0.05, d)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


KINDS = [spread, clustered, duplicated, tied, distant, falling]


class Watched:
    """A search that is compared with the full one at every call."""

    def __init__(self, points, search):
        self.points, self.search, self.calls = points, search, 0

    def labels(self, centroids):
        got, (want, distances) = self.search.labels(centroids), nearest(self.points, centroids)
        for i in np.flatnonzero(got != want):
            # faiss answers a few rows alone with other last bits than among all: only exact ties may part.
            a, b = (
                float(np.sum((self.points[i].astype(float) - centroids[j].astype(float)) ** 2))
                for j in (got[i], want[i])
            )
            scale = float(np.sum(self.points[i].astype(float) ** 2)) + float(distances[i])
            assert abs(a - b) <= 1e-6 * scale
        self.calls += 1
        return got


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 10_000), st.integers(40, 400), st.integers(1, 24), st.integers(1, 40))
def test_labels_are_those_of_a_full_search_in_every_iteration(make, seed, n, d, k):
    rng = np.random.default_rng(seed)
    points = make(rng, n, d).astype(np.float32)
    watched = Watched(points, Search(points))
    lloyd(points, points[rng.permutation(n)[: min(k, n)]], 60, watched)
    assert watched.calls >= 1


@pytest.mark.parametrize("make", KINDS)
def test_runs_equal_plain_lloyd(make, monkeypatch):
    """Centroids, objective and iterations of all restarts, bit for bit."""
    points = make(np.random.default_rng(3), 900, 16).astype(np.float32)
    pruned = kmeans(points, 60, restarts=4, max_iter=80, seed=27)

    class Plain(FullSearch):
        def objective(self):
            return 0.0, np.inf

    monkeypatch.setattr(_kmeans, "Search", Plain)
    plain = kmeans(points, 60, restarts=4, max_iter=80, seed=27)
    np.testing.assert_array_equal(pruned.assign(points), plain.assign(points))
    assert (pruned.objective, pruned.iterations) == (plain.objective, plain.iterations)
    np.testing.assert_array_equal(pruned.centroids, plain.centroids)


def test_bounds_save_most_of_the_work(monkeypatch):
    """Rows looked at in full, over all iterations: a test of the saving that no clock can disturb."""
    points = clustered(np.random.default_rng(0), 3000, 16).astype(np.float32)
    looked = []
    whole = Search._choose
    monkeypatch.setattr(
        Search, "_choose", lambda self, rows, squares: (looked.append(len(rows)), whole(self, rows, squares))
    )
    search = Search(points)
    run = lloyd(points, points[:100], 500, search)
    assert run.fixed
    assert run.iterations > 8
    assert sum(looked) < len(points) * run.iterations / 2


def test_search_remembers_no_table():
    search = Search(np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32))
    search.labels(np.zeros((50, 4), dtype=np.float32) + np.arange(50, dtype=np.float32)[:, None])
    kept = [value for value in vars(search).values() if isinstance(value, np.ndarray)]
    assert all(value.size <= 500 * 4 for value in kept)


def test_blocks_do_not_change_labels(monkeypatch):
    points = falling(np.random.default_rng(1), 800, 12).astype(np.float32)
    whole = kmeans(points, 40, restarts=2)
    monkeypatch.setattr("openended.metrics._assignment._BLOCK", 1500)
    parts = kmeans(points, 40, restarts=2)
    np.testing.assert_array_equal(whole.assign(points), parts.assign(points))


def test_objective_has_an_honest_error():
    points = spread(np.random.default_rng(2), 600, 20).astype(np.float32)
    search = Search(points)
    labels = search.labels(points[:30])
    about, error = search.objective()
    exact = float(np.sum((points.astype(float) - points[:30].astype(float)[labels]) ** 2))
    assert abs(about - exact) <= error
    assert error < 0.01 * exact


def test_known_labels_are_those_of_assign():
    points = clustered(np.random.default_rng(4), 500, 8).astype(np.float32)
    found = kmeans(points, 20)
    np.testing.assert_array_equal(found.labels, found.assign(points))
    # Not known where the rows were thinned out, or where the iterations ran out before a fixed point.
    assert kmeans(points, 1).labels is None
    assert kmeans(spread(np.random.default_rng(4), 500, 8).astype(np.float32), 20, max_iter=1).labels is None


def test_wrong_counts_are_refused():
    points = np.eye(4, dtype=np.float32)
    with pytest.raises(ValueError, match="restarts"):
        kmeans(points, 2, restarts=0)
    with pytest.raises(ValueError, match="max_iter"):
        kmeans(points, 2, max_iter=0)


def test_empty_cells_are_filled_with_faiss_own_draws():
    """The draws made at once are those of the generator one by one, also beyond the first page."""
    import faiss

    generator = faiss.RandomGenerator(1234)
    one_by_one = np.array([generator.rand_float() for _ in range(6000)], dtype=np.float32)
    np.testing.assert_array_equal(_kmeans._draws(4090, 1910), one_by_one[4090:])
    # n = k: every chance is 0 / 0 or infinite, and a copied row leaves cells empty.
    points = np.repeat(np.eye(3, dtype=np.float32), 2, axis=0)
    assert kmeans(points, 6, max_iter=5).objective == pytest.approx(0, abs=1e-5)
