#!/usr/bin/env python
"""How well the embedded default tells systems apart, by embedder, layer, pooling, length, size and clusters.

    python scripts/docs_domain.py WORK          # texts, vectors and tables; what is in WORK already is not made again

For every setting and score: the difference of two systems' means over the standard deviation over seeds, pooled over
the systems. The tables of docs/docs_domain.md come from here: eight minutes on one core.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from openended.harness.io import read_json  # noqa: E402
from openended.harness.rows import Rows  # noqa: E402
from openended.harness.types import F64  # noqa: E402
from openended.metrics.frechet import frechet_distance  # noqa: E402
from openended.metrics.knn_precision_recall import knn_precision_recall  # noqa: E402
from openended.metrics.mauve import mauve  # noqa: E402

N, LENGTH, SEEDS = 500, 64, (0, 1, 2)
DEFAULT = {"embedder": "docs-m", "layer": -1, "pooling": "last", "n": 500, "length": LENGTH, "k": 50, "pca": 0.9}
GRIDS = (
    ["model=docs-s", "decoder=ancestral", f"seed={','.join(map(str, SEEDS))}"],
    ["model=docs-s", "decoder=nucleus", "decoder.p=0.95,0.8", f"seed={','.join(map(str, SEEDS))}"],
    ["model=docs-s", "decoder=temperature", "decoder.temperature=0.8", f"seed={','.join(map(str, SEEDS))}"],
    ["model=docs-m", "decoder=ancestral", f"seed={','.join(map(str, SEEDS))}"],
    ["model=docs-s", "decoder=greedy", "seed=0"],
)
PAIRS = (
    ("docs-s ancestral", "docs-s nucleus p=0.95"), ("docs-s nucleus p=0.95", "docs-s nucleus p=0.8"),
    ("docs-s ancestral", "docs-s temperature=0.8"), ("docs-s ancestral", "docs-m ancestral"),
)  # fmt: skip


def texts(work: Path) -> dict[tuple[str, int], Path]:
    """Make the texts and return (system, seed) → file of rows; the human side is (human, 0), more of it (human, 1)."""
    common = ["task=docs", f"num_examples={N}", f"max_new_tokens={LENGTH}", "metric=[length]", f"outputs_dir={work}"]
    common += ["runtime.progress=false"]
    for number, grid in enumerate(GRIDS):
        mark = work / f"grid-{number}"
        if not mark.exists():
            words = [sys.executable, "-m", "openended.harness", "-m", *grid, *common, f"name=g{number}"]
            subprocess.run(words, check=True, cwd=work)
            mark.touch()
    found: dict[tuple[str, int], Path] = {}
    for path in sorted(work.glob("runs/*/*/record.json")):
        record = read_json(path)
        spec = record["spec"]
        system = f"{spec['model']['title']} {spec['decoder']['title']}"
        for name, entry in record["inputs"].items():
            folder = work / "store" / str(entry)
            if name.startswith("generate:"):
                found[system, int(spec["seed"] or 0)] = next(folder.glob("*.arrow"))
            if name.startswith("human:"):
                found["human", 0] = folder / "human.arrow"
                found["human", 1] = folder / "more.arrow"
    return found


def vectors(work: Path, files: dict[tuple[str, int], Path]) -> Path:
    """Embed every file under both models: last and mean states of the layers, two lengths, with and without prompt."""
    from openended.harness.models.spec import ModelSpec
    from openended.harness.models.transformers import load_model

    folder = work / "vectors"
    folder.mkdir(exist_ok=True)
    for name in ("docs-m", "docs-s"):
        lm = load_model(ModelSpec(path=f"bundled:{name}"), device="cpu")
        for (system, seed), path in files.items():
            target = folder / f"{name}-{system}-{seed}.npz".replace(" ", "_")
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


def settings(layers: dict[str, int]) -> Iterator[dict[str, object]]:
    """The default, and one or two things changed."""
    yield {}
    yield {"pooling": "mean"}
    for layer in range(1, layers["docs-m"]):
        for pooling in ("last", "mean"):
            yield {"layer": layer, "pooling": pooling}
    for pooling in ("last", "mean"):
        yield {"embedder": "docs-s", "pooling": pooling}
        yield {"n": 250, "k": 25, "pooling": pooling}
        yield {"length": 32, "pooling": pooling}
        yield {"begin": "tail", "pooling": pooling}
        for k in (25, 100):
            yield {"k": k, "pooling": pooling}
        for share in (0.5, 0.99):
            yield {"pca": share, "pooling": pooling}


def scores(folder: Path, files: Sequence[tuple[str, int]], changed: dict[str, object]) -> dict[str, dict[str, F64]]:
    """Score → system → its values over seeds, under one setting."""
    s = {**DEFAULT, "begin": "whole", **changed}
    n, out = int(str(s["n"])), dict[str, dict[str, list[float]]]()

    def load(system: str, seed: int) -> F64:
        held = np.load(folder / f"{s['embedder']}-{system}-{seed}.npz".replace(" ", "_"))
        layer = int(str(s["layer"])) % (1 + max(int(key.split("/")[1]) for key in held.files))
        return held[f"{s['begin']}/{layer}/{s['pooling']}/{s['length']}"][:n].astype(np.float64)

    human = load("human", 0)
    share = float(str(s["pca"]))
    for system, seed in files:
        if (system, seed) == ("human", 0):
            continue
        model = load(system, seed)
        clusters = mauve(human=human, model=model, num_buckets=int(str(s["k"])), explained_variance=share, restarts=1)
        near = knn_precision_recall(human=human, model=model, explained_variance=share)
        values = {"MAUVE": clusters.mauve, "precision": near.precision, "recall": near.recall,
                  "Fréchet": frechet_distance(human=human, model=model)}  # fmt: skip
        for score, value in values.items():
            out.setdefault(score, {}).setdefault(system, []).append(float(value))
    return {score: {system: np.array(v) for system, v in by.items()} for score, by in out.items()}


def line(by: dict[str, F64]) -> list[float]:
    """Means of ancestral, nucleus 0.95, nucleus 0.8 and the ceiling, the seed sd, and the differences over it."""
    sd = float(np.sqrt(np.mean([v.var(ddof=1) for v in by.values() if len(v) > 1])))
    shown = ("docs-s ancestral", "docs-s nucleus p=0.95", "docs-s nucleus p=0.8", "docs-s temperature=0.8",
             "docs-m ancestral", "docs-s greedy", "human")  # fmt: skip
    apart = [float(by[b].mean() - by[a].mean()) / sd for a, b in PAIRS]
    return [*(float(by[name].mean()) for name in shown), sd, *apart]


def main() -> None:
    """Make what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    work = parser.parse_args().work
    work.mkdir(parents=True, exist_ok=True)
    start = time.process_time()
    files = texts(work)
    print(f"texts {time.process_time() - start:.0f} s: {sorted(files)}", flush=True)
    folder = vectors(work, files)
    print(f"vectors {time.process_time() - start:.0f} s", flush=True)
    layers = {"docs-m": max(int(k.split("/")[1]) for k in np.load(folder / "docs-m-human-0.npz").files)}
    print("| setting | score | s anc | s .95 | s .8 | s t.8 | m anc | greedy | ceiling | sd | " +
          " | ".join(f"{a} → {b}" for a, b in PAIRS) + " |")  # fmt: skip
    done: list[object] = []
    for changed in settings(layers):
        for score, by in scores(folder, list(files), changed).items():
            cells = line(by)
            done.append({"setting": changed, "score": score, "cells": cells})
            said = ", ".join(f"{k}={v}" for k, v in changed.items()) or "default"
            print(f"| {said} | {score} | " + " | ".join(f"{x:.3f}" for x in cells[:8]) + " | " +
                  " | ".join(f"{x:+.1f}" for x in cells[8:]) + " |", flush=True)  # fmt: skip
    (work / "table.json").write_text(json.dumps(done, indent=1), encoding="utf-8")
    print(f"all {time.process_time() - start:.0f} s; settings: {len(list(itertools.chain(settings(layers))))}")


if __name__ == "__main__":
    main()
