"""Composition errors as one line, and what `-v` lets through."""

from __future__ import annotations

import logging

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from openended.harness.app.hydra.job_output import (
    name_lines,
    set_detail,
    show_failed,
    show_shared_runs,
    translate_config_errors,
)
from openended.harness.core.errors import SpecError
from tests.helpers import as_a_process


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("decoder=nucelus", "no decoder 'nucelus'; did you mean 'nucleus'?"),
        ("scorer.dtpye=float16", "no option 'scorer.dtpye'; did you mean 'dtype'?"),
        ("embedder.layr=3", "no option 'embedder.layr'; did you mean 'layer'?"),
    ],
)
def test_a_misspelt_word_names_the_nearest(word, said):
    with (
        pytest.raises(SpecError) as caught,
        translate_config_errors(),
        initialize_config_module("openended.conf", version_base="1.3"),
    ):
        compose("config", overrides=[word])
    assert str(caught.value).startswith(said)


def test_a_missing_value_is_named():
    with (
        pytest.raises(SpecError, match=r"option 'task.path' has no default: give it as task.path=…"),
        translate_config_errors(),
    ):
        OmegaConf.to_container(OmegaConf.create({"task": {"path": "???"}}), throw_on_missing=True)


def test_verbose_shows_ours_and_not_the_libraries(tmp_path):
    with as_a_process(("openended",), tmp_path):
        set_detail(verbose=False)
        assert logging.getLogger("openended").level == logging.NOTSET
        set_detail(verbose=True)
        assert logging.getLogger("openended.harness.run.artifacts").isEnabledFor(logging.INFO)
        assert not logging.getLogger("urllib3").isEnabledFor(logging.INFO)


def test_failed_jobs_are_told_with_their_reasons(caplog):
    jobs = [
        {"job": "a", "state": "done"},
        {"job": "b", "state": "running"},
        {"job": "c", "state": "failed", "error": "e"},
    ]
    assert show_failed(jobs) == 2
    assert [r.getMessage() for r in caplog.records][:2] == ["running: b: it did not finish", "failed: c: e"]


def test_jobs_that_failed_alike_are_one_line(caplog):
    jobs = [{"job": f"seed={i}", "state": "failed", "error": "no memory"} for i in range(20)]
    assert show_failed(jobs) == 20
    first, total = (record.getMessage() for record in caplog.records)
    assert first == "failed: 20 jobs for the same reason (seed=0; seed=1; seed=2; …): no memory"
    assert total.startswith("20 of 20 jobs failed")


def test_jobs_that_are_one_run_are_told_with_the_reason(caplog):
    jobs = [{"job": f"decoder={d} seed={s}", "folder": d if d == "greedy" else d + s} for d in ("greedy", "nucleus")
            for s in "01"]  # fmt: skip
    with caplog.at_level(logging.INFO):
        show_shared_runs(jobs)
    (said,) = [r.getMessage() for r in caplog.records]
    assert said.startswith("grid       4 jobs, 3 distinct runs; these share one run: ")
    assert said.endswith(
        "decoder=greedy seed=0 and decoder=greedy seed=1 (the decoder is deterministic, so the seed has no effect)"
    )
    caplog.clear()
    show_shared_runs(jobs[2:])
    assert not caplog.records


def test_the_lines_of_a_worker_name_its_job(capsys, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler()])
    for title in ("p=0.8", "p=0.9"):
        name_lines(title)
        logging.getLogger("openended.harness.run.artifacts").warning("made %d", 3)
        logging.getLogger("openended.harness.app.hydra.job").warning("grid 1 of 2")
    assert capsys.readouterr().err.splitlines() == ["[p=0.8] made 3", "grid 1 of 2", "[p=0.9] made 3", "grid 1 of 2"]
