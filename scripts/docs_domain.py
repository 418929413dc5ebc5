#!/usr/bin/env python
"""Measure how well the bundled models separate systems, by embedder, layer, pooling, length, size and clusters.

    python scripts/docs_domain.py WORK [--outputs DIR]

For every setting and score, prints the difference of two systems divided by the standard deviation of a score
(docs/docs_domain.md).
"""

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openended.harness.backends.transformers import load_backend  # noqa: E402
from openended.harness.core.io import read_json  # noqa: E402
from openended.harness.core.types import F64, Ragged  # noqa: E402
from openended.harness.models.backend import EmbeddingRequest  # noqa: E402
from openended.harness.models.embedder import EmbedderSpec  # noqa: E402
from openended.harness.models.forward import Pooling  # noqa: E402
from openended.harness.models.spec import ModelSpec  # noqa: E402
from openended.harness.storage.rows import RowFile  # noqa: E402
from openended.metrics.frechet import frechet_distance  # noqa: E402
from openended.metrics.knn_precision_recall import knn_precision_recall  # noqa: E402
from openended.metrics.mauve import mauve  # noqa: E402

N, LENGTH = 1000, 64
DEFAULT: dict[str, Any] = {
    "embedder": "docs-m", "begin": "whole", "layer": -1, "pooling": "last", "n": 500, "length": LENGTH, "k": 50,
    "pca": 0.9,
}  # fmt: skip
CHANGES: tuple[dict[str, Any], ...] = (
    {}, {"embedder": "docs-s"}, {"begin": "tail"}, {"layer": 3}, {"length": 32}, {"k": 25}, {"k": 100}, {"pca": 0.5},
    {"pca": 0.99}, {"n": 250, "k": 25},
)  # fmt: skip
GRIDS = (
    ["model=docs-s,docs-m", "decoder=ancestral"],
    ["model=docs-s", "decoder=nucleus", "decoder.p=0.8,0.9,0.95"],
    ["model=docs-s", "decoder=temperature", "decoder.temperature=1.3"],
    ["model=docs-s", "decoder=top_k", "decoder.k=20"],
    ["model=docs-s", "decoder=greedy"],
)
SYSTEMS = (
    "docs-s ancestral", "docs-s nucleus p=0.95", "docs-s nucleus p=0.9", "docs-s nucleus p=0.8", "docs-s top_k k=20",
    "docs-s temperature=1.3", "docs-m ancestral", "docs-s greedy",
)  # fmt: skip
SAMPLING_SYSTEMS = SYSTEMS[:7]  # greedy is far from the others and varies differently
PAIRS = ((0, 1), (1, 2), (2, 3), (0, 4), (0, 5), (0, 6))

load_backend_once = cache(load_backend)


def find_texts(outputs: Path, *, make: bool) -> dict[str, Path]:
    """Return the file of rows of each system; with `make`, generate the texts first."""
    common = ["task=docs", f"num_examples={N}", f"max_new_tokens={LENGTH}", "metric=[length]", f"outputs_dir={outputs}"]
    for number, grid in enumerate(GRIDS if make else ()):
        words = [sys.executable, "-m", "openended.harness", "-m", *grid, *common, f"name=g{number}", "seed=0"]
        subprocess.run(words, check=True, cwd=outputs)
    paths: dict[str, Path] = {}
    for path in sorted(outputs.glob("runs/*/*/record.json")):
        record = read_json(path)
        spec = record["spec"]
        system = f"{spec['model']['title']} {spec['decoder']['title']}"
        if system not in SYSTEMS or (spec["num_examples"], spec["max_new_tokens"]) != (N, LENGTH):
            continue
        for name, entry in record["inputs"].items():
            if name.startswith("generate:"):
                paths[system] = next((outputs / "store" / str(entry)).glob("*.arrow"))
            if name.startswith("human:"):
                paths["human"] = outputs / "store" / str(entry) / "human.arrow"
    return paths


@cache
def embed_texts(path: Path, embedder: str, begin: str, layer: int, pooling: Pooling, length: int) -> F64:
    """Embed the texts of a file, shape (n, d); `tail` is the continuation alone."""
    rows = RowFile(path)
    prompts = rows.prompt_ids if begin == "whole" else [[]] * len(rows)
    spec = EmbedderSpec(path=f"bundled:{embedder}", layer=layer, pooling=pooling)
    request = EmbeddingRequest(
        prompts=Ragged.from_rows(prompts, np.int64), embedder=spec, batch_size=64,
        continuations=Ragged.from_rows([ids[:length] for ids in rows.token_ids], np.int64),
    )  # fmt: skip
    (embedded,) = load_backend_once(ModelSpec(path=f"bundled:{embedder}")).embed(request).values()
    return embedded.vectors.astype(np.float64)


def list_settings() -> Iterator[dict[str, Any]]:
    """Yield the default setting, then settings that change one or two options."""
    for pooling in ("last", "mean"):
        for changed in CHANGES:
            yield {"pooling": pooling, **changed}
    for layer in (1, 2, 4):
        yield {"pooling": "mean", "layer": layer}


def compute_scores(files: dict[str, Path], changed: dict[str, Any]) -> dict[str, F64]:
    """Return the values of each score, shape (systems, halves), under one setting."""
    s = DEFAULT | changed

    def load(system: str, half: int) -> F64:
        vectors = embed_texts(files[system], s["embedder"], s["begin"], s["layer"], s["pooling"], s["length"])
        return vectors[half * N // 2 :][: s["n"]]

    values: dict[str, list[float]] = {}
    human = [load("human", half) for half in (0, 1)]
    for system, half in itertools.product(SYSTEMS, (0, 1)):
        sides = {"human": human[half], "model": load(system, half)}
        near = knn_precision_recall(**sides, explained_variance=s["pca"])
        score = mauve(**sides, num_buckets=s["k"], explained_variance=s["pca"], restarts=1).mauve
        scores = {"MAUVE": score, "precision": near.precision, "recall": near.recall}
        for name, value in (scores | {"Fréchet": frechet_distance(**sides)}).items():
            values.setdefault(name, []).append(float(value))
    return {name: np.array(row).reshape(len(SYSTEMS), 2) for name, row in values.items()}


def main() -> None:
    """Compute what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--outputs", type=Path, help="an outputs folder with the runs; without it they are generated")
    options = parser.parse_args()
    outputs = options.outputs or options.work / "outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    files = find_texts(outputs, make=options.outputs is None)
    titles = [*SYSTEMS, "sd", *(f"{SYSTEMS[a]} → {SYSTEMS[b]}" for a, b in PAIRS)]
    print(f"| setting | score | {' | '.join(titles)} |\n|{' --- |' * (2 + len(titles))}", flush=True)
    for changed in list_settings():
        changes = ", ".join(f"{k} {v}" for k, v in changed.items())
        for score, values in compute_scores(files, changed).items():
            means = values.mean(axis=1)
            first, second = values[: len(SAMPLING_SYSTEMS)].T
            sd = ((first - second) / np.sqrt(2)).std(ddof=1)
            apart = [(means[b] - means[a]) / sd for a, b in PAIRS]
            cells = [*(f"{x:.3f}" for x in means), f"{sd:.3f}", *(f"{x:+.1f}" for x in apart)]
            print(f"| {changes} | {score} | {' | '.join(cells)} |", flush=True)
    print(f"all {time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
