"""k-means by faiss, as mauve-text calls it: same starts, same empty clusters, same choice among the restarts.

faiss trains on at most 256 rows a centroid, drawn with the seed. From 1.15 on a restart stops where its objective
stands still; older ones always run all iterations. Without faiss scikit-learn clusters: the starts and the cells are
others, and a field of the signature says so.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from openended.harness.core import I64

F32 = NDArray[np.float32]

_MAX_POINTS = 256  # faiss's own


def has_faiss() -> bool:
    """Return whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def describe_library() -> Mapping[str, str]:
    """Return the field of the signature that names the library; none for faiss, which is the published one."""
    return {} if has_faiss() else {"kmeans": "scikit-learn"}


@dataclass(frozen=True, slots=True, eq=False)
class KMeansFit:
    """The best of all restarts."""

    centroids: F32
    """Shape (k, d)."""

    def assign(self, points: F32) -> I64:
        """Return the nearest centroid of each row."""
        return nearest(points, self.centroids)[0]


def kmeans(
    points: F32, k: int, *, restarts: int = 5, max_iter: int = 500, seed: int = 0, start: F32 | None = None
) -> KMeansFit:
    """Cluster rows into k cells."""
    if min(restarts, max_iter) < 1:
        raise ValueError(f"restarts, max_iter: expected at least 1, got {restarts}, {max_iter}")
    points = np.ascontiguousarray(points, dtype=np.float32)
    if not has_faiss():
        return _cluster_by_sklearn(points, k, restarts, max_iter, seed, start)
    import faiss

    most = _MAX_POINTS if start is None else len(points)
    clustering = faiss.Kmeans(
        points.shape[1],
        k,
        niter=max_iter,
        nredo=restarts,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=most,
    )
    clustering.train(points, init_centroids=start)
    return KMeansFit(np.asarray(clustering.centroids, dtype=np.float32))


def _cluster_by_sklearn(points: F32, k: int, restarts: int, max_iter: int, seed: int, start: F32 | None) -> KMeansFit:
    """Cluster as `kmeans` does, on as many rows, by scikit-learn's Lloyd iterations."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    if start is None and len(points) > _MAX_POINTS * k:
        chosen = np.random.default_rng(seed).choice(len(points), _MAX_POINTS * k, replace=False)
        points = points[np.sort(chosen)]
    clustering = KMeans(
        n_clusters=k, init="random" if start is None else start, n_init=restarts if start is None else 1,
        max_iter=max_iter, random_state=seed, tol=0.0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than cells leave cells empty
        clustering.fit(points)
    return KMeansFit(np.asarray(clustering.cluster_centers_, dtype=np.float32))


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
