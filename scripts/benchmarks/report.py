"""Time a report over a thousand runs, and the overhead of a grid."""

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

from scripts.benchmarks._work import Benchmark

MODELS, LENGTHS, SEEDS = 5, (32, 64, 96, 128), 5
DECODERS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("greedy", "greedy", {}),
    ("ancestral", "ancestral", {}),
    *(("nucleus", f"nucleus p={p}", {"p": p}) for p in (0.5, 0.7, 0.9, 0.95, 0.99)),
    *(("top_k", f"top-k k={k}", {"k": k}) for k in (10, 40, 100)),
)
GRID = ["-m", "decoder=greedy,ancestral,nucleus,top_k", "seed=0,1,2", "num_examples=500", "runtime.progress=false"]
STAGES = ("generate", "measure", "score", "embed", "teacher")


def write_thousand_runs() -> str:
    """Write 1,000 run folders: 5 models × 10 decoders × 4 lengths × 5 seeds, arrays and texts for one length."""
    from tests.harness.report.synthetic import write_run

    folder = Path(tempfile.mkdtemp(prefix="openended-report-"))
    for length in LENGTHS:
        for model in range(MODELS):
            for decoder, title, options in DECODERS:
                for seed in range(SEEDS):
                    has_files = length == 96 and seed == 0
                    write_run(
                        folder, decoder, seed, model=f"m{model}", options=options, title=title, length=length,
                        arrays=has_files, texts=has_files,
                    )  # fmt: skip
    return str(folder)


def run_report(folder: str) -> dict[str, int]:
    """Run `openended report` on the run folders. The time includes its imports."""
    from openended.harness.report.cli import main

    out = Path(folder) / "out"
    with contextlib.redirect_stdout(io.StringIO()):
        code = main([f"{folder}/runs", "--out", str(out), "--quiet"])
    counts = {
        "code": code,
        "figures": len(list(out.glob("figures/*.png"))),
        "runs": len(list(Path(folder).glob("runs/*/*"))),
    }
    shutil.rmtree(folder)
    return counts


def make_grid_folder() -> str:
    """Make an empty folder and import what every run imports, which is not part of a grid's time."""
    import hydra
    import pandas
    import torch
    import transformers

    _ = hydra, pandas, torch, transformers
    return tempfile.mkdtemp(prefix="openended-grid-")


def run_grid(folder: str) -> dict[str, Any]:
    """Run 4 decoders × 3 seeds on `docs` in this process; return the seconds of the stages and of the whole grid."""
    from openended.harness.app.cli import main

    started = time.perf_counter()
    sys.argv = ["openended", *GRID, f"outputs_dir={folder}"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main()
    seconds = time.perf_counter() - started
    manifests = [json.loads(p.read_text()) for p in Path(folder).glob("store/*/*/*/manifest.json")]
    stages = sum(m["seconds"] for m in manifests if m["recipe"]["stage"] in STAGES)
    shutil.rmtree(folder)
    return {"whole": seconds, "stages": stages, "made": len(manifests)}


def _format_overhead(harness: dict[str, Any]) -> str:
    share = harness["whole"] / harness["stages"] - 1
    return f"overhead {share:.1%} of {harness['stages']:.0f} s in stages (target: < 10 %), including the report"


WORKS = [
    Benchmark(
        name="openended report, 1,000 runs, all figures and the page",
        prepare=write_thousand_runs,
        harness=run_report,
        at_most_seconds=15.0,
        clock="cpu",
        say=lambda harness: f"{harness['runs']:,} runs, {harness['figures']} figures, exit code {harness['code']}",
    ),
    Benchmark(
        name="a grid, 4 decoders × 3 seeds on docs, 500 examples × 64 tokens",
        prepare=make_grid_folder,
        harness=run_grid,
        repeats=1,
        say=_format_overhead,
    ),
]
