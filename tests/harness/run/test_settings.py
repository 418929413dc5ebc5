"""What no run can be is refused in one line before anything is done; nothing is ever a traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.helpers import ROOT, openended

BIG = "9" * 5000


@pytest.mark.thin(3)
@pytest.mark.parametrize(
    "word",
    [
        f"seed={BIG}", "seed=99999999999999999999", "samples=9999999999999999999999", "metric=[1,2]", "metric=3",
        "metric.mauve=3", "metric.mauve=null", "task=3", "model=3", "decoder=3", "scorer=3", "embedder=3", "runtime=3",
        "report=3", "report.kind=x", "report.metrics=3", "~task", "~runtime", "runtime.device=foo", "runtime.device=3", "runtime.flush_seconds=nan",
        "runtime.threads=99999999999999999999", "outputs_dir=[]", "outputs_dir=null", "outputs_dir=''",
        "generations=gpt2-output:../../x", "hydra.job.env_copy=[NOPE]", "hydra=null", "seed=${", "features=foo.npy", "features=[a]", "judgment_columns=foo",
        "judgment_columns=3",
    ],
)  # fmt: skip
def test_one_line_and_exit_code_2(word, tmp_path):
    done = openended(word, "plan_only=true", "num_examples=2", cwd=tmp_path, verbose=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 2000
    assert done.stderr.startswith("openended: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("word", ["metric=null", "embedder=null", "scorer=null", "experiment=null"])
def test_what_may_be_null_is_planned_or_refused_in_one_line(word, tmp_path):
    done = openended(word, "plan_only=true", "num_examples=2", cwd=tmp_path, verbose=False)
    assert done.returncode in (0, 2)
    assert done.stderr.count("\n") <= 1


def test_a_terminal_of_ascii_alone_is_written_to(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "openended.harness", "plan_only=true", "num_examples=2", "model.label='é→'"],
        cwd=tmp_path, capture_output=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}, timeout=240
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
