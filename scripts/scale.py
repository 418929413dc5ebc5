"""Seconds and peak memory of each stage and metric at 10^4, 10^5, 10^6 texts of 128 tokens: the table of docs/scale.md.

    python scripts/scale.py 10000 100000 --folder /tmp/scale --only import,zipf,mauve
    python scripts/scale.py --folder /tmp/scale

Texts of two sides and vectors of 256 numbers a text are made once, seeded. Each stage and each metric is then the real
command in a process of its own, over one store: what the ones before it made is found. The times hold the start of the
process (about 2 s), the verification of what is found and the report with all its texts. Memory is told twice: the
peak of what is resident, in which files that are mapped count, and the peak of what is not of a file.

`generate` and `featurize` use a model that is small enough for a million texts on one core: a GPT-2 of one layer of 32
numbers, random weights (seeded), whose tokens are the 254 commonest words, one for all others and the end.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WORDS, VOCABULARY, DIM = 128, 50_000, 256
KNOWN = 254  # words that are tokens of the small model
CHUNK = 10_000
LOOK = 0.05  # seconds between two looks at a process's memory
STAGES = ("import", "tokens", "featurize", "generate")
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


def small_model(folder: Path) -> Path:
    """Write the model of `generate` and `featurize` as transformers does, unless it is there; a token a word."""
    where = folder / "small-model"
    if (where / "model.safetensors").is_file():
        return where
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    end, other = "<end>", "<other>"
    names = [end, other, *(f"w{i:x}" for i in range(KNOWN))]
    inner = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token=other))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=end, unk_token=other).save_pretrained(where)
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(names), n_positions=2 * WORDS, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    GPT2LMHeadModel(config).save_pretrained(where)
    return where


def measure(words: list[str], folder: Path) -> dict[str, float]:
    """Run a command; returns wall and processor seconds, and in MiB the peak of its memory and of that of no file."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    with (folder / f"log-{os.getpid()}.txt").open("w") as log:
        run = subprocess.Popen([sys.executable, "-m", "openended", *words], stdout=log, stderr=log, env=env)
        whole, own, found = 0.0, 0.0, 0
        while not found:
            told = memory(run.pid)
            whole, own = max(whole, told.get("VmHWM", 0.0)), max(own, told.get("RssAnon", 0.0))
            time.sleep(LOOK)
            found, status, used = os.wait4(run.pid, os.WNOHANG)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise SystemExit((folder / f"log-{os.getpid()}.txt").read_text()[-2000:])
    wall = time.monotonic() - started
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "mib": whole, "own": own}


def memory(pid: int) -> dict[str, float]:
    """What Linux says of a process's memory, MiB: `VmHWM` is its peak so far, `RssAnon` what is of no file now."""
    lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {words[0][:-1]: int(words[1]) / 1024 for words in lines if words[-1] == "kB"}


def commands(files: dict[str, Path], folder: Path, n: int, only: list[str]) -> dict[str, list[str]]:
    """Return name → words."""
    model = small_model(folder)
    base = [
        "task=texts", f"task.path={files['human.jsonl']}", "num_examples=all", "intervals=0", "runtime.progress=false",
        "runtime.threads=1", f"outputs_dir={folder / f'out-{n}'}",
    ]  # fmt: skip
    read = [*base, f"generations={files['model.jsonl']}", "max_new_tokens=null"]
    own = [*read, "judge=none", f"features.human={files['human.npy']}", f"features.model={files['model.npy']}"]
    judged = [*read, "judge=docs-m", f"scorer.path={model}", f"embedder.path={model}"]
    made = {
        "import": [*own, "metric=[length]"],
        "tokens": [*judged, "metric=[length]"],
        "featurize": [*judged, "metric=[gen_ppl,frechet]"],
        "generate": [
            *base, "judge=none", "model=folder", f"model.path={model}", "decoder=ancestral", "metric=[length]",
            f"max_new_tokens={WORDS}", f"min_new_tokens={WORDS}", "runtime.batch_size=512",
        ],
    }  # fmt: skip
    # One clustering: five, the default, take five times as long.
    once = {name: [f"metric.{name}.clustering_seeds=1"] for name in ("mauve", "precision_recall_curve")}
    made |= {name: [*own, f"metric=[{name}]", *once.get(name, [])] for name in METRICS}
    return {name: made[name] for name in only}


def table(rows: list[dict[str, Any]]) -> str:
    """Return what was measured last as Markdown: processor seconds and MiB a size, the slope between the two largest.

    The MiB in brackets are those of no file.
    """
    found = {(row["what"], row["n"]): row for row in rows}
    sizes = sorted({n for _, n in found})
    names = [name for name in (*STAGES, *METRICS) if any((name, n) in found for n in sizes)]
    head = ["stage or metric", *(f"{n:,}" for n in sizes), "slope"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for name in names:
        cells = [found.get((name, n)) for n in sizes]
        shown = [f"{c['cpu']:,.0f} s, {c['mib']:,.0f} ({c['own']:,.0f}) MiB" if c else "–" for c in cells]
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
    parser.add_argument("--only", default=",".join([*STAGES, *METRICS]))
    chosen = parser.parse_args()
    if not chosen.sizes:
        print(table([json.loads(line) for line in (chosen.folder / "rows.jsonl").read_text().splitlines()]))
    for n in chosen.sizes:
        files = make(chosen.folder, n)
        for name, words in commands(files, chosen.folder, n, chosen.only.split(",")).items():
            row = {"n": n, "what": name, **{k: round(v, 1) for k, v in measure(words, chosen.folder).items()}}
            shutil.rmtree(chosen.folder / f"out-{n}" / "runs", ignore_errors=True)  # a report holds all texts again
            print(json.dumps(row), flush=True)
            with (chosen.folder / "rows.jsonl").open("a") as handle:
                handle.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
