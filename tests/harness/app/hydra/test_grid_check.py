"""What a grid lacks is reported once, before its first job."""

from __future__ import annotations

import importlib.util

import pytest

from openended.harness.app.hydra.grid_check import _refuse
from openended.harness.core.errors import DataError, SpecError
from openended.harness.run.forecast import Forecast
from tests.helpers import openended

SMALL = ["num_examples=8", "max_new_tokens=4", "metric=[distinct_n]"]


@pytest.mark.parametrize("launcher", ["basic", "joblib"])
def test_a_missing_model_is_one_line_with_its_command(launcher, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    words = ["-m", f"hydra/launcher={launcher}", "model=docs-s,gpt2-xl", "seed=0,1,2", *SMALL]
    done = openended(*words, cwd=tmp_path, verbose=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "3 of 6 jobs cannot run, so none was started: model openai-community/gpt2-xl: not in" in done.stderr
    assert "hf download openai-community/gpt2-xl" in done.stderr
    assert not (tmp_path / "outputs/grids").exists()


def test_a_missing_file_is_one_line(tmp_path):
    words = ["-m", "task=jsonl", "task.path=lost.jsonl", "decoder=greedy,nucleus", "seed=0,1", *SMALL]
    done = openended(*words, cwd=tmp_path, verbose=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "4 of 4 jobs cannot run, so none was started" in done.stderr
    assert "lost.jsonl" in done.stderr


def test_an_option_that_is_wrong_in_every_job_stops_the_grid(tmp_path):
    done = openended("-m", "decoder.p=7", "seed=0,1", *SMALL, cwd=tmp_path, verbose=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "2 of 2 jobs cannot run" in done.stderr


def test_a_missing_package_is_found_before_the_first_job(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "sentence_transformers" else find(name)
    )
    words = ["-m", "embedder=sentence", "seed=0,1", "num_examples=8", "max_new_tokens=4", "metric=[mauve]"]
    done = openended(*words, cwd=tmp_path, verbose=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "sentence_transformers is not installed" in done.stderr


def test_a_grid_starts_where_only_the_options_of_some_jobs_are_wrong():
    _refuse([], 3, Forecast())
    _refuse([SpecError("p"), SpecError("p")], 3, Forecast())
    with pytest.raises(DataError, match=r"^3 of 3 jobs cannot run, so none was started: p$"):
        _refuse([SpecError("p")] * 3, 3, Forecast())
    with pytest.raises(DataError, match=r"^1 of 3 jobs cannot run, so none was started: no file$"):
        _refuse([SpecError("p"), DataError("no file")], 3, Forecast())
