"""The YAMLs of every group write out every option of their spec, with its default unless they are named variants."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from openended.harness.core.names import metric_names
from openended.harness.core.registry import members
from openended.harness.core.signature import canonical

CONF = Path(__file__).parents[2] / "conf"
GROUPS = ("task", "model", "decoder", "scorer", "embedder", "metric", "report", "runtime")
CLASSES = {"runtime": "openended.harness.core.runtime.Runtime"}  # the one group whose YAML names no class
NOTHING = {("scorer", "none"), ("embedder", "none")}
SETS = ("all", "diversity", "paper", "text", "two_sample")  # of metrics
FILES = [
    (group, path.stem)
    for group in GROUPS
    for path in sorted((CONF / group).glob("*.yaml"))
    if (group, path.stem) not in NOTHING and (group != "metric" or path.stem not in SETS)
]


def read(group: str, name: str) -> tuple[type, dict[str, Any]]:
    """The class of an option and what its YAML says."""
    node = yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))
    # A metric's YAML has one key, its name, for there are several in a run; a task may set options of the root as well.
    node = node[name] if group == "metric" else node.get(group, node)
    target = node.pop("_target_", CLASSES.get(group))
    module, _, attribute = target.rpartition(".")
    return getattr(importlib.import_module(module), attribute), node


def defaults(cls: type) -> dict[str, Any]:
    """Field → default; `???` where there is none."""
    out: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        made = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        out[field.name] = "???" if made is dataclasses.MISSING else made
    return out


@pytest.mark.parametrize(("group", "name"), FILES)
def test_every_option_is_written_out(group, name):
    cls, node = read(group, name)
    assert set(node) == set(defaults(cls)), f"conf/{group}/{name}.yaml and the fields of {cls.__name__}"


@pytest.mark.parametrize(("group", "name"), FILES)
def test_values_are_the_defaults_unless_the_file_is_a_variant_of_its_own_name(group, name):
    cls, node = read(group, name)
    known = defaults(cls)
    differ = {key for key in node if canonical(node[key]) != canonical(known[key])}
    if name == cls.name or group == "runtime":
        assert not differ
    else:
        assert differ, "a variant that varies nothing"


@pytest.mark.parametrize("path", sorted(CONF.rglob("*/*.yaml")), ids=lambda p: str(p.relative_to(CONF)))
def test_a_yaml_is_short_and_says_first_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert text.count("\n") <= 25


@pytest.mark.parametrize("name", SETS)
def test_a_set_of_metrics_names_metrics_and_is_itself_none(name):
    node = yaml.safe_load((CONF / "metric" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert set(node) == {"defaults"}
    assert name not in members("metric")
    assert set(metric_names([name])) <= members("metric").keys()


def test_the_set_of_all_metrics_lacks_those_that_ask_people_or_a_grid_alone():
    left_out = {name for name, cls in members("metric").items() if cls.family == "human" or cls().reads_grid}
    assert set(metric_names(["all"])) == members("metric").keys() - left_out


def pinned(group: str, name: str) -> tuple[Any, ...]:
    _, node = read(group, name)
    return node["path"], node["label"], node["revision"], node["dtype"]


@pytest.mark.parametrize("name", ["gpt2", "gpt2-large"])
def test_one_model_has_one_id_and_commit_in_every_role(name):
    roles = [group for group in ("model", "scorer", "embedder") if (CONF / group / f"{name}.yaml").is_file()]
    assert len(roles) >= 2
    assert {pinned(group, name) for group in roles} == {pinned("model", name)}
    assert len(pinned("model", name)[2]) == 40
