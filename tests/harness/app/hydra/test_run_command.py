"""Runs and grids in this process: exit codes, one line per error, one line per job; the end of a grid."""

import json
import logging

import pytest

from openended.harness.app import cli
from openended.harness.app.hydra.grid_run import show_failed, show_shared_runs
from openended.harness.app.hydra.jobs import JobRunner, LogOptions
from openended.harness.core import read_json
from tests.helpers import as_a_process, exit_code

SMALL = ["num_examples=8", "max_new_tokens=4", "metric=[distinct_n]"]


@pytest.fixture
def away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_one_run_is_one_line_a_table_and_where_its_files_are(away, capsys):
    assert exit_code(cli.main, *SMALL, draw=True) == 0
    first = capsys.readouterr()
    (line,) = first.err.splitlines()
    assert line.startswith("run        outputs/runs/default/")
    assert " computed, 0 cached in " in line
    assert "signature" not in first.out
    said = [line.split()[0] for line in first.out.splitlines() if line[:1].isalpha() and "outputs/" in line]
    assert said == ["report", "tables", "figures"]
    assert exit_code(cli.main, *SMALL, "-v") == 0
    again = capsys.readouterr()
    assert "generate " in again.err
    assert "(0 computed, " in again.err
    assert "signature  " in again.out


@pytest.mark.slow
def test_a_grid_is_one_line_a_job_and_its_errors_once(away, capsys):
    assert exit_code(cli.main, "-m", "decoder=nucleus,mdlm", *SMALL) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[0].startswith("grid       1 of 2 done, perhaps ")
    assert said[1].startswith("grid       1 of 2 done, 1 failed; decoder=mdlm: failed: model docs-s")
    assert said[2].startswith("failed: decoder=mdlm: model docs-s")
    assert said[3].startswith("1 of 2 jobs failed")


@pytest.mark.slow
def test_a_flag_in_the_middle_and_quiet(away, capsys):
    assert exit_code(cli.main, "decoder=greedy", "-m", "seed=0,1", "-q", "name=q", *SMALL) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out == "outputs/reports/q\n"


@pytest.mark.slow
def test_grids_of_one_second_have_folders_and_names_of_their_own(away, monkeypatch, capsys):
    for _ in range(2):
        words = ["-m", "seed=0,1", "-q", "hydra.sweep.dir=outputs/grids/now", "decoder=greedy", *SMALL]
        assert exit_code(cli.main, *words) == 0
    assert sorted(path.name for path in away.glob("outputs/grids/*")) == ["now", "now-2"]
    assert sorted(path.name for path in away.glob("outputs/runs/*")) == ["now", "now-2"]


@pytest.mark.parametrize(("error", "code", "said"), [(TypeError("a fault"), 1, "seed=0: failed: TypeError: a fault"),
                                                     (KeyboardInterrupt(), 130, "the same command resumes here")])  # fmt: skip
def test_a_failure_is_told_when_it_happens_and_an_interrupt_how_to_go_on(error, code, said, away, monkeypatch, capsys):
    def fault(*_):
        raise error

    monkeypatch.setattr("openended.harness.run.run", fault)
    assert exit_code(cli.main, "-m", "seed=0,1", *SMALL) == code
    assert said in capsys.readouterr().err
    states = [json.loads(path.read_text())["state"] for path in sorted(away.glob("outputs/grids/**/jobs/*.json"))]
    assert states == (["failed", "failed"] if code == 1 else ["interrupted"])


@pytest.mark.slow
def test_each_report_is_there_when_the_next_experiment_begins(away, monkeypatch, capsys):
    there = []
    execute = JobRunner.execute

    def watched(self, settings, overrides):
        there.append((settings.experiment, sorted(p.name for p in away.glob("outputs/reports/*"))))
        return execute(self, settings, overrides)

    monkeypatch.setattr(JobRunner, "execute", watched)
    words = ["experiment=paper", "using=docs", "hydra.sweeper.experiments=[mauve_fig8_k,zipf]", "num_examples=6"]
    more = ["max_new_tokens=3", "metric=[mauve,zipf]", "seed=0", "name=all", "decoder.k=5", "decoder=top_k"]
    assert exit_code(cli.main, *words, *more) == 0, capsys.readouterr().err
    assert ("all-zipf_docs", ["all-mauve_fig8_k_docs"]) in there
    assert {name for name, _ in there} == {"all-mauve_fig8_k_docs", "all-zipf_docs"}
    reports = {p.name for p in away.glob("outputs/reports/*")}
    assert reports == {"all-mauve_fig8_k_docs", "all-zipf_docs", "all"}
    (facts,) = away.glob("outputs/grids/all/*/grid.json")
    assert set(read_json(facts)["reports"]) == reports


def test_verbose_shows_ours_and_not_the_libraries(tmp_path):
    with as_a_process(("openended",), tmp_path):
        node = {"version": 1, "disable_existing_loggers": False}
        LogOptions(node, verbose=False, quiet=False).apply()
        assert not logging.getLogger("openended.harness.run.artifacts").isEnabledFor(logging.INFO)
        LogOptions(node, verbose=True, quiet=False).apply()
        assert logging.getLogger("openended.harness.run.artifacts").isEnabledFor(logging.INFO)
        assert not logging.getLogger("urllib3").isEnabledFor(logging.INFO)


def test_jobs_that_failed_alike_are_one_line(caplog):
    assert show_failed([{"job": f"seed={i}", "state": "failed", "error": "no memory"} for i in range(20)]) == 20
    first, total = (record.getMessage() for record in caplog.records)
    assert first == "failed: 20 jobs for the same reason (seed=0; seed=1; seed=2; …): no memory"
    assert total.startswith("20 of 20 jobs failed")


def test_jobs_that_are_one_run_are_told_with_the_reason(caplog):
    rows = [{"job": f"decoder={d} seed={s}", "folder": d if d == "greedy" else d + s} for d in ("greedy", "nucleus")
            for s in "01"]  # fmt: skip
    with caplog.at_level(logging.INFO):
        show_shared_runs(rows)
    (said,) = [r.getMessage() for r in caplog.records]
    assert said.startswith("grid       4 jobs, 3 distinct runs; these share one run: ")
    assert said.endswith(
        "decoder=greedy seed=0 and decoder=greedy seed=1 (the decoder is deterministic, so the seed has no effect)"
    )
    caplog.clear()
    show_shared_runs(rows[2:])
    assert not caplog.records
    show_shared_runs([{"job": "p=0", "folder": "a"}, {"job": "p=1", "folder": "a"}])
    assert "deterministic" not in caplog.text
