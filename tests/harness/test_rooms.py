"""What one run loads, and what can be taken away: extensions are reached through a registry, never by name."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT

GRID = "-m decoder=greedy,nucleus metric=[mauve,distinct_n] num_examples=8 max_new_tokens=4 intervals=40".split()
MOST_LINES = 25_200  # of the modules that `GRID` loads
COUNT = """
import atexit, pathlib, sys

@atexit.register
def count():
    files = [m.__file__ for n, m in list(sys.modules.items()) if n.startswith("openended") and m.__file__]
    print("lines", sum(len(pathlib.Path(f).read_text(encoding="utf-8").splitlines()) for f in files), file=sys.stderr)

from openended.harness.app.cli import main
main()
"""
# Extension → the files and folders that are all of it, and a command that asks for it.
EXTENSIONS = {
    "vllm": ("harness/backends/vllm", "model=vllm model.path=x"),
    "servers": ("harness/backends/openai", "model=openai model.path=x"),
    "ray": ("harness/backends/ray harness/app/hydra/ray_launcher.py", "-m seed=0,1 hydra/launcher=ray"),
    "denoisers": ("harness/backends/denoiser conf/model/docs-mlm.yaml", "decoder=mdlm"),
    "rating": ("harness/rating harness/app/commands/rate.py harness/app/hydra/study_runs.py", "rate new"),
    "judgments": (
        (
            "metrics/judgments metrics/bradley_terry.py metrics/huse.py metrics/mean_rating.py metrics/calibration.py "
            "harness/rating harness/app/commands/rate.py"
        ),
        "metric=[huse]",
    ),
    "findings": ("harness/report/findings conf/report/findings.yaml", "report --layout findings"),
    "exports": ("harness/report/exports harness/app/commands/export.py", "export x --format zip"),
    "trackers": (
        (
            "harness/report/trackers conf/tracker/trackio.yaml conf/tracker/wandb.yaml conf/tracker/mlflow.yaml "
            "conf/tracker/tensorboard.yaml"
        ),
        "tracker=wandb",
    ),
    "compare": (
        (
            "harness/app/commands/compare.py harness/imported/scores.py harness/report/analysis/paired_scores.py "
            "harness/report/tables/score_comparison.py harness/report/tables/correction.py"
        ),
        "compar a.eval b.eval",
    ),
    "integrations": ("openended/integrations conf/finetune.yaml", "finetune"),
    "search": (
        (
            "harness/app/hydra/search.py conf/hydra/sweeper/optuna.yaml harness/report/figures/search.py "
            "harness/report/tables/search_trials.py"
        ),
        "-m hydra/sweeper=optuna",
    ),
    "audit": ("harness/audit harness/run/audit.py harness/report/audit.py harness/app/commands/audit.py", "audit x"),
    "fidelity": ("harness/fidelity", "fidelity x y --texts z"),
    "decisions": ("harness/app/hydra/decide.py", "-m decoder=greedy,nucleus 'decide=nucleus>greedy: mauve'"),
    "stress": ("harness/app/commands/stress.py conf/metric/stress.yaml conf/report/stress.yaml", "stress"),
    "search decoders": (
        (
            "harness/generation/beam_search.py harness/generation/contrastive.py harness/generation/adversarial.py "
            "conf/decoder/beam_no_repeat.yaml"
        ),
        "decoder=beam",
    ),
}


def run_python(*words: str, at: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(at)}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=540, check=False
    )


@pytest.mark.slow
def test_a_small_grid_loads_what_it_uses(tmp_path):
    done = run_python("-c", COUNT, *GRID, at=ROOT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr.split()[-1]) <= MOST_LINES


@pytest.mark.long
@pytest.mark.parametrize("name", EXTENSIONS)
def test_an_extension_can_be_taken_away(name, tmp_path):
    house, work = tmp_path / "house", tmp_path / "work"
    for top in ("conf", "harness", "hydra_plugins", "metrics", "openended", "tasks"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / top, house / top, symlinks=True, ignore=ignored)
    work.mkdir()
    paths, command = EXTENSIONS[name]
    for path in (house / word for word in paths.split()):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for words in (("--help",), ("list",), GRID):
        done = run_python("-m", "openended", *words, at=house, cwd=work)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    done = run_python("-m", "openended", *shlex.split(command), at=house, cwd=work)
    assert done.returncode == 2
    assert done.stderr.startswith("openended")
    assert done.stderr.count("\n") == 1
