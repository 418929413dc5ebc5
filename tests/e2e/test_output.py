"""What a command leaves where it may write nothing, and where nobody listens."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ["num_examples=6", "max_new_tokens=4", "metric=[distinct_n]"]
NOWHERE = Path("/proc/openended")  # where not even root can write


def openended(*words: str, cwd: Path, redirect: str = "") -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "dumb"}
    line = f'"$0" -m openended "$@" {redirect}'
    return subprocess.run(
        ["bash", "-c", line, sys.executable, *words, *SMALL],
        cwd=cwd, env=env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that is unwritable for everybody")
@pytest.mark.parametrize("words", [["plan_only=true"], ["-m", "seed=0,1", "plan_only=true"]])
def test_a_plan_needs_no_writable_folder(words, tmp_path):
    done = openended(*words, f"outputs_dir={NOWHERE}", cwd=tmp_path)
    assert "1 to compute now" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_output_that_nobody_takes_ends_cleanly_and_the_run_is_kept(tmp_path):
    for redirect, code in ((">/dev/full", 2), (">&-", 0), ("2>&-", 0), ("| true; exit ${PIPESTATUS[0]}", 141)):
        done = openended(cwd=tmp_path, redirect=redirect)
        assert done.returncode == code, (redirect, done.stderr)
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr
    assert len(list(tmp_path.glob("outputs/runs/*/*/record.json"))) == 1
