"""Workers end with the process that started them, also when it was killed, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[4]
WORKER = (
    "import sys, time\n"
    "from openended.harness.app.hydra.parent_watch import ParentProcess, end_with_parent\n"
    "machine, pid, start = sys.argv[1:4]\n"
    "end_with_parent(ParentProcess(machine, int(pid), int(start)))\n"
    "print('watching', flush=True)\n"
    "time.sleep(90)\n"
)
PARENT = (
    "import subprocess, sys, time\n"
    "from openended.harness.app.hydra.parent_watch import identify_process\n"
    "me = identify_process()\n"
    "words = [sys.executable, '-c', sys.argv[1], me.machine, str(me.pid), str(me.start)]\n"
    "between = [sys.executable, '-c', 'import subprocess, sys; subprocess.run(sys.argv[1:])'] if sys.argv[2] == 'grandchild' else []\n"
    "child = subprocess.Popen([*between, *words], stdout=subprocess.PIPE, text=True)\n"
    "print(child.stdout.readline().strip(), flush=True)\n"
    "time.sleep(90)\n"
)


@pytest.mark.parametrize("kind", ["child", "grandchild"])
def test_a_worker_ends_with_its_parent(kind):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, WORKER, kind], env=env, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout.readline() == "watching\n"
        below = psutil.Process(parent.pid).children(recursive=True)
        assert len(below) == (1 if kind == "child" else 2)
        assert all(p.is_running() for p in below)
        parent.kill()
        _, alive = psutil.wait_procs(below, timeout=30)
    assert not [p for p in alive if p.status() != psutil.STATUS_ZOMBIE]


def test_another_machines_process_is_nobodys_parent():
    from openended.harness.app.hydra import parent_watch

    before = len(parent_watch._watching)
    parent_watch.end_with_parent(parent_watch.ParentProcess("00000000-00000000", 1, 1))
    parent_watch.end_with_parent(parent_watch.identify_process())
    assert len(parent_watch._watching) == before
