"""The state of a grid: its facts, the files of its jobs, the time left, and the reports of a series."""

import multiprocessing as mp
import os
from pathlib import Path

from openended.harness.app.hydra.grid_state import (
    estimate_time_left,
    find_same_error,
    format_progress,
    has_failed_job,
    mark_interrupted,
    write_state,
)
from openended.harness.core import write_json
from openended.harness.results import GridFolder, read_jobs
from openended.harness.storage import GRID, create_unique_folder
from tests.helpers import cases


def furnished(grid):
    write_json(grid / GRID, {"total": 3, "axes": {"seed": 2}})
    for number in range(2):
        write_state(grid, number, f"seed={number}", "done", folder=f"runs/{number}")
    return sorted((grid / "jobs").glob("*.json"))


def test_a_job_writes_and_reads_its_state(tmp_path):
    assert read_jobs(tmp_path) == []
    write_state(tmp_path, 7, "seed=7", "running")
    assert not has_failed_job(tmp_path)
    write_state(tmp_path, 7, "seed=7", "failed", 1.5, error="no memory")
    (row,) = read_jobs(tmp_path)
    assert (row["job"], row["state"], row["number"], row["error"]) == ("seed=7", "failed", 7, "no memory")
    assert row["seconds"] == 1.5
    assert has_failed_job(tmp_path)
    assert find_same_error(tmp_path, "no memory") == "for the same reason as seed=7"
    assert find_same_error(tmp_path, "no disk") == "no disk"


@cases("text", "", "{", "[]", '{"job": "a", "state": "lost", "seconds": 1}', '{"state": "done"}', "\0" * 9)
def test_a_damaged_job_file_is_a_failed_job(text, tmp_path):
    first, _ = furnished(tmp_path)
    first.write_text(text)
    job, other = read_jobs(tmp_path)
    assert (job["state"], other["state"]) == ("failed", "done")
    assert "is damaged" in job["error"]
    assert "run the same command again" in job["error"]
    assert format_progress(tmp_path).startswith("1 of 3 done, 1 failed")


def test_running_jobs_of_a_command_that_ends_are_marked(tmp_path):
    furnished(tmp_path)
    write_state(tmp_path, 2, "seed=2", "running")
    assert format_progress(tmp_path) == "2 of 3 done, 1 running"
    mark_interrupted(tmp_path)
    assert [row["state"] for row in read_jobs(tmp_path)] == ["done", "done", "interrupted"]


@cases(
    "text, message",
    ("{", "damaged, left aside"), ("[]", "damaged, left aside"), ('{"total": "abc"}', "total: expected a whole number"),
    ('{"total": true}', "total"), ('{"started": "now"}', "started"), ('{"titles": "abc", "total": {}}', "titles"),
)  # fmt: skip
def test_a_damaged_grid_file_stops_no_job(text, message, tmp_path, caplog):
    furnished(tmp_path)
    (tmp_path / GRID).write_text(text)
    assert format_progress(tmp_path) == "2 of 2 done"
    assert message in caplog.text


def _grab(folder, out) -> None:
    out.put([str(create_unique_folder(folder)) for _ in range(20)])


def test_many_processes_never_share_a_folder(tmp_path):
    context = mp.get_context("fork")
    out = context.Queue()
    several = [context.Process(target=_grab, args=(tmp_path / "grid", out)) for _ in range(4)]
    for one in several:
        one.start()
    names = [name for _ in several for name in out.get(timeout=60)]
    for one in several:
        one.join()
    assert len(set(names)) == len(os.listdir(tmp_path)) == 80


def job(title, seconds, *, made=3, state="done"):
    return {"job": title, "seconds": seconds, "made": made, "state": state}


def grid(*titles, started=0.0):
    return GridFolder(Path(), "", started=started, titles=titles)


@cases(
    "jobs, facts, now, expected",
    ([job("model=s", 10.0)], grid("model=s", "model=l"), 10.0, "about 10 s left"),
    # What was cached says nothing about what will be computed.
    ([job("p=1 seed=0", 0.5, made=0), job("p=1 seed=1", 20.0)], grid("p=1 seed=0", "p=1 seed=1", "p=1 seed=2"), 20.5,
     "about 20 s left"),
    # Two processes.
    ([job("seed=0", 10.0), job("seed=1", 10.0)], grid("seed=0", "seed=1", "seed=2", "seed=3"), 10.0, "about 10 s left"),
    ([job("seed=0", 1.0)], grid("seed=0"), 1.0, ""),
    ([], grid("seed=0"), 1.0, ""),
    ([job("seed=0", 1.0, state="failed")], grid(), 1.0, ""),
)  # fmt: skip
def test_the_time_left_is_that_of_the_jobs_that_ended(jobs, facts, now, expected):
    assert estimate_time_left(jobs, facts, now) == expected
