"""Seconds and peak memory of each stage and metric at 10^4, 10^5, 10^6 texts of 128 tokens: the table of docs/scale.md.

    python scripts/scale.py 10000 100000 --folder /tmp/scale --metrics zipf,mauve
    python scripts/scale.py --folder /tmp/scale

Texts of two sides and vectors of 256 numbers a text are made once, seeded. Each stage and each metric is then the real
command in a process of its own, over one store: what the ones before it made is found. The times hold the start of
the process (about 2 s), and the memory what it maps of files that it has read.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WORDS, VOCABULARY, DIM = 128, 50_000, 256
CHUNK = 10_000
STAGES = {"import": "length"}  # made by the first command: examples, human rows, texts of the file; and one metric
METRICS = (
    "zipf", "distinct_n", "entropy", "repetition", "compression_ratio", "self_bleu",
    "mauve", "frechet", "precision_recall_curve", "vendi", "discriminator_accuracy", "knn_precision_recall", "kid",
)  # fmt: skip


def make(folder: Path, n: int) -> dict[str, Path]:
    """Write texts and vectors of two sides, unless they are there."""
    made = {f"{side}{end}": folder / f"{n}-{side}{end}" for side in ("human", "model") for end in (".jsonl", ".npy")}
    folder.mkdir(parents=True, exist_ok=True)
    share = 1.0 / np.arange(1, VOCABULARY + 1)
    bounds = np.cumsum(share / share.sum())
    words = np.array([f"w{i:x}" for i in range(VOCABULARY)])
    for number, side in enumerate(("human", "model")):
        if made[f"{side}.npy"].is_file():
            continue
        rng = np.random.default_rng(number)
        with made[f"{side}.jsonl"].open("w", encoding="utf-8") as handle:
            for start in range(0, n, CHUNK):
                drawn = np.searchsorted(bounds, rng.random((min(CHUNK, n - start), WORDS))).clip(max=VOCABULARY - 1)
                handle.writelines(json.dumps({"text": " ".join(row)}) + "\n" for row in words[drawn])
        vectors = np.lib.format.open_memmap(made[f"{side}.npy"], "w+", np.float32, (n, DIM))
        scale = (1 + np.arange(DIM)) ** -0.5
        for start in range(0, n, CHUNK):
            part = vectors[start : start + CHUNK]
            part[:] = rng.standard_normal(part.shape) * scale + 0.05 * number
        vectors.flush()
    return made


def measure(words: list[str], folder: Path) -> dict[str, float]:
    """Run a command; returns wall and processor seconds, and the peak of its memory in MiB."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    with (folder / f"log-{os.getpid()}.txt").open("w") as log:
        run = subprocess.Popen([sys.executable, "-m", "openended", *words], stdout=log, stderr=log, env=env)
        _, status, used = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise SystemExit((folder / f"log-{os.getpid()}.txt").read_text()[-2000:])
    wall = time.monotonic() - started
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss / 1024}


def commands(files: dict[str, Path], folder: Path, n: int, metrics: list[str]) -> dict[str, list[str]]:
    """Return name → words."""
    base = [
        "task=texts", f"task.path={files['human.jsonl']}", f"generations={files['model.jsonl']}", "num_examples=all",
        "max_new_tokens=null", "judge=none", "intervals=0", "runtime.progress=false",
        f"outputs_dir={folder / f'out-{n}'}",
        f"features.human={files['human.npy']}", f"features.model={files['model.npy']}",
    ]  # fmt: skip
    return {name: [*base, f"metric=[{STAGES.get(name, name)}]"] for name in [*STAGES, *metrics]}


def table(rows: list[dict[str, Any]]) -> str:
    """Return what was measured as Markdown: processor seconds and MiB a size, and the slope between the two largest."""
    found = {(row["what"], row["n"]): row for row in rows}
    sizes = sorted({n for _, n in found})
    names = list(dict.fromkeys(what for what, _ in found))
    head = ["stage or metric", *(f"{n:,}" for n in sizes), "slope"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for name in names:
        cells = [found.get((name, n)) for n in sizes]
        shown = [f"{c['cpu']:,.0f} s, {c['mib']:,.0f} MiB" if c else "–" for c in cells]
        there = [(n, c["cpu"]) for n, c in zip(sizes, cells, strict=True) if c]
        slope = "–"
        if len(there) > 1:
            (low, before), (high, after) = there[-2:]
            slope = f"{math.log(after / before) / math.log(high / low):.2f}"
        lines.append(f"| {name} | {' | '.join(shown)} | {slope} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print one JSON line a stage and size; without sizes the table of all that was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*")
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    parser.add_argument("--metrics", default=",".join(METRICS))
    chosen = parser.parse_args()
    if not chosen.sizes:
        print(table([json.loads(line) for line in (chosen.folder / "rows.jsonl").read_text().splitlines()]))
    for n in chosen.sizes:
        files = make(chosen.folder, n)
        for name, words in commands(files, chosen.folder, n, chosen.metrics.split(",")).items():
            row = {"n": n, "what": name, **{k: round(v, 1) for k, v in measure(words, chosen.folder).items()}}
            print(json.dumps(row), flush=True)
            with (chosen.folder / "rows.jsonl").open("a") as handle:
                handle.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
