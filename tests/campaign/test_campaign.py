"""A short campaign of faults, most of it marked `long`; `bash scripts/campaign.sh` runs the long one and prints what was tried and survived."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("kills", 2),
        pytest.param("corruptions", 12, marks=pytest.mark.long),
        pytest.param("parts", 3, marks=pytest.mark.long),
        pytest.param("races", 3, marks=pytest.mark.long),
        pytest.param("jobs", 24, marks=pytest.mark.long),
        pytest.param("fuzz", 120, marks=pytest.mark.long),
        pytest.param("entries", 12, marks=pytest.mark.long),
        pytest.param("archives", 20, marks=pytest.mark.long),
        pytest.param("configurations", 20, marks=pytest.mark.long),
        pytest.param("servers", 20, marks=pytest.mark.long),
        pytest.param("raters", 60, marks=pytest.mark.long),
        pytest.param("searches", 4, marks=pytest.mark.long),
    ],
)
def test_every_fault_is_survived(kind, count):
    """In a process of its own: it forks, and must not do so beside the threads of other tests."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.campaign.faults", kind, str(count), "0"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=ROOT, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    tally = json.loads(done.stdout.splitlines()[-1])
    assert tally["lost"] == []
    assert tally["survived"] == tally["tried"] == count
    if kind == "jobs":
        assert tally["descriptors"][0] >= tally["descriptors"][1], "a job leaves descriptors open"
