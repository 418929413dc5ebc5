"""The wheel holds everything: installed elsewhere, it runs the quick start from any directory. And the README is true."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Build the wheel from a copy of the tracked files and unpack it into an empty folder."""
    work = tmp_path_factory.mktemp("wheel")
    copy = work / "source"
    for name in ("conf", "harness", "metrics", "tasks"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(work), str(copy)], check=True)
    (wheel,) = work.glob("openended-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", str(work / "site"), str(wheel)], check=True)
    return work / "site"


@pytest.mark.slow
def test_installed_wheel_runs_the_quick_start_from_another_directory(installed, tmp_path):
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PYTHONPATH": str(installed)}
    where = subprocess.run(
        [sys.executable, "-c", "import harness; print(harness.__file__)"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(installed)), "the test must run the installed copy"
    words = ["experiment=quickstart", "num_examples=24", "max_new_tokens=8"]
    done = subprocess.run(
        [sys.executable, "-m", "openended", *words],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for expected in (
        "human",
        "greedy",
        "ancestral",
        "nucleus",
        "MAUVE",
        "report.html",
        "(results: .md .tex .csv)",
        "(divergence, ",
    ):
        assert expected in done.stdout
    assert len(list(tmp_path.glob("outputs/runs/quickstart/*/record.json"))) == 5, (
        "greedy once, two seeds of the others"
    )


def test_readme_tables_are_those_of_the_registry():
    done = subprocess.run([sys.executable, str(ROOT / "scripts/readme.py"), "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "README.md is stale: run scripts/readme.py"
