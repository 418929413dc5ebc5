"""Settings of a grid's jobs, composed once for each choice of options; names of runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from openended.harness.app.hydra import compose as module
from openended.harness.app.hydra.compose import choose_name, compose_settings, iterate_settings
from openended.harness.app.hydra.sweeper import list_jobs
from openended.harness.core.errors import SpecError


@pytest.fixture
def context():
    with initialize_config_module("openended.conf", version_base="1.3"):
        yield


def test_a_job_has_the_settings_that_hydra_composes(context, monkeypatch):
    words = ["experiment=mauve_fig8_p", "metric=[mauve]", "metric.mauve.num_buckets=7", "runtime.device=cpu"]
    jobs = list_jobs(compose("config", overrides=words, return_hydra_config=True))
    jobs = [*jobs[::35], ["decoder=top_k", "decoder.k=3", "+model.label=x", "seed=4", "embedder=gpt2"]]
    count = []
    monkeypatch.setattr(module, "compose", lambda *a, **k: count.append(1) or compose(*a, **k))
    made = list(iterate_settings(jobs))
    assert len(count) == 5, "once for each of four models, and the last job"
    for job, settings in zip(jobs, made, strict=True):
        cfg = compose("config", overrides=job, return_hydra_config=True)
        assert settings == compose_settings(cfg, choose_name(cfg, cfg.hydra))


def test_the_name_is_the_given_one_else_the_experiments_else_the_grids_time():
    hydra = OmegaConf.create({"runtime": {"choices": {"experiment": "a/b"}}})
    assert choose_name(OmegaConf.create({"name": "p-sweep"}), hydra) == "p-sweep"
    assert choose_name(OmegaConf.create({"name": ""}), hydra) == "a-b"
    none = OmegaConf.create({"runtime": {"choices": {"experiment": None}}})
    assert choose_name(OmegaConf.create({}), none, Path("x/20260101T000000")) == "20260101T000000"
    assert choose_name(OmegaConf.create({"name": None}), none) == "default"


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "two words", "-x"])
def test_a_name_that_fits_no_folder_is_refused(name):
    with pytest.raises(SpecError, match="name: expected letters"):
        choose_name(OmegaConf.create({"name": name}), OmegaConf.create({"runtime": {"choices": {}}}))
