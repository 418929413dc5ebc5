"""Time two-sample metrics on embeddings against the usual packages."""

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

from scripts.benchmarks._work import Benchmark, format_max_gap

Pair = tuple[NDArray[Any], NDArray[Any]]
MAUVE_VALUES = ("mauve", "mauve_star", "frontier_integral", "frontier_integral_star")


def sample_embeddings(n: int, dim: int, seed: int = 5) -> Pair:
    """Sample two sides around n / 5 centers with decreasing variances; the model misses a fifth of the centers."""
    rng = np.random.default_rng(seed)
    scale = np.linspace(1, 0.05, dim)
    centers = 3 * rng.normal(size=(max(n // 5, 2), dim)) * scale
    human = centers[rng.integers(0, len(centers), n)] + rng.normal(size=(n, dim)) * scale
    model = centers[rng.integers(0, len(centers) * 4 // 5, n)] + 1.1 * rng.normal(size=(n, dim)) * scale
    return human.astype(np.float32), model.astype(np.float32)


def write_mapped(n: int, dim: int) -> Pair:
    """Write such embeddings to memory-mapped files, block by block."""
    rng = np.random.default_rng(5)
    folder = Path(tempfile.mkdtemp(prefix="openended-bench-"))
    centers = 3 * rng.normal(size=(2000, dim)) * np.linspace(1, 0.05, dim)
    for side, share in (("human", 2000), ("model", 1600)):
        out = np.lib.format.open_memmap(folder / f"{side}.npy", "w+", np.float32, (n, dim))
        for start in range(0, n, 5000):
            rows = min(5000, n - start)
            out[start : start + rows] = centers[rng.integers(0, share, rows)] + rng.normal(size=(rows, dim))
        out.flush()
    pair = (np.load(folder / "human.npy", mmap_mode="r"), np.load(folder / "model.npy", mmap_mode="r"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return pair


def harness_mauve(pair: Pair) -> dict[str, float]:
    """Run the function of the harness."""
    from openended.metrics.mauve import mauve

    result = mauve(human=pair[0], model=pair[1])
    return {name: float(result[name]) for name in MAUVE_VALUES}


def peer_mauve(pair: Pair) -> dict[str, float]:
    """Run mauve-text."""
    import mauve

    result = mauve.compute_mauve(p_features=pair[0], q_features=pair[1], verbose=False)
    return {name: float(getattr(result, name)) for name in MAUVE_VALUES}


def harness_knn(pair: Pair) -> dict[str, float]:
    """Run the function of the harness on raw rows."""
    from openended.metrics.knn_precision_recall import knn_precision_recall

    return dict(knn_precision_recall(human=pair[0], model=pair[1], k=4, explained_variance=None))


def peer_knn(pair: Pair) -> dict[str, float]:
    """Run prdc."""
    import prdc

    with contextlib.redirect_stdout(io.StringIO()):
        result = prdc.compute_prdc(real_features=pair[0], fake_features=pair[1], nearest_k=4)
    return {name: float(value) for name, value in result.items()}


def harness_frechet(pair: Pair) -> dict[str, float]:
    """Run the function of the harness."""
    from openended.metrics.frechet import frechet_distance

    return {"frechet": frechet_distance(human=pair[0], model=pair[1])}


def peer_frechet(pair: Pair) -> dict[str, float]:
    """Compute the usual way: NumPy covariances and SciPy's square root of their product."""
    from scipy.linalg import sqrtm

    human, model = (side.astype(np.float64) for side in pair)
    a, b = np.cov(human, rowvar=False), np.cov(model, rowvar=False)
    gap = human.mean(axis=0) - model.mean(axis=0)
    root = np.trace(sqrtm(a @ b)).real
    return {"frechet": float(gap @ gap + np.trace(a) + np.trace(b) - 2 * root)}


def format_relative_gap(harness: dict[str, float], peer: dict[str, float]) -> str:
    """Format the relative difference of the distances."""
    gap = abs(harness["frechet"] - peer["frechet"]) / abs(peer["frechet"])
    return f"{harness['frechet']:.6g}, ≤ {gap:.0e} relative"


def format_scores(harness: dict[str, float], peer: dict[str, float]) -> str:
    """Format both scores and the largest difference."""
    return f"MAUVE {harness['mauve']:.6f} / {peer['mauve']:.6f}, {format_max_gap(harness, peer)}"


def format_score(harness: dict[str, float]) -> str:
    """Format the score of the harness."""
    return f"MAUVE {harness['mauve']:.6f}"


def _load(*modules: str) -> None:
    import importlib

    for module in modules:
        importlib.import_module(module)


def build_prepare(n: int, dim: int, *modules: str) -> Any:  # noqa: ANN401 - a function without arguments
    """Return a function that makes the data and imports the libraries, untimed."""

    def prepare() -> Pair:
        _load(*modules)
        return sample_embeddings(n, dim)

    return prepare


def build_mapped_prepare(n: int, dim: int) -> Any:  # noqa: ANN401 - a function without arguments
    """Return a function that makes memory-mapped data, untimed."""

    def prepare() -> Pair:
        _load(*_HARNESS_MODULES)
        return write_mapped(n, dim)

    return prepare


_HARNESS_MODULES = ("openended.metrics.mauve", "faiss", "scipy.sparse", "scipy.linalg")
_MAUVE = {
    "harness": harness_mauve,
    "agree": format_scores,
    "peer_needs": ("mauve", "faiss"),
    "clock": "cpu",
    "threads": 1,
}
_KNN = {
    "harness": harness_knn,
    "agree": format_max_gap,
    "peer": peer_knn,
    "peer_needs": ("prdc",),
    "clock": "cpu",
    "threads": 1,
}

WORKS: list[Benchmark] = [
    Benchmark(
        name="mauve, 5,000 + 5,000 × 1,280, k = 500",
        against="mauve-text 0.4.0",
        peer=peer_mauve,
        prepare=build_prepare(5000, 1280, *_HARNESS_MODULES),
        prepare_peer=build_prepare(5000, 1280, "mauve", "faiss", "sklearn.decomposition"),
        repeats=1,
        **_MAUVE,
    ),
    Benchmark(
        name="mauve, 500 + 500 × 256, k = 50",
        against="mauve-text 0.4.0",
        peer=peer_mauve,
        prepare=build_prepare(500, 256, *_HARNESS_MODULES),
        prepare_peer=build_prepare(500, 256, "mauve", "faiss", "sklearn.decomposition"),
        **_MAUVE,
    ),
    Benchmark(
        name="knn_precision_recall, 4,000 + 4,000 × 150",
        against="prdc 0.2",
        at_least=2,
        prepare=build_prepare(4000, 150, "openended.metrics.knn_precision_recall", "scipy.linalg"),
        prepare_peer=build_prepare(4000, 150, "prdc"),
        **_KNN,
    ),
    Benchmark(
        name="knn_precision_recall, 20,000 + 20,000 × 150",
        against="prdc 0.2",
        at_least=3,
        at_most_mib=600,
        prepare=build_prepare(20000, 150, "openended.metrics.knn_precision_recall", "scipy.linalg"),
        prepare_peer=build_prepare(20000, 150, "prdc"),
        repeats=1,
        **_KNN,
    ),
    Benchmark(
        name="frechet, 5,000 + 5,000 × 1,280",
        against="scipy sqrtm",
        at_least=5,
        harness=harness_frechet,
        peer=peer_frechet,
        agree=format_relative_gap,
        prepare=build_prepare(5000, 1280, "openended.metrics.frechet", "scipy.linalg"),
        prepare_peer=build_prepare(5000, 1280, "scipy.linalg"),
        clock="cpu",
        threads=1,
    ),
    *(
        Benchmark(
            name=f"mauve, {n:,} + {n:,} × 1,280, k = 500, memory-mapped",
            harness=harness_mauve,
            prepare=build_mapped_prepare(n, 1280),
            say=format_score,
            at_most_mib=12 * 1024,
            repeats=1,
        )
        for n in (10_000, 30_000, 100_000)
    ),
]
