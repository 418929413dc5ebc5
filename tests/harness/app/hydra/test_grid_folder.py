"""The reports of a series: each when its experiment is done, once, by whichever process."""

from __future__ import annotations

from pathlib import Path

from openended.harness.app import cli
from openended.harness.app.hydra import job as grid_jobs
from openended.harness.app.hydra.grid_folder import (
    claim_report,
    find_finished_runs,
    is_report_complete,
    mark_report_complete,
)
from openended.harness.core.io import read_json, write_json
from tests.helpers import exit_code


def write(grid, number, state, **facts):
    write_json(grid / f"jobs/{number:05d}.json", {"job": "x", "state": state, "seconds": 1.0, **facts})


def test_an_experiment_has_ended_with_its_last_job(tmp_path):
    write_json(tmp_path / "grid.json", {"series": ["a", "a", "b"]})
    assert find_finished_runs(tmp_path, "a") == []
    write(tmp_path, 0, "done", folder="runs/a/1")
    write(tmp_path, 2, "running")
    assert find_finished_runs(tmp_path, "a") == []
    write(tmp_path, 1, "failed")
    assert find_finished_runs(tmp_path, "a") == [Path("runs/a/1")]
    assert find_finished_runs(tmp_path, "b") == []
    write(tmp_path, 1, "done", overrides=["seed=1"])  # its metrics wait for the whole grid
    assert find_finished_runs(tmp_path, "a") == []


def test_one_process_writes_a_report(tmp_path):
    assert claim_report(tmp_path, "a")
    assert not claim_report(tmp_path, "a")
    assert not is_report_complete(tmp_path, "a"), "a process that was killed has not written it"
    mark_report_complete(tmp_path, "a")
    assert is_report_complete(tmp_path, "a")


def test_each_report_is_there_when_the_next_experiment_begins(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    there = []
    run = grid_jobs.Job._run

    def watched(self, settings, overrides):
        there.append((settings.experiment, sorted(p.name for p in tmp_path.glob("outputs/reports/*"))))
        return run(self, settings, overrides)

    monkeypatch.setattr(grid_jobs.Job, "_run", watched)
    words = ["experiment=paper", "using=docs", "hydra.sweeper.experiments=[mauve_fig8_k,zipf]", "num_examples=6"]
    more = ["max_new_tokens=3", "metric=[distinct_n]", "seed=0", "name=all", "decoder.k=5", "decoder=top_k"]
    assert exit_code(cli.main, *words, *more) == 0, capsys.readouterr().err
    assert ("all-zipf_docs", ["all-mauve_fig8_k_docs"]) in there
    assert {name for name, _ in there} == {"all-mauve_fig8_k_docs", "all-zipf_docs"}
    reports = {p.name for p in tmp_path.glob("outputs/reports/*")}
    assert reports == {"all-mauve_fig8_k_docs", "all-zipf_docs", "all"}
    (facts,) = tmp_path.glob("outputs/grids/all/*/grid.json")
    assert set(read_json(facts)["reports"]) == reports
