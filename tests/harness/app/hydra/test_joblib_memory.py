"""Leftovers of killed runs in shared memory are removed; those of living processes stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from openended.harness.app.hydra.joblib_memory import claim_shared_memory

RUN = """
import os, sys, time
from pathlib import Path
from openended.harness.app.hydra.joblib_memory import claim_shared_memory
root = Path(sys.argv[1])
with claim_shared_memory(root) as folder:
    (folder / "array").write_bytes(b"x" * 100)
    (root / f"sem.loky-{os.getpid()}-abc").touch()
    print("ready", flush=True)
    time.sleep(60)
"""


def start_run(root):
    process = subprocess.Popen([sys.executable, "-c", RUN, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_next_run_removes_what_a_killed_one_left(tmp_path):
    (tmp_path / "sem.loky-1-other").touch()
    killed, living = start_run(tmp_path), start_run(tmp_path)
    try:
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        assert len(list(tmp_path.iterdir())) == 5
        with claim_shared_memory(tmp_path) as folder:
            assert folder is not None
            names = {path.name for path in tmp_path.iterdir()} - {folder.name}
            assert f"sem.loky-{killed.pid}-abc" not in names
            assert {f"sem.loky-{living.pid}-abc", "sem.loky-1-other"} <= names
            assert len(names) == 3  # with the folder of the living run
        assert not folder.exists()
    finally:
        for process in (killed, living):
            process.kill()
            process.communicate()  # closes its pipe


def test_a_system_without_shared_memory_uses_joblibs_own_choice(tmp_path):
    with claim_shared_memory(tmp_path / "none") as folder:
        assert folder is None
