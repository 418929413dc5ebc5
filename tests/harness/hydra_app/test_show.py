"""Composition errors as one line, and what `-v` lets through."""

from __future__ import annotations

import logging

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from openended.harness.errors import SpecError
from openended.harness.hydra_app.show import composing, set_detail, show_failed
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
        composing(),
        initialize_config_module("openended.conf", version_base="1.3"),
    ):
        compose("config", overrides=[word])
    assert str(caught.value).startswith(said)


def test_a_missing_value_is_named():
    with pytest.raises(SpecError, match=r"option 'task.path' has no default: give it as task.path=…"), composing():
        OmegaConf.to_container(OmegaConf.create({"task": {"path": "???"}}), throw_on_missing=True)


def test_verbose_shows_ours_and_not_the_libraries(tmp_path):
    with as_a_process(("openended",), tmp_path):
        set_detail(verbose=False)
        assert logging.getLogger("openended").level == logging.NOTSET
        set_detail(verbose=True)
        assert logging.getLogger("openended.harness.run.steps").isEnabledFor(logging.INFO)
        assert not logging.getLogger("urllib3").isEnabledFor(logging.INFO)


def test_failed_jobs_are_told_with_their_reasons(caplog):
    jobs = [
        {"job": "a", "state": "done"},
        {"job": "b", "state": "running"},
        {"job": "c", "state": "failed", "error": "e"},
    ]
    assert show_failed(jobs) == 2
    assert [r.getMessage() for r in caplog.records][:2] == ["running: b: it never ended", "failed: c: e"]
