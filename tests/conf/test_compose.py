"""Every option of every group composes and becomes a typed spec; mistakes are one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf

from harness.errors import SpecError
from harness.settings import settings_from

CONF = Path(__file__).parents[2] / "conf"


def config(*overrides: str) -> dict[str, Any]:
    with initialize_config_module("conf", version_base="1.3"):
        cfg = compose("config", overrides=list(overrides))
    plain = OmegaConf.to_container(cfg, resolve=True)
    return {**plain, "experiment": "test"}


def options(group: str) -> list[str]:
    return sorted(str(p.relative_to(CONF / group).with_suffix("")) for p in (CONF / group).rglob("*.yaml"))


# Options whose one required value has no default that could be right for everybody.
REQUIRED = {
    ("task", "jsonl"): ["task.path=x.jsonl"],
    ("task", "hub"): ["task.path=x/y"],
    ("model", "folder"): ["model.path=./x"],
}

CHOICES = [
    (group, option)
    for group in ("task", "model", "decoder", "scorer", "embedder", "metric", "runtime", "report")
    for option in options(group)
]


@pytest.mark.parametrize(("group", "option"), CHOICES)
def test_every_option_becomes_a_spec(group, option):
    choice = f"metric=[{option}]" if group == "metric" else f"{group}={option}"
    settings = settings_from(config(choice, *REQUIRED.get((group, option), [])))
    assert settings.spec()


@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment_becomes_settings(experiment):
    assert settings_from(config(f"experiment={experiment}")).spec()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_examples": 0}, "settings.num_examples: expected 1 or more, got 0"),
        ({"num_examples": "many"}, "settings.num_examples: expected int, got 'many'"),
        ({"seeed": 1}, "no option 'seeed'; did you mean 'seed'"),
        ({"model": None}, "settings.model: expected a value when the harness generates, got None"),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(SpecError, match=message):
        settings_from({**config(), **change})


def test_seed_zero_is_a_seed():
    assert settings_from(config("seed=0")).spec()["seed"] == 0
