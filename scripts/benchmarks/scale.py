"""Time whole commands over 10,000 and 100,000 texts of 128 words, with vectors of 256 numbers and a tiny model."""

import contextlib
import io
import json
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from scripts.bench import Benchmark, choose_size

SIZES = (choose_size(10_000, 300), choose_size(100_000, 600))
WORDS, VOCABULARY, DIM = 128, 50_000, 256
KNOWN = 254  # words with a token of their own in the tiny model
CHUNK = 10_000
TEXT_METRICS = "zipf", "distinct_n", "entropy", "repetition", "compression_ratio", "self_bleu"
VECTOR_METRICS = "mauve", "frechet", "precision_recall_curve", "vendi", "discriminator_accuracy"
METRICS = (*TEXT_METRICS, *VECTOR_METRICS, "knn_precision_recall", "kid")
STAGES = ("import", "tokens", "featurize")


def write_inputs(n: int) -> Path:
    """Write texts and vectors of both sides, unless they are there; return their folder."""
    folder = Path(tempfile.gettempdir()) / f"openended-scale-{n}"
    if (folder / "complete").is_file():
        return folder
    folder.mkdir(exist_ok=True)
    share = 1.0 / np.arange(1, VOCABULARY + 1)
    bounds = np.cumsum(share / share.sum())
    words = np.array([f"w{i:x}" for i in range(VOCABULARY)])
    scale = (1 + np.arange(DIM)) ** -0.5
    for number, side in enumerate(("human", "model")):
        rng = np.random.default_rng(number)
        with (folder / f"{side}.jsonl").open("w", encoding="utf-8") as handle:
            for start in range(0, n, CHUNK):
                indices = np.searchsorted(bounds, rng.random((min(CHUNK, n - start), WORDS))).clip(max=VOCABULARY - 1)
                handle.writelines(json.dumps({"text": " ".join(row)}) + "\n" for row in words[indices])
        vectors = np.lib.format.open_memmap(folder / f"{side}.npy", "w+", np.float32, (n, DIM))
        for start in range(0, n, CHUNK):
            part = vectors[start : start + CHUNK]
            part[:] = rng.standard_normal(part.shape) * scale + 0.05 * number
        vectors.flush()
    write_tiny_model(folder / "tiny-model")
    (folder / "complete").touch()
    return folder


def write_tiny_model(where: Path) -> None:
    """Write a GPT-2 of one layer with random weights, whose tokens are words."""
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


def build_command(folder: Path, what: str) -> list[str]:
    """Return the words of the command of a stage or metric."""
    model = folder / "tiny-model"
    base = ["task=texts", f"task.path={folder}/human.jsonl", "num_examples=all", "intervals=0"]
    base += ["runtime.progress=false", "runtime.threads=1"]
    read = [*base, f"generations={folder}/model.jsonl", "max_new_tokens=null"]
    with_vectors = [*read, "scoring=none", f"features.human={folder}/human.npy", f"features.model={folder}/model.npy"]
    with_models = [*read, "scoring=docs-m", f"scorer.path={model}", f"embedder.path={model}"]
    stages = {
        "import": [*with_vectors, "metric=[length]"],
        "tokens": [*with_models, "metric=[length]"],
        "featurize": [*with_models, "metric=[gen_ppl,frechet]"],
    }
    # The default of five clusterings takes five times as long.
    once = [f"metric.{what}.clustering_seeds=1"] if what in ("mauve", "precision_recall_curve") else []
    return stages.get(what) or [*with_vectors, f"metric=[{what}]", *once]


def run_command(words: list[str]) -> None:
    """Run a command in this process, without what it prints."""
    from openended.harness.app.cli import main

    sys.argv = ["openended", *words]
    with contextlib.redirect_stdout(io.StringIO()):
        main()


def prepare(n: int, what: str) -> list[str]:
    """Write the inputs; before a metric, store them, so that its time is that of the metric and the report."""
    folder = write_inputs(n)
    out = folder / ("store" if what in METRICS else f"out-{what}")
    shutil.rmtree(out / "runs" if what in METRICS else out, ignore_errors=True)
    if what in METRICS:
        run_command([*build_command(folder, "import"), f"outputs_dir={out}"])
        for entry in out.glob("store/measure/*"):
            shutil.rmtree(entry)
    return [*build_command(folder, what), f"outputs_dir={out}"]


_MEASURED: dict[str, Any] = {"harness": run_command, "clock": "cpu", "threads": 1, "repeats": 1}
_MEASURED |= {"imports": ("hydra", "pandas", "pyarrow", "scipy.linalg")}
AREAS = {
    "scale": [
        Benchmark(name=f"{what}, {n:,} texts × {WORDS} words", prepare=partial(prepare, n, what), **_MEASURED)
        for n in SIZES
        for what in (*STAGES, *METRICS)
    ]
}
