"""k-means by faiss, as mauve-text calls it, and residual k-means; without faiss scikit-learn clusters.

faiss has the same starts, the same empty clusters and the same choice among the restarts as in mauve-text, and trains
on at most 256 rows per centroid. Where faiss sees a GPU, it clusters there. The cells of a GPU and of scikit-learn
differ, and a field of the signature says so. In residual k-means each level clusters the residuals of the level
before; a cell is one code per level.

Source: Juang and Gray 1982, "Multiple stage vector quantization for speech coding"; Arthur and Vassilvitskii 2007,
"k-means++: the advantages of careful seeding" (starts, with several candidates per step).
"""

import importlib.util
import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import F64, I64, Floats, make_random_stream

F32 = NDArray[np.float32]

LEVELS = 3  # the paper's DRMM
_MAX_POINTS = 256  # faiss's own


def has_faiss() -> bool:
    return importlib.util.find_spec("faiss") is not None


def describe_library() -> Mapping[str, str]:
    """Return the field of the signature that names the library; none for the published one, faiss on the CPU."""
    return {"kmeans": "faiss on a GPU"} if has_gpu() else {} if has_faiss() else {"kmeans": "scikit-learn"}


def has_gpu() -> bool:
    """Return whether faiss is installed and sees a GPU, on which it then clusters."""
    if not has_faiss():
        return False
    import faiss

    return bool(faiss.get_num_gpus() > 0)


def kmeans(
    points: F32, k: int, *, restarts: int = 5, max_iter: int = 500, seed: int = 0, start: F32 | None = None
) -> F32:
    """Return the centroids of the best restart, shape (k, d); with `start` centroids, all rows are read."""
    points = np.ascontiguousarray(points, dtype=np.float32)
    if not has_faiss():
        return _cluster_by_sklearn(points, k, restarts, max_iter, seed, start)
    import faiss

    most = _MAX_POINTS if start is None else len(points)
    options = {"min_points_per_centroid": 1, "max_points_per_centroid": most, "gpu": has_gpu()}
    clustering = faiss.Kmeans(points.shape[1], k, niter=max_iter, nredo=restarts, seed=seed, **options)
    clustering.train(points, init_centroids=start)
    return np.asarray(clustering.centroids, dtype=np.float32)


def _cluster_by_sklearn(points: F32, k: int, restarts: int, max_iter: int, seed: int, start: F32 | None) -> F32:
    """Cluster as `kmeans` does, on as many rows, by scikit-learn's Lloyd iterations."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if start is None and len(points) > _MAX_POINTS * k:
        chosen = np.random.default_rng(seed).choice(len(points), _MAX_POINTS * k, replace=False)
        points = points[np.sort(chosen)]
    init, n_init = ("random", restarts) if start is None else (start, 1)
    clustering = KMeans(k, init=init, n_init=n_init, max_iter=max_iter, random_state=seed, tol=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than cells leave cells empty
        clustering.fit(points)
    return np.asarray(clustering.cluster_centers_, dtype=np.float32)


def nearest(points: F32, centroids: F32) -> tuple[I64, F32]:
    """Return index of and squared distance to the nearest centroid of each row; the lower index where two are equal."""
    points = np.ascontiguousarray(points, dtype=np.float32)
    if not has_faiss():
        from sklearn.metrics import pairwise_distances_argmin_min

        cells, distances = pairwise_distances_argmin_min(points, centroids, metric="sqeuclidean")
        return cells.astype(np.int64), distances.astype(np.float32)
    import faiss

    index = faiss.IndexFlatL2(points.shape[1])
    index.add(centroids)
    distances, labels = index.search(points, 1)
    return labels[:, 0], distances[:, 0]


def residual_kmeans(points: F32, codes: int, *, restarts: int, max_iter: int, seed: int) -> list[F32]:
    """Fit all levels, one after the other; return the centroids of each, shape (codes, d)."""
    levels, rest = [], np.ascontiguousarray(points, dtype=np.float32)
    for level in range(LEVELS):
        runs = []
        for restart in range(restarts):
            chosen = choose_distant_rows(rest, codes, make_random_stream(seed, "residual_kmeans", level, restart))
            centroids = kmeans(rest, codes, restarts=1, max_iter=max_iter, start=rest[chosen])
            labels, squares = nearest(rest, centroids)
            runs.append((float(np.sum(squares, dtype=np.float64)), centroids, labels))
        _, centroids, labels = min(runs, key=lambda run: run[0])
        rest = rest - centroids[labels]
        levels.append(centroids)
    return levels


def residual_cells(points: F32, levels: Sequence[F32]) -> I64:
    """Return the cell of each row: its codes as the digits of a number."""
    cells, rest = np.zeros(len(points), dtype=np.int64), points
    for centroids in levels:
        labels = nearest(rest, centroids)[0]
        cells = cells * len(centroids) + labels
        rest = rest - centroids[labels]
    return cells


def choose_distant_rows(points: Floats, count: int, stream: np.random.Generator) -> I64:
    """Draw rows that are far from each other: by squared distance to those drawn, the best of a few candidates each."""
    squares = np.einsum("ij,ij->i", points, points, dtype=np.float64)

    def squared_distances_to(rows: Sequence[int] | I64) -> F64:
        products = (points @ points[rows].T).astype(np.float64)
        gaps = np.maximum(squares[:, None] - 2 * products + squares[rows], 0.0)
        # Rounding must leave nothing between a row and itself.
        return np.where(gaps <= 1e-6 * (squares[:, None] + squares[rows]), 0.0, gaps)

    chosen = [int(stream.integers(len(points)))]
    apart = squared_distances_to(chosen)[:, 0]
    while len(chosen) < count:
        sums = np.cumsum(apart)
        positions = stream.random(2 + int(np.log(count))) * sums[-1]
        candidates = np.searchsorted(sums, positions).clip(max=len(points) - 1)
        nearer = np.minimum(apart[:, None], squared_distances_to(candidates))
        best = int(np.argmin(nearer.sum(axis=0)))
        chosen.append(int(candidates[best]))
        apart = nearer[:, best]
    return np.array(chosen, dtype=np.int64)
