"""The end of a grid: a report that cannot be made is a clear error, never a warning with exit code 0."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from openended.harness.errors import SpecError
from openended.harness.hydra_app import job as grid
from openended.harness.io import write_json
from openended.harness.signature import digest


def write_job(path, row):
    write_json(path, {**row, "digest": digest(row)})


def config(folder):
    return OmegaConf.create(
        {
            "outputs_dir": str(folder),
            "report": {},
            "hydra": {
                "sweep": {"dir": str(folder)},
                "runtime": {"choices": {"experiment": None}},
                "sweeper": {},
                "overrides": {"task": []},
            },
        }
    )


def code_of_a_report_that_raises(error, tmp_path, monkeypatch):
    write_job(tmp_path / "jobs/00000.json", {"job": "a", "state": "done", "seconds": 1.0, "folder": str(tmp_path)})

    def fault(*_):
        raise error

    monkeypatch.setattr(grid, "show_report", fault)
    with pytest.raises(SystemExit) as left:
        grid.Watch().on_multirun_end(config(tmp_path))
    return left.value.code


def test_report_that_fails_leaves_with_exit_code_2(tmp_path, monkeypatch, caplog):
    assert code_of_a_report_that_raises(SpecError("two rows in one cell"), tmp_path, monkeypatch) == 2
    assert "two rows in one cell" in caplog.text


def test_failed_jobs_leave_with_exit_code_1(tmp_path, monkeypatch, caplog):
    write_job(tmp_path / "jobs/00000.json", {"job": "p=7", "state": "failed", "seconds": 1.0, "error": "out of range"})
    monkeypatch.setattr(grid, "show_report", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        grid.Watch().on_multirun_end(config(tmp_path))
    assert left.value.code == 1
    assert "p=7: out of range" in caplog.text


def test_an_unforeseen_error_at_the_end_leaves_with_exit_code_1_and_a_traceback_in_a_file(
    tmp_path, monkeypatch, caplog
):
    write_job(tmp_path / "jobs/00001.json", {"job": "b", "state": "running", "seconds": 1.0})
    assert code_of_a_report_that_raises(TypeError("a fault"), tmp_path, monkeypatch) == 1
    assert "TypeError: a fault" in caplog.text
    assert "running: b: it never ended" in caplog.text
    assert "in fault" in (tmp_path / "error.txt").read_text()
