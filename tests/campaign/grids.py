"""Kills of whole grids, by every launcher."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.campaign.world import Tally, World
from tests.helpers import ROOT

LAUNCHERS = {
    "basic": [],
    "joblib": ["hydra/launcher=joblib"],
    "submitit": ["hydra/launcher=submitit", "hydra.launcher.cluster=local", "hydra.launcher.processes=2"],
}
KILLS_EACH = 3
"""Kills of a grid before it may end."""
PATIENCE = 60.0
"""Seconds in which workers must have followed their parent."""


def grids(world: World, count: int, draw: random.Random) -> Tally:
    """Kill the parent of a grid at any moment: its workers end with it, the same command goes on to the same bytes."""
    tally = Tally("kills of grids, by launcher in turn")
    calm = _values(_through(world, "calm-grid", []))
    seconds = {name: _timed(world, f"timed-{name}", words) for name, words in LAUNCHERS.items()}
    for number in range(0, count, KILLS_EACH):
        launcher = list(LAUNCHERS)[number // KILLS_EACH % len(LAUNCHERS)]
        out = f"grid-{number}"
        for kill in range(number, min(number + KILLS_EACH, count)):
            with tally.one(f"kill {kill} ({launcher})"):
                _killed(world, out, LAUNCHERS[launcher], draw.random() * seconds[launcher])
                if kill == min(number + KILLS_EACH, count) - 1:
                    assert _values(_through(world, out, LAUNCHERS[launcher])) == calm, "another result"
        shutil.rmtree(world.folder / out, ignore_errors=True)
    return tally


def _start(world: World, out: str, launcher: list[str]) -> subprocess.Popen[str]:
    grid = ["decoder=greedy,ancestral", "seed=0,1", "num_examples=20", "name=grid"]
    return subprocess.Popen(
        [sys.executable, "-m", "openended", "-m", *world.list_words(out), *grid, *launcher], cwd=world.folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def _through(world: World, out: str, launcher: list[str]) -> Path:
    process = _start(world, out, launcher)
    said = process.communicate(timeout=240)[1]
    assert process.returncode == 0, said[-500:]
    assert "Traceback" not in said, said[-500:]
    return world.folder / out


def _timed(world: World, out: str, launcher: list[str]) -> float:
    started = time.monotonic()
    _through(world, out, launcher)
    return time.monotonic() - started


def _killed(world: World, out: str, launcher: list[str], after: float) -> None:
    process = _start(world, out, launcher)
    time.sleep(after)
    workers = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    process.communicate(timeout=240)
    until = time.monotonic() + PATIENCE
    while any(_lives(one) for one in workers):
        assert time.monotonic() < until, "workers outlive their parent"
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _lives(one: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return one.is_running() and one.status() != psutil.STATUS_ZOMBIE
    return False


def _values(outputs: Path) -> dict[str, bytes]:
    """The rows of the table and every text: what a grid is run for."""
    texts = {f"{p.parent.name}/{p.name}": p.read_bytes() for p in outputs.glob("store/generate/*/*/*.arrow")}
    tables = {p.name: p.read_bytes() for p in outputs.glob("reports/**/tables/results.csv")}
    assert texts, "no text was made"
    assert tables, "no table was made"
    return texts | tables
