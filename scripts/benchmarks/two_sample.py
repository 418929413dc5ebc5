"""Two-sample metrics on embeddings, against the packages that people use for them."""

from __future__ import annotations

import atexit
import contextlib
import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scripts.benchmarks._work import Work, max_gap

Pair = tuple[NDArray[Any], NDArray[Any]]
MAUVE_VALUES = ("mauve", "mauve_star", "frontier_integral", "frontier_integral_star")


def embeddings(n: int, dim: int, seed: int = 5) -> Pair:
    """Two sides around n / 5 centres with falling variances; the model misses a fifth of the centres."""
    rng = np.random.default_rng(seed)
    scale = np.linspace(1, 0.05, dim)
    centres = 3 * rng.normal(size=(max(n // 5, 2), dim)) * scale
    human = centres[rng.integers(0, len(centres), n)] + rng.normal(size=(n, dim)) * scale
    model = centres[rng.integers(0, len(centres) * 4 // 5, n)] + 1.1 * rng.normal(size=(n, dim)) * scale
    return human.astype(np.float32), model.astype(np.float32)


def mapped(n: int, dim: int) -> Pair:
    """The same in memory-mapped files, written block by block."""
    rng = np.random.default_rng(5)
    folder = Path(tempfile.mkdtemp(prefix="openended-bench-"))
    centres = 3 * rng.normal(size=(2000, dim)) * np.linspace(1, 0.05, dim)
    for side, share in (("human", 2000), ("model", 1600)):
        out = np.lib.format.open_memmap(folder / f"{side}.npy", "w+", np.float32, (n, dim))
        for start in range(0, n, 5000):
            rows = min(5000, n - start)
            out[start : start + rows] = centres[rng.integers(0, share, rows)] + rng.normal(size=(rows, dim))
        out.flush()
    pair = (np.load(folder / "human.npy", mmap_mode="r"), np.load(folder / "model.npy", mmap_mode="r"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return pair


def our_mauve(pair: Pair) -> dict[str, float]:
    """Run the library's function."""
    from openended.metrics.mauve import mauve

    found = mauve(human=pair[0], model=pair[1])
    return {name: float(found[name]) for name in MAUVE_VALUES}


def peer_mauve(pair: Pair) -> dict[str, float]:
    """Run mauve-text."""
    import mauve

    found = mauve.compute_mauve(p_features=pair[0], q_features=pair[1], verbose=False)
    return {name: float(getattr(found, name)) for name in MAUVE_VALUES}


def our_knn(pair: Pair) -> dict[str, float]:
    """Run the library's function on raw rows."""
    from openended.metrics.knn_precision_recall import knn_precision_recall

    return dict(knn_precision_recall(human=pair[0], model=pair[1], k=4, explained_variance=None))


def peer_knn(pair: Pair) -> dict[str, float]:
    """Run prdc."""
    import prdc

    with contextlib.redirect_stdout(io.StringIO()):
        found = prdc.compute_prdc(real_features=pair[0], fake_features=pair[1], nearest_k=4)
    return {name: float(value) for name, value in found.items()}


def our_frechet(pair: Pair) -> dict[str, float]:
    """Run the library's function."""
    from openended.metrics.frechet import frechet_distance

    return {"frechet": frechet_distance(human=pair[0], model=pair[1])}


def peer_frechet(pair: Pair) -> dict[str, float]:
    """Run the usual route: NumPy covariances and scipy's square root of their product."""
    from scipy.linalg import sqrtm

    human, model = (side.astype(np.float64) for side in pair)
    a, b = np.cov(human, rowvar=False), np.cov(model, rowvar=False)
    gap = human.mean(axis=0) - model.mean(axis=0)
    root = np.trace(sqrtm(a @ b)).real
    return {"frechet": float(gap @ gap + np.trace(a) + np.trace(b) - 2 * root)}


def relative_gap(ours: dict[str, float], peer: dict[str, float]) -> str:
    """Say the relative difference of the distance."""
    gap = abs(ours["frechet"] - peer["frechet"]) / abs(peer["frechet"])
    return f"{ours['frechet']:.6g}, ≤ {gap:.0e} relative"


def both_scores(ours: dict[str, float], peer: dict[str, float]) -> str:
    """Say both scores and the largest difference."""
    return f"MAUVE {ours['mauve']:.6f} / {peer['mauve']:.6f}, {max_gap(ours, peer)}"


def score(ours: dict[str, float]) -> str:
    """Say our score."""
    return f"MAUVE {ours['mauve']:.6f}"


def _load(*modules: str) -> None:
    import importlib

    for module in modules:
        importlib.import_module(module)


def prepared(n: int, dim: int, *modules: str) -> Any:  # noqa: ANN401 - a function without arguments
    """Make the data and import the libraries, untimed."""

    def prepare() -> Pair:
        _load(*modules)
        return embeddings(n, dim)

    return prepare


def prepared_map(n: int, dim: int) -> Any:  # noqa: ANN401 - a function without arguments
    """Make memory-mapped data, untimed."""

    def prepare() -> Pair:
        _load(*_OURS)
        return mapped(n, dim)

    return prepare


_OURS = ("openended.metrics.mauve", "faiss", "scipy.sparse", "scipy.linalg")
_MAUVE = {"ours": our_mauve, "agree": both_scores, "peer_needs": ("mauve", "faiss"), "clock": "cpu", "threads": 1}
_KNN = {"ours": our_knn, "agree": max_gap, "peer": peer_knn, "peer_needs": ("prdc",), "clock": "cpu", "threads": 1}

WORKS: list[Work] = [
    Work(
        name="mauve, 5,000 + 5,000 × 1,280, k = 500",
        against="mauve-text 0.4.0",
        peer=peer_mauve,
        prepare=prepared(5000, 1280, *_OURS),
        prepare_peer=prepared(5000, 1280, "mauve", "faiss", "sklearn.decomposition"),
        repeats=1,
        **_MAUVE,
    ),
    Work(
        name="mauve, 500 + 500 × 256, k = 50",
        against="mauve-text 0.4.0",
        peer=peer_mauve,
        prepare=prepared(500, 256, *_OURS),
        prepare_peer=prepared(500, 256, "mauve", "faiss", "sklearn.decomposition"),
        **_MAUVE,
    ),
    Work(
        name="knn_precision_recall, 4,000 + 4,000 × 150",
        against="prdc 0.2",
        at_least=2,
        prepare=prepared(4000, 150, "openended.metrics.knn_precision_recall", "scipy.linalg"),
        prepare_peer=prepared(4000, 150, "prdc"),
        **_KNN,
    ),
    Work(
        name="knn_precision_recall, 20,000 + 20,000 × 150",
        against="prdc 0.2",
        at_least=3,
        at_most_mib=600,
        prepare=prepared(20000, 150, "openended.metrics.knn_precision_recall", "scipy.linalg"),
        prepare_peer=prepared(20000, 150, "prdc"),
        repeats=1,
        **_KNN,
    ),
    Work(
        name="frechet, 5,000 + 5,000 × 1,280",
        against="scipy sqrtm",
        at_least=5,
        ours=our_frechet,
        peer=peer_frechet,
        agree=relative_gap,
        prepare=prepared(5000, 1280, "openended.metrics.frechet", "scipy.linalg"),
        prepare_peer=prepared(5000, 1280, "scipy.linalg"),
        clock="cpu",
        threads=1,
    ),
    *(
        Work(
            name=f"mauve, {n:,} + {n:,} × 1,280, k = 500, memory-mapped",
            ours=our_mauve,
            prepare=prepared_map(n, 1280),
            say=score,
            at_most_mib=12 * 1024,
            repeats=1,
        )
        for n in (10_000, 30_000, 100_000)
    ),
]
