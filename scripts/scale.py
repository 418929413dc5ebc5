"""Measure time and peak memory of each stage and metric at 10^4 to 10^6 texts, for the table in docs/scale.md.

python scripts/scale.py 10000 100000 --folder /tmp/scale --only import,zipf,mauve
python scripts/scale.py --folder /tmp/scale
"""

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
KNOWN = 254  # words with a token of their own in the small model
CHUNK = 10_000
LOOK = 0.05  # seconds between two readings of a process's memory
STAGES = ("import", "tokens", "featurize", "generate")
METRICS = (
    "zipf", "distinct_n", "entropy", "repetition", "compression_ratio", "self_bleu",
    "mauve", "frechet", "precision_recall_curve", "vendi", "discriminator_accuracy", "knn_precision_recall", "kid",
)  # fmt: skip


def write_inputs(folder: Path, n: int) -> None:
    """Write texts and vectors of both sides, unless the files exist."""
    folder.mkdir(parents=True, exist_ok=True)
    share = 1.0 / np.arange(1, VOCABULARY + 1)
    bounds = np.cumsum(share / share.sum())
    words = np.array([f"w{i:x}" for i in range(VOCABULARY)])
    scale = (1 + np.arange(DIM)) ** -0.5
    for number, side in enumerate(("human", "model")):
        stem = folder / f"{n}-{side}"
        if stem.with_suffix(".npy").is_file():
            continue
        rng = np.random.default_rng(number)
        with stem.with_suffix(".jsonl").open("w", encoding="utf-8") as handle:
            for start in range(0, n, CHUNK):
                indices = np.searchsorted(bounds, rng.random((min(CHUNK, n - start), WORDS))).clip(max=VOCABULARY - 1)
                handle.writelines(json.dumps({"text": " ".join(row)}) + "\n" for row in words[indices])
        vectors = np.lib.format.open_memmap(stem.with_suffix(".npy"), "w+", np.float32, (n, DIM))
        for start in range(0, n, CHUNK):
            part = vectors[start : start + CHUNK]
            part[:] = rng.standard_normal(part.shape) * scale + 0.05 * number
        vectors.flush()


def write_small_model(where: Path) -> None:
    """Write the small model of `generate` and `featurize`, unless it exists."""
    if (where / "model.safetensors").is_file():
        return
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


def build_commands(folder: Path, n: int) -> dict[str, list[str]]:
    """Return the command-line words of each stage and metric."""
    model = folder / "small-model"
    human, generated = folder / f"{n}-human", folder / f"{n}-model"
    base = [
        "task=texts", f"task.path={human}.jsonl", "num_examples=all", "intervals=0", "runtime.progress=false",
        "runtime.threads=1", f"outputs_dir={folder / f'out-{n}'}",
    ]  # fmt: skip
    read = [*base, f"generations={generated}.jsonl", "max_new_tokens=null"]
    with_vectors = [*read, "scoring=none", f"features.human={human}.npy", f"features.model={generated}.npy"]
    with_models = [*read, "scoring=docs-m", f"scorer.path={model}", f"embedder.path={model}"]
    generate = [
        *base, "scoring=none", "model=folder", f"model.path={model}", "decoder=ancestral", "metric=[length]",
        f"max_new_tokens={WORDS}", f"min_new_tokens={WORDS}", "runtime.batch_size=512",
    ]  # fmt: skip
    commands = {
        "import": [*with_vectors, "metric=[length]"],
        "tokens": [*with_models, "metric=[length]"],
        "featurize": [*with_models, "metric=[gen_ppl,frechet]"],
        "generate": generate,
        **{name: [*with_vectors, f"metric=[{name}]"] for name in METRICS},
    }
    # The default of five clusterings takes five times as long.
    for name in ("mauve", "precision_recall_curve"):
        commands[name].append(f"metric.{name}.clustering_seeds=1")
    return commands


def measure_command(words: list[str], log: Path) -> dict[str, float]:
    """Run a command; return wall and CPU seconds and the peaks of resident and anonymous memory in MiB."""
    started = time.monotonic()
    with log.open("w") as handle:
        command = [sys.executable, "-m", "openended", *words]
        run = subprocess.Popen(command, stdout=handle, stderr=handle, env={**os.environ, "OMP_NUM_THREADS": "1"})
        resident, anonymous, pid_done = 0.0, 0.0, 0
        while not pid_done:
            lines = (line.split() for line in Path(f"/proc/{run.pid}/status").read_text().splitlines())
            mib = {words[0][:-1]: int(words[1]) / 1024 for words in lines if words[-1] == "kB"}
            resident, anonymous = max(resident, mib.get("VmHWM", 0.0)), max(anonymous, mib.get("RssAnon", 0.0))
            time.sleep(LOOK)
            pid_done, status, usage = os.wait4(run.pid, os.WNOHANG)
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        raise SystemExit(log.read_text()[-2000:])
    wall = time.monotonic() - started
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "mib": resident, "own": anonymous}


def format_table(rows: list[dict[str, Any]]) -> str:
    """Format the latest measurements; the slope is between the two largest sizes, anonymous memory in parentheses."""
    row_of = {(row["what"], row["n"]): row for row in rows}
    sizes = sorted({n for _, n in row_of})
    head = ["stage or metric", *(f"{n:,}" for n in sizes), "slope"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for name in (*STAGES, *METRICS):
        cells = {n: row_of[name, n] for n in sizes if (name, n) in row_of}
        if not cells:
            continue
        texts = {n: f"{c['cpu']:,.0f} s, {c['mib']:,.0f} ({c['own']:,.0f}) MiB" for n, c in cells.items()}
        slope = "–"
        if len(cells) > 1:
            low, high = list(cells)[-2:]
            slope = f"{math.log(cells[high]['cpu'] / cells[low]['cpu']) / math.log(high / low):.2f}"
        lines.append(f"| {name} | {' | '.join(texts.get(n, '–') for n in sizes)} | {slope} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print one JSON line per stage and size; without sizes, print the table of all measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*")
    parser.add_argument("--folder", type=Path, default=Path("scale"))
    parser.add_argument("--only", default=",".join([*STAGES, *METRICS]))
    options = parser.parse_args()
    folder = options.folder
    if not options.sizes:
        print(format_table([json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]))
    for n in options.sizes:
        write_inputs(folder, n)
        write_small_model(folder / "small-model")
        commands = build_commands(folder, n)
        for name in options.only.split(","):
            figures = measure_command(commands[name], folder / f"log-{os.getpid()}.txt")
            row = {"n": n, "what": name, **{key: round(value, 1) for key, value in figures.items()}}
            shutil.rmtree(folder / f"out-{n}" / "runs", ignore_errors=True)  # a report holds all texts again
            print(json.dumps(row), flush=True)
            with (folder / "rows.jsonl").open("a") as handle:
                handle.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
