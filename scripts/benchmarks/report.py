"""A report over a thousand runs, and what a grid costs beside its generation and metrics."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from scripts.benchmarks._work import Work

MODELS, LENGTHS, SEEDS = 5, (32, 64, 96, 128), 5
DECODERS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("greedy", "greedy", {}),
    ("ancestral", "ancestral", {}),
    *(("nucleus", f"nucleus p={p}", {"p": p}) for p in (0.5, 0.7, 0.9, 0.95, 0.99)),
    *(("top_k", f"top-k k={k}", {"k": k}) for k in (10, 40, 100)),
)
GRID = ["-m", "decoder=greedy,ancestral,nucleus,top_k", "seed=0,1,2", "num_examples=500", "runtime.progress=false"]
STAGES = ("generate", "measure", "score", "embed", "teacher")


def thousand_runs() -> str:
    """Write 1,000 run folders: 5 models × 10 decoders × 4 lengths × 5 seeds, arrays and texts for one length."""
    from tests.harness.report.synthetic import write_run

    folder = Path(tempfile.mkdtemp(prefix="openended-report-"))
    for length in LENGTHS:
        for model in range(MODELS):
            for decoder, title, options in DECODERS:
                for seed in range(SEEDS):
                    whole = length == 96 and seed == 0
                    write_run(
                        folder, decoder, seed, model=f"m{model}", options=options, title=title, length=length,
                        arrays=whole, texts=whole,
                    )  # fmt: skip
    return str(folder)


def report(folder: str) -> dict[str, int]:
    """Run `openended report` on them; its imports are part of the time."""
    from openended.harness.report.cli import main

    out = Path(folder) / "out"
    with contextlib.redirect_stdout(io.StringIO()):
        code = main([f"{folder}/runs", "--out", str(out), "--quiet"])
    made = {
        "code": code,
        "figures": len(list(out.glob("figures/*.png"))),
        "runs": len(list(Path(folder).glob("runs/*/*"))),
    }
    shutil.rmtree(folder)
    return made


def grid_folder() -> str:
    """Make an empty folder, and import what every run imports: the time of a process, not of a grid."""
    import hydra
    import pandas
    import torch
    import transformers

    _ = hydra, pandas, torch, transformers
    return tempfile.mkdtemp(prefix="openended-grid-")


def grid(folder: str) -> dict[str, Any]:
    """Run 4 decoders × 3 seeds on `docs` in this process; returns the seconds of the stages and of the whole."""
    from openended.harness.app.cli import main

    started = time.perf_counter()
    sys.argv = ["openended", *GRID, f"outputs_dir={folder}"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main()
    whole = time.perf_counter() - started
    manifests = [json.loads(p.read_text()) for p in Path(folder).glob("store/*/*/*/manifest.json")]
    stages = sum(m["seconds"] for m in manifests if m["recipe"]["stage"] in STAGES)
    shutil.rmtree(folder)
    return {"whole": whole, "stages": stages, "made": len(manifests)}


def _overhead(ours: dict[str, Any]) -> str:
    share = ours["whole"] / ours["stages"] - 1
    return f"overhead {share:.1%} of {ours['stages']:.0f} s generating and measuring (asked: < 10 %), report included"


WORKS = [
    Work(
        name="openended report, 1,000 runs, all figures and the page",
        prepare=thousand_runs,
        ours=report,
        at_most_seconds=15.0,
        clock="cpu",
        say=lambda ours: f"{ours['runs']:,} runs, {ours['figures']} figures, exit code {ours['code']}",
    ),
    Work(
        name="a grid, 4 decoders × 3 seeds on docs, 500 examples × 64 tokens",
        prepare=grid_folder,
        ours=grid,
        repeats=1,
        say=_overhead,
    ),
]
