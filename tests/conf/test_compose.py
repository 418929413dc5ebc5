"""Every option of every group composes and becomes a typed spec; mistakes are one clear line."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from openended.harness.app.hydra.command_line import to_hydra_arguments
from openended.harness.app.hydra.sweeper import compose_series
from openended.harness.app.hydra.using import sections
from openended.harness.core.catalogue import is_shared
from openended.harness.core.errors import SpecError
from openended.harness.run.settings import build_settings

CONF = Path(__file__).parents[2] / "conf"


@functools.cache
def config(*overrides: str) -> Mapping[str, Any]:
    """Compose the configuration with these words; each set of words once."""
    with initialize_config_module("openended.conf", version_base="1.3"):
        cfg = compose("config", overrides=to_hydra_arguments(overrides))
    plain = OmegaConf.to_container(cfg, resolve=True)
    return MappingProxyType({**plain, "experiment": "test"})


def options(group: str) -> list[str]:
    files = (path for path in (CONF / group).rglob("*.yaml") if not is_shared(path.name))
    return sorted(str(path.relative_to(CONF / group).with_suffix("")) for path in files)


# Options whose one required value has no default that could be right for everybody.
REQUIRED = {
    ("task", "jsonl"): ["task.path=x.jsonl"],
    ("task", "texts"): ["generations=x.jsonl"],
    ("task", "hub"): ["task.path=x/y"],
    ("model", "folder"): ["model.path=./x"],
}

CHOICES = [
    (group, option)
    for group in ("task", "model", "decoder", "scorer", "embedder", "metric", "runtime", "report")
    for option in options(group)
]


@pytest.mark.thin(3)
@pytest.mark.parametrize(("group", "option"), CHOICES)
def test_every_option_becomes_a_spec(group, option):
    choice = f"metric=[{option}]" if group == "metric" else f"{group}={option}"
    settings = build_settings(config(choice, *REQUIRED.get((group, option), [])))
    assert settings.spec()


# Experiments that read what only the user has.
GIVEN = {
    **{name: ["judgments=pairs.csv"] for name in ("mauve_table5", "mauve_table14")},
    **{name: ["judgments=ratings.csv"] for name in ("huse_table1", "huse_fig3", "huse_fig4", "huse_fig5")},
    "pr_table1": ["task.reference=runs/reference"],
    "pr_tableb1": ["task.path=biographies.jsonl"],
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment_becomes_settings(experiment):
    assert build_settings(config(f"experiment={experiment}", *GIVEN.get(experiment, []))).spec()


PAPERS = {
    "mauve_table": [*range(3, 13), 14],
    "mauve_fig": ["2", "4_length", "5_clusters", "5_scaling", "6_length", "7_n", "8_k", "8_p"],
    "pr_table": ["1", "b1", "b5"],
    "pr_fig": ["1", "6_k", "6_n", "7"],
    "huse_table": [1],
    "huse_fig": [3, 4, 5],
    "": ["quality_diversity", "zipf"],
}
SHOWN = [f"{kind}{number}" for kind, numbers in PAPERS.items() for number in numbers]


def test_every_table_and_figure_of_the_papers_has_an_experiment_with_axes_for_docs():
    assert set(SHOWN) <= set(options("experiment"))
    assert all(sections(name) == ("docs",) for name in SHOWN)


@pytest.mark.long
@pytest.mark.parametrize(("using", "suffix"), [("paper", ""), ("docs", "_docs")])
def test_the_series_runs_every_table_and_figure(using, suffix):
    with initialize_config_module("openended.conf", version_base="1.3"):
        cfg = compose(
            "config", overrides=to_hydra_arguments(["experiment=paper", f"using={using}"]), return_hydra_config=True
        )
        found = compose_series(cfg)
    assert sorted(found) == sorted(f"{name}{suffix}" for name in SHOWN)
    assert cfg.report.kind == "findings"


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", SHOWN)
def test_experiments_using_docs_run_on_the_bundled_data_and_models(name):
    settings = build_settings(config(f"experiment={name}", "using=docs"))
    rated = settings.judgments is not None and [metric.name for metric in settings.metrics] == ["huse"]
    assert settings.task.name == "docs" or rated
    assert settings.generations is None
    assert settings.num_examples <= 500
    for model in (settings.model, settings.scorer):
        assert model is not None
        assert model.path.startswith("bundled:")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_examples": 0}, "num_examples: expected 1 or more, or all, got 0"),
        ({"min_new_tokens": 65}, "min_new_tokens: expected 0 .* to max_new_tokens, got 65"),
        ({"num_examples": "many"}, "num_examples: expected int or all, got 'many'"),
        ({"seeed": 1}, "no option 'seeed'; did you mean 'seed'"),
        ({"model": None}, "model: expected a value when the harness generates, got None"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(SpecError, match=message):
        build_settings({**config(), **change})


def test_seed_zero_is_a_seed():
    assert build_settings(config("seed=0")).spec()["seed"] == 0


def test_texts_on_docs_are_as_long_as_the_human_ones():
    assert build_settings(config("max_new_tokens=32")).min_new_tokens == 32
    assert build_settings(config("min_new_tokens=0")).min_new_tokens == 0
    assert build_settings(config("task=webtext")).min_new_tokens == 0
