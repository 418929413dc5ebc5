#!/usr/bin/env python
"""Measure how well the bundled models separate systems, by embedder, layer, pooling, length, size and clusters.

    python scripts/docs_domain.py WORK [--outputs DIR]      # vectors already in WORK are reused

For every setting and score, prints the difference of two systems divided by the standard deviation of a score
(docs/docs_domain.md).
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openended.harness.core.io import read_json  # noqa: E402
from openended.harness.core.types import F64  # noqa: E402
from openended.harness.storage.rows import RowFile  # noqa: E402
from openended.metrics.frechet import frechet_distance  # noqa: E402
from openended.metrics.knn_precision_recall import knn_precision_recall  # noqa: E402
from openended.metrics.mauve import mauve  # noqa: E402

Model = Any
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


def embed_texts(work: Path, files: dict[str, Path]) -> Path:
    """Embed every file by last and mean states of each layer, at two lengths; docs-m also without the prompt."""
    from openended.harness.models.spec import ModelSpec
    from openended.harness.models.transformers import load_model

    folder = work / "vectors"
    folder.mkdir(exist_ok=True, parents=True)
    for name in ("docs-m", "docs-s"):
        lm = load_model(ModelSpec(path=f"bundled:{name}"), device="cpu")
        for system, path in files.items():
            target = folder / f"{name}-{system}.npz".replace(" ", "_")
            if not target.exists():
                rows = RowFile(path)
                prompts, tails = list(rows.prompt_ids), list(rows.token_ids)
                arrays = compute_states(lm.model, prompts, tails, whole=True, every=name == "docs-m")
                if name == "docs-m":
                    arrays |= compute_states(lm.model, prompts, tails, whole=False, every=False)
                np.savez(target, **arrays)
    return folder


def compute_states(
    model: Model, prompts: list[Any], tails: list[Any], *, whole: bool, every: bool
) -> dict[str, np.ndarray]:
    """Return vectors (n, d) by `begin/layer/pooling/length`. Rows of equal shape share a forward pass."""
    import torch

    shapes: dict[tuple[int, int], list[int]] = {}
    for row, (prompt, tail) in enumerate(zip(prompts, tails, strict=True)):
        shapes.setdefault((len(prompt) if whole else 0, len(tail)), []).append(row)
    arrays: dict[str, np.ndarray] = {}
    for (before, after), of_shape in shapes.items():
        for start in range(0, len(of_shape), 64):
            rows = of_shape[start : start + 64]
            ids = [np.concatenate([prompts[r], tails[r]]) if whole else np.asarray(tails[r]) for r in rows]
            with torch.inference_mode():
                hidden = model(torch.tensor(np.stack(ids).astype(np.int64)), output_hidden_states=True).hidden_states
            layers = range(len(hidden)) if every else (len(hidden) - 1,)
            for layer, length in itertools.product(layers, (32, LENGTH)):
                states = hidden[layer][:, : before + min(length, after)].numpy()
                for pooling, value in (("last", states[:, -1]), ("mean", states.mean(1))):
                    key = f"{'whole' if whole else 'tail'}/{layer}/{pooling}/{length}"
                    empty = np.zeros((len(prompts), value.shape[1]), dtype=np.float32)
                    arrays.setdefault(key, empty)[rows] = value
    return arrays


def list_settings() -> Iterator[dict[str, Any]]:
    """Yield the default setting, then settings that change one or two options."""
    for pooling in ("last", "mean"):
        for changed in CHANGES:
            yield {"pooling": pooling, **changed}
    for layer in (1, 2, 4):
        yield {"pooling": "mean", "layer": layer}


def compute_scores(folder: Path, changed: dict[str, Any]) -> dict[str, F64]:
    """Return the values of each score, shape (systems, halves), under one setting."""
    s = DEFAULT | changed

    def load(system: str, half: int) -> F64:
        arrays = np.load(folder / f"{s['embedder']}-{system}.npz".replace(" ", "_"))
        layer = s["layer"] % (1 + max(int(key.split("/")[1]) for key in arrays.files))
        begin = half * N // 2
        return arrays[f"{s['begin']}/{layer}/{s['pooling']}/{s['length']}"][begin : begin + s["n"]].astype(np.float64)

    values: dict[str, list[float]] = {}
    human = [load("human", half) for half in (0, 1)]
    for system, half in itertools.product(SYSTEMS, (0, 1)):
        sides = {"human": human[half], "model": load(system, half)}
        near = knn_precision_recall(**sides, explained_variance=s["pca"])
        score = mauve(**sides, num_buckets=s["k"], explained_variance=s["pca"], restarts=1).mauve
        for name, value in (
            ("MAUVE", score),
            ("precision", near.precision),
            ("recall", near.recall),
            ("Fréchet", frechet_distance(**sides)),
        ):
            values.setdefault(name, []).append(float(value))
    return {name: np.array(row).reshape(len(SYSTEMS), 2) for name, row in values.items()}


def summarize_scores(values: F64) -> tuple[F64, float, list[float]]:
    """Return system means, the standard deviation of a score, and pair differences divided by it."""
    apart = (values[: len(SAMPLING_SYSTEMS), 0] - values[: len(SAMPLING_SYSTEMS), 1]) / np.sqrt(2)
    sd = float(apart.std(ddof=1))
    means = values.mean(axis=1)
    return means, sd, [float(means[b] - means[a]) / sd for a, b in PAIRS]


def main() -> None:
    """Compute what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--outputs", type=Path, help="an outputs folder with the runs; without it they are generated")
    options = parser.parse_args()
    outputs = options.outputs or options.work / "outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    folder = embed_texts(options.work, find_texts(outputs, make=options.outputs is None))
    print(f"vectors {time.process_time() - start:.0f} s", flush=True)
    titles = [*SYSTEMS, "sd", *(f"{SYSTEMS[a]} → {SYSTEMS[b]}" for a, b in PAIRS)]
    print(f"| setting | score | {' | '.join(titles)} |\n|{' --- |' * (2 + len(titles))}", flush=True)
    for changed in list_settings():
        changes = ", ".join(f"{k} {v}" for k, v in changed.items())
        for score, values in compute_scores(folder, changed).items():
            means, sd, apart = summarize_scores(values)
            cells = [*(f"{x:.3f}" for x in means), f"{sd:.3f}", *(f"{x:+.1f}" for x in apart)]
            print(f"| {changes} | {score} | {' | '.join(cells)} |", flush=True)
    print(f"all {time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
