"""The files of a grid: a folder of its own, and job files whose damage costs nothing."""

from __future__ import annotations

import multiprocessing as mp
import os

import pytest
from omegaconf import OmegaConf

from openended.harness.app.hydra.jobfile import GRID, JobFile, create_grid_folder, format_progress, read_jobs
from openended.harness.core.io import write_json
from openended.harness.storage.folders import create_unique_folder


def hydra(grid, number=0):
    return OmegaConf.create(
        {"overrides": {"task": ["seed=0", "x=1"], "hydra": []}, "sweep": {"dir": str(grid)}, "job": {"num": number}}
    )


def furnished(grid):
    write_json(grid / GRID, {"total": 2, "axes": {"seed": 2}})
    for number in range(2):
        JobFile(hydra(grid, number)).write("done", folder=f"runs/{number}")
    return sorted((grid / "jobs").glob("*.json"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"job": "a", "state": "done", "seconds": 1}', "\0" * 40])
def test_a_damaged_job_file_fails_no_grid_whose_jobs_succeeded(text, tmp_path):
    first, _ = furnished(tmp_path)
    first.write_text(text)
    assert [job["state"] for job in read_jobs(tmp_path)] == ["done", "done"]
    assert read_jobs(tmp_path)[0]["folder"] == "runs/0"
    assert "2 of 2 done" in format_progress(tmp_path)


def test_a_job_knows_its_position_in_the_grid(tmp_path):
    furnished(tmp_path)
    assert [JobFile(hydra(tmp_path, number)).position for number in range(2)] == ["job 1 of 2", "job 2 of 2"]


def test_where_the_copy_is_damaged_too_the_job_is_told_as_failed(tmp_path):
    first, _ = furnished(tmp_path)
    first.write_text("{")
    (first.parent / "copies" / first.name).write_text("{")
    job, other = read_jobs(tmp_path)
    assert (job["state"], other["state"]) == ("failed", "done")
    assert "is damaged" in job["error"]
    assert JobFile(hydra(tmp_path)).state == "failed"


def test_a_damaged_grid_file_stops_no_job(tmp_path, caplog):
    furnished(tmp_path)
    (tmp_path / GRID).write_text("{")
    assert JobFile(hydra(tmp_path)).title == "seed=0 x=1"
    assert JobFile(hydra(tmp_path)).position == "job 1"
    assert "2 of 2 done" in format_progress(tmp_path)
    assert "jobs run anyway" in caplog.text


@pytest.mark.parametrize(
    "facts",
    [
        {"total": "abc"}, {"total": -1}, {"total": True}, {"total": [1]}, {"started": "now"}, {"started": [2]}, {"axes": 3},
        {"titles": 7}, {"titles": "abc", "total": {}},
    ],
)  # fmt: skip
def test_grid_facts_of_a_wrong_kind_stop_no_job(facts, tmp_path, caplog):
    furnished(tmp_path)
    write_json(tmp_path / GRID, {"total": 2, "axes": {"seed": 2}, **facts})
    assert "2 of 2 done" in format_progress(tmp_path)
    assert JobFile(hydra(tmp_path)).title.startswith("seed=0")
    assert "unexpected value" in caplog.text


def config(folder, **more):
    return OmegaConf.create(
        {"plan_only": False, "outputs_dir": str(folder), **more, "hydra": hydra(folder / "grids" / "now")}
    )


def test_grids_of_one_second_have_folders_of_their_own(tmp_path):
    made = [config(tmp_path) for _ in range(3)]
    assert [create_grid_folder(one).name for one in made] == ["now", "now-2", "now-3"]
    assert [one.hydra.sweep.dir for one in made] == [str(tmp_path / "grids" / n) for n in ("now", "now-2", "now-3")]
    assert made[1].hydra.overrides.hydra == [f"hydra.sweep.dir='{tmp_path}/grids/now-2'"]


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
    assert len(set(names)) == 80
    assert len(os.listdir(tmp_path)) == 80


def test_a_plan_makes_nothing_in_the_outputs(tmp_path):
    folder = create_grid_folder(config(tmp_path / "out", plan_only=True))
    assert folder.is_dir()
    assert not (tmp_path / "out").exists()
