#!/usr/bin/env python
"""How well the embedded default tells systems apart, by embedder, layer, pooling, length, size and clusters.

    python scripts/docs_domain.py WORK [--outputs DIR]      # what is in WORK already is not made again

1,000 texts a system are scored in two halves of 500 prompts. For every setting and score: the difference of two
systems over the standard deviation of a score (what is left of the halves' differences when the mean difference of the
halves, which all systems share, is taken off). The table of docs/docs_domain.md comes from here.
"""

from __future__ import annotations

import argparse
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
from openended.harness.storage.rows import Rows  # noqa: E402
from openended.metrics.frechet import frechet_distance  # noqa: E402
from openended.metrics.knn_precision_recall import knn_precision_recall  # noqa: E402
from openended.metrics.mauve import mauve  # noqa: E402

N, LENGTH = 1000, 64
DEFAULT = {"embedder": "docs-m", "layer": -1, "pooling": "last", "n": 500, "length": LENGTH, "k": 50, "pca": 0.9}
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
SPREAD = SYSTEMS[:7]  # greedy is far from all and has a spread of its own
PAIRS = ((0, 1), (1, 2), (2, 3), (0, 4), (0, 5), (0, 6))


def texts(outputs: Path, *, make: bool) -> dict[str, Path]:
    """Return system → file of rows, made first if that is asked for."""
    common = ["task=docs", f"num_examples={N}", f"max_new_tokens={LENGTH}", "metric=[length]", f"outputs_dir={outputs}"]
    for number, grid in enumerate(GRIDS if make else ()):
        words = [sys.executable, "-m", "openended.harness", "-m", *grid, *common, f"name=g{number}", "seed=0"]
        subprocess.run(words, check=True, cwd=outputs)
    found: dict[str, Path] = {}
    for path in sorted(outputs.glob("runs/*/*/record.json")):
        record = read_json(path)
        spec = record["spec"]
        system = f"{spec['model']['title']} {spec['decoder']['title']}"
        if system not in SYSTEMS or (spec["num_examples"], spec["max_new_tokens"]) != (N, LENGTH):
            continue
        for name, entry in record["inputs"].items():
            if name.startswith("generate:"):
                found[system] = next((outputs / "store" / str(entry)).glob("*.arrow"))
            if name.startswith("human:"):
                found["human"] = outputs / "store" / str(entry) / "human.arrow"
    return found


def vectors(work: Path, files: dict[str, Path]) -> Path:
    """Embed every file: last and mean states of the layers, two lengths, with the prompt; docs-m also without it."""
    from openended.harness.models.spec import ModelSpec
    from openended.harness.models.transformers import load_model

    folder = work / "vectors"
    folder.mkdir(exist_ok=True, parents=True)
    for name in ("docs-m", "docs-s"):
        lm = load_model(ModelSpec(path=f"bundled:{name}"), device="cpu")
        for system, path in files.items():
            target = folder / f"{name}-{system}.npz".replace(" ", "_")
            if not target.exists():
                rows = Rows(path)
                made = states(lm.model, list(rows.prompt_ids), list(rows.token_ids), whole=True, every=name == "docs-m")
                if name == "docs-m":
                    made |= states(lm.model, list(rows.prompt_ids), list(rows.token_ids), whole=False, every=False)
                np.savez(target, **made)
    return folder


def states(
    model: Any,  # noqa: ANN401
    prompts: list[Any],
    tails: list[Any],
    *,
    whole: bool,
    every: bool,
) -> dict[str, np.ndarray]:
    """Return `begin/layer/pooling/length` → vectors (n, d); rows of one shape share a pass."""
    import torch

    shapes: dict[tuple[int, int], list[int]] = {}
    for row, (prompt, tail) in enumerate(zip(prompts, tails, strict=True)):
        shapes.setdefault((len(prompt) if whole else 0, len(tail)), []).append(row)
    made: dict[str, np.ndarray] = {}
    for (before, after), of_shape in shapes.items():
        for start in range(0, len(of_shape), 64):
            rows = of_shape[start : start + 64]
            ids = [np.concatenate([prompts[r], tails[r]]) if whole else np.asarray(tails[r]) for r in rows]
            with torch.inference_mode():
                hidden = model(torch.tensor(np.stack(ids).astype(np.int64)), output_hidden_states=True).hidden_states
            for layer in range(len(hidden)) if every else (len(hidden) - 1,):
                for length in (32, LENGTH):
                    part = hidden[layer][:, : before + min(length, after)].numpy()
                    for pooling, value in (("last", part[:, -1]), ("mean", part.mean(1))):
                        key = f"{'whole' if whole else 'tail'}/{layer}/{pooling}/{length}"
                        if key not in made:
                            made[key] = np.zeros((len(prompts), value.shape[1]), dtype=np.float32)
                        made[key][rows] = value
    return made


def settings() -> Iterator[dict[str, object]]:
    """The default, and one or two things changed."""
    for pooling in ("last", "mean"):
        yield {"pooling": pooling}
        yield {"pooling": pooling, "embedder": "docs-s"}
        yield {"pooling": pooling, "begin": "tail"}
        yield {"pooling": pooling, "layer": 3}
        yield {"pooling": pooling, "length": 32}
        yield {"pooling": pooling, "k": 25}
        yield {"pooling": pooling, "k": 100}
        yield {"pooling": pooling, "pca": 0.5}
        yield {"pooling": pooling, "pca": 0.99}
        yield {"pooling": pooling, "n": 250, "k": 25}
    for layer in (1, 2, 4):
        yield {"pooling": "mean", "layer": layer}


def scores(folder: Path, changed: dict[str, object]) -> dict[str, F64]:
    """Score → its values, shape (systems, halves), under one setting."""
    s = {**DEFAULT, "begin": "whole", **changed}
    n, share = int(str(s["n"])), float(str(s["pca"]))

    def load(system: str, half: int) -> F64:
        held = np.load(folder / f"{s['embedder']}-{system}.npz".replace(" ", "_"))
        layer = int(str(s["layer"])) % (1 + max(int(key.split("/")[1]) for key in held.files))
        begin = half * N // 2
        return held[f"{s['begin']}/{layer}/{s['pooling']}/{s['length']}"][begin : begin + n].astype(np.float64)

    out: dict[str, list[list[float]]] = {}
    human = [load("human", half) for half in (0, 1)]
    for system in SYSTEMS:
        made: dict[str, list[float]] = {}
        for half in (0, 1):
            sides = {"human": human[half], "model": load(system, half)}
            near = knn_precision_recall(**sides, explained_variance=share)
            values = {
                "MAUVE": mauve(**sides, num_buckets=int(str(s["k"])), explained_variance=share, restarts=1).mauve,
                "precision": near.precision,
                "recall": near.recall,
                "Fréchet": frechet_distance(**sides),
            }
            for score, value in values.items():
                made.setdefault(score, []).append(float(value))
        for score, halves in made.items():
            out.setdefault(score, []).append(halves)
    return {score: np.array(rows) for score, rows in out.items()}


def line(values: F64) -> tuple[F64, float, list[float]]:
    """Means of the systems, the standard deviation of a score, and the differences of the pairs over it."""
    apart = (values[: len(SPREAD), 0] - values[: len(SPREAD), 1]) / np.sqrt(2)
    sd = float(apart.std(ddof=1))
    means = values.mean(axis=1)
    return means, sd, [float(means[b] - means[a]) / sd for a, b in PAIRS]


def main() -> None:
    """Make what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("--outputs", type=Path, help="an outputs folder that holds the runs; else they are made")
    options = parser.parse_args()
    outputs = options.outputs or options.work / "outputs"
    outputs.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    folder = vectors(options.work, texts(outputs, make=options.outputs is None))
    print(f"vectors {time.process_time() - start:.0f} s", flush=True)
    titles = [*SYSTEMS, "sd", *(f"{SYSTEMS[a]} → {SYSTEMS[b]}" for a, b in PAIRS)]
    print(f"| setting | score | {' | '.join(titles)} |\n|{' --- |' * (2 + len(titles))}", flush=True)
    for changed in settings():
        said = ", ".join(f"{k} {v}" for k, v in changed.items())
        for score, values in scores(folder, changed).items():
            means, sd, apart = line(values)
            cells = [*(f"{x:.3f}" for x in means), f"{sd:.3f}", *(f"{x:+.1f}" for x in apart)]
            print(f"| {said} | {score} | {' | '.join(cells)} |", flush=True)
    print(f"all {time.process_time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
