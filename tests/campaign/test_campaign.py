"""A short campaign of faults, most of it marked `long`; `bash scripts/campaign.sh` runs the long one and prints what was tried and survived."""

import json
import sys

import pytest

from tests.helpers import run_process

COUNTS = {
    "kills": 2, "corruptions": 12, "parts": 3, "races": 3, "jobs": 24, "fuzz": 120, "archives": 20,
    "configurations": 20, "servers": 20, "raters": 60,
}  # fmt: skip


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count"),
    [pytest.param(*entry, marks=() if entry[0] == "kills" else pytest.mark.long) for entry in COUNTS.items()],
)
def test_every_fault_is_survived(kind, count):
    """In a process of its own: it forks, and must not do so beside the threads of other tests."""
    done = run_process(sys.executable, "-m", "tests.campaign.faults", kind, str(count), "0", OMP_NUM_THREADS="1")
    tally = json.loads(done.stdout.splitlines()[-1])
    assert tally["lost"] == []
    assert tally["survived"] == tally["tried"] == count
    if kind == "jobs":
        assert tally["descriptors"][0] >= tally["descriptors"][1], "a job leaves descriptors open"
