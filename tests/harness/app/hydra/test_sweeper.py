"""Several grids as one: their jobs, and what the command line changes."""

from __future__ import annotations

import pytest
from hydra import compose, initialize_config_module
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from openended.harness.app.hydra.job import compose_settings
from openended.harness.app.hydra.sweeper import check_grid_size, count_values, find_axes, list_jobs
from openended.harness.core import SpecError
from openended.harness.models.spec import ModelSpec
from openended.harness.run.session import Session
from openended.harness.storage.store import Store


def config(sweeper, *words):
    return OmegaConf.create({"hydra": {"sweeper": sweeper, "overrides": {"task": list(words)}}})


def test_grids_are_joined_each_over_the_shared_axes():
    grids = [{"decoder": "greedy"}, {"decoder": "nucleus", "decoder.p": "0.9,0.95"}]
    jobs = list_jobs(config({"params": {"seed": "0,1"}, "grids": grids}, "num_examples=8"))
    assert jobs == [
        ["seed=0", "decoder=greedy", "num_examples=8"],
        ["seed=1", "decoder=greedy", "num_examples=8"],
        ["seed=0", "decoder=nucleus", "decoder.p=0.9", "num_examples=8"],
        ["seed=0", "decoder=nucleus", "decoder.p=0.95", "num_examples=8"],
        ["seed=1", "decoder=nucleus", "decoder.p=0.9", "num_examples=8"],
        ["seed=1", "decoder=nucleus", "decoder.p=0.95", "num_examples=8"],
    ]
    assert find_axes(jobs) == {"seed": 2, "decoder": 2, "decoder.p": 2}


def test_the_command_line_wins_over_an_axis():
    assert list_jobs(config({"params": {"seed": "0,1,2"}}, "seed=7")) == [["seed=7"]]


def test_null_takes_an_axis_out():
    assert list_jobs(config({"params": {"seed": "0,1", "generations": None}})) == [["seed=0"], ["seed=1"]]


def test_an_axis_may_speak_of_an_option_of_the_job():
    jobs = list_jobs(config({"params": {"model.label": "'${model.path}'"}}))
    assert jobs == [["model.label='${model.path}'"]]


def test_a_series_has_the_jobs_of_each_experiment():
    words = ["experiment=paper_docs", "hydra.sweeper.experiments=[mauve_fig8_k,huse_fig4]", "seed=5"]
    with initialize_config_module("openended.conf", version_base="1.3"):
        cfg = compose("config", overrides=words, return_hydra_config=True)
        jobs = list_jobs(cfg)
    chosen = [word for job in jobs for word in job if word.startswith("experiment=")]
    assert chosen == ["experiment=mauve_fig8_k_docs"] * 6 + ["experiment=huse_fig4_docs"]
    assert all("seed=5" in job for job in jobs)
    assert {word for job in jobs for word in job if word.startswith("decoder.k=")} >= {"decoder.k=2", "decoder.k=4096"}


def test_a_series_with_an_unknown_experiment_is_an_error():
    words = ["experiment=paper_docs", "hydra.sweeper.experiments=[mauve_table33]"]
    with initialize_config_module("openended.conf", version_base="1.3"):
        cfg = compose("config", overrides=words, return_hydra_config=True)
        with pytest.raises(Exception, match="mauve_table33_docs"):
            list_jobs(cfg)


def test_the_jobs_of_one_model_are_neighbours():
    grids = [{"model": "a,b", "decoder": "greedy"}, {"model": "b,a", "decoder": "nucleus", "decoder.p": "0.9"}]
    jobs = list_jobs(config({"params": {"seed": "0,1"}, "grids": grids}))
    assert [job[1] for job in jobs] == ["model=a"] * 4 + ["model=b"] * 4
    assert [job[0] for job in jobs] == ["seed=0", "seed=1"] * 4


@pytest.mark.long
def test_the_grid_of_a_paper_loads_each_model_once(monkeypatch, tmp_path):
    """GPT-2 in four sizes, three decoders, two seeds; GPT-2 large scores and embeds."""
    monkeypatch.setattr(ModelSpec, "load", lambda spec, **_: spec)
    session = Session(Store(tmp_path))
    with initialize_config_module("openended.conf", version_base="1.3"):
        words = ["experiment=mauve_table6", "hydra.sweeper.params.seed='0,1'"]
        jobs = list_jobs(compose("config", overrides=words, return_hydra_config=True))
        for job in jobs:
            cfg = compose("config", overrides=["experiment=mauve_table6", *job])
            settings = compose_settings(cfg, "mauve_table6")
            for spec in (settings.model, settings.scorer):
                session.model(spec, settings.runtime)
            session.embedder(settings.embedder, settings.runtime)
    assert len(jobs) == 24
    assert sorted(session.loads) == ["gpt2", "gpt2-large", "gpt2-medium", "gpt2-xl"]


@pytest.mark.parametrize(
    "words", [["seed=range(0,1e9)"], ["seed=range(0,10000)", "samples=range(1,10000)"], ["seed=range(0,1,1e-12)"]]
)
def test_a_grid_of_too_many_jobs_is_refused_before_it_is_expanded(words):
    with pytest.raises(SpecError, match="jobs; expected at most"):
        check_grid_size(OverridesParser.create().parse_overrides(words))


@pytest.mark.parametrize(
    ("word", "count"), [("seed=0,1,2", 3), ("seed=range(0,10)", 10), ("p=range(0,1,0.3)", 4), ("p=range(10,0,-2)", 5)]
)
def test_values_of_an_axis_are_counted_without_a_list(word, count):
    (override,) = OverridesParser.create().parse_overrides([word])
    assert count_values(override) == count == len(list(override.sweep_string_iterator()))
