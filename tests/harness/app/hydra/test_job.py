"""Jobs in this process: exit codes, one line an error, one line a job; the end of a grid."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from openended.harness.app import cli
from openended.harness.app.hydra import job as grid
from openended.harness.core.errors import SpecError
from openended.harness.core.io import write_json
from openended.harness.core.signature import digest
from tests.helpers import exit_code


def write_job(path, row):
    write_json(path, {**row, "digest": digest(row)})


def config(folder):
    return OmegaConf.create(
        {
            "outputs_dir": str(folder),
            "name": "",
            "plan_only": False,
            "report": {},
            "hydra": {
                "sweep": {"dir": str(folder)},
                "verbose": False,
                "runtime": {"choices": {"experiment": None, "hydra/job_logging": "openended"}},
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


def test_report_that_fails_leaves_with_exit_code_2(tmp_path, monkeypatch, capsys):
    assert code_of_a_report_that_raises(SpecError("two rows in one cell"), tmp_path, monkeypatch) == 2
    assert capsys.readouterr().err == "openended: two rows in one cell\n"


def test_failed_jobs_leave_with_exit_code_1(tmp_path, monkeypatch, caplog):
    write_job(tmp_path / "jobs/00000.json", {"job": "p=7", "state": "failed", "seconds": 1.0, "error": "out of range"})
    monkeypatch.setattr(grid, "show_report", lambda *_: None)
    with pytest.raises(SystemExit) as left:
        grid.Watch().on_multirun_end(config(tmp_path))
    assert left.value.code == 1
    assert "p=7: out of range" in caplog.text


def test_an_unforeseen_error_at_the_end_leaves_with_exit_code_1_and_a_traceback_in_a_file(
    tmp_path, monkeypatch, caplog, capsys
):
    write_job(tmp_path / "jobs/00001.json", {"job": "b", "state": "running", "seconds": 1.0})
    assert code_of_a_report_that_raises(TypeError("a fault"), tmp_path, monkeypatch) == 1
    assert "TypeError: a fault" in capsys.readouterr().err
    assert "running: b: it did not finish" in caplog.text
    assert "in fault" in (tmp_path / "error.txt").read_text()


SMALL = ["num_examples=8", "max_new_tokens=4", "metric=[distinct_n]"]


def test_one_run_is_one_line_a_table_and_where_its_files_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
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


def test_a_grid_is_one_line_a_job_and_its_errors_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert exit_code(cli.main, "-m", "decoder=nucleus", "decoder.p=0.9,7", *SMALL) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[0].startswith("grid       1 of 2 done, perhaps ")
    assert said[1].startswith("grid       1 of 2 done, 1 failed; decoder.p=7: failed: nucleus.p: expected")
    assert said[2].startswith("failed: decoder.p=7: nucleus.p: expected")
    assert said[3].startswith("1 of 2 jobs failed")


@pytest.mark.long
def test_a_twin_of_a_paper_loads_each_model_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    job = grid.Job()
    words = [
        "experiment=mauve_table6",
        "using=docs",
        "num_examples=4",
        "max_new_tokens=3",
        "seed=0",
        "metric=[gen_ppl,frechet]",
    ]
    assert exit_code(lambda: cli.run_hydra("openended", "config", job, words), *words) == 0, capsys.readouterr().err
    (session,) = job._sessions.values()
    assert sorted(session.loads) == ["docs-m", "docs-s"]
    assert len(list(tmp_path.glob("outputs/runs/mauve_table6_docs/*"))) == 6


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["decoder=nucelus"], "no decoder 'nucelus'; did you mean 'nucleus'?"),
        (["decoder=nucleus", "decoder.pp=1"], "no option 'decoder.pp'; did you mean 'p'?"),
        (["decoder=nucleus", "decoder.p=7"], "nucleus.p: expected a number in (0, 1], got 7"),
        (["num_examples=9999999"], "num_examples: task docs holds"),
        (["task=jsonl"], "option 'task.path' has no default: give it as task.path=…"),
        (["outputs_dir=/proc/nowhere"], "/proc"),
        (["-m", "decoder=nucelus,greedy"], "no decoder 'nucelus'"),
        (["metric=[mauv]"], "no metric 'mauv'; did you mean 'mauve'?"),
        (["greedy"], "did you mean decoder=greedy?"),
        (["--decoder", "greedy"], "an option is typed as decoder=greedy"),
        (["seed=0,1"], "seed=0,1: several values are a grid: add -m, as in openended -m seed=0,1"),
        (["name=a/b"], "name: expected letters, digits"),
        (["task=jsonl", "task.path=~/no such file.jsonl"], "no such file.jsonl"),
    ],
)
def test_what_is_wrong_is_one_line_of_ours_and_exit_code_2(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert exit_code(cli.main, *words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("openended: ")
    assert said in line


def test_a_flag_in_the_middle_and_quiet(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert exit_code(cli.main, "decoder=greedy", "-m", "seed=0,1", "-q", "name=q", *SMALL) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out == "outputs/reports/q\n"


def test_a_failure_without_a_name_of_its_own_is_told_when_it_happens(tmp_path, monkeypatch, capsys):
    def fault(*_):
        raise TypeError("a fault")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("openended.harness.run.run", fault)
    assert exit_code(cli.main, "-m", "seed=0,1", *SMALL) == 1
    assert "seed=0: failed: TypeError: a fault" in capsys.readouterr().err.splitlines()[0]


def test_ctrl_c_is_exit_code_130_and_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("openended.harness.run.run", interrupted)
    assert exit_code(cli.main, *SMALL) == 130
    assert capsys.readouterr().err.strip().endswith("the same command resumes here")
