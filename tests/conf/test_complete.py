"""Classes give the options of every group; `conf/` holds what differs from them."""

import dataclasses
from typing import Any

import pytest
import yaml

from openended.harness.core import (
    CLASS_GROUPS,
    build,
    canonicalize,
    find_class,
    list_members,
    load_member,
    load_members,
    read_node,
)
from openended.harness.core.choices import format_options, list_bundled_choices, read_set
from openended.harness.core.registry import NAMED, build_class_node, read_option_docs
from openended.harness.core.synonyms import resolve_metric_names
from tests.helpers import ROOT

CONF = ROOT / "conf"
CLASSES = [(group, name) for group in CLASS_GROUPS for name in list_members(group)]
FILES = sorted(CONF.rglob("*/*.yaml"))
SETS = sorted(path.stem for path in CONF.glob("metric/*.yaml"))
VARIANTS = [path for path in FILES if path.parent.name in {*CLASS_GROUPS, "scorer"} and path.parent.name != "metric"]
NOTHING = {("scorer", "none"), ("embedder", "none")}


@pytest.mark.parametrize(("group", "name"), CLASSES)
def test_a_class_gives_each_of_its_options_with_its_default_and_what_it_means(group, name):
    cls = load_member(group, name)
    node = build_class_node(group, name)
    assert set(node) - {"name"} == {f.name for f in dataclasses.fields(cls)}
    assert node.get("name") == (name if group in NAMED else None)
    if "???" not in node.values():
        made = build(group, node) if group in NAMED else cls(**node)
        assert canonicalize(dataclasses.asdict(made)) == canonicalize(dataclasses.asdict(cls()))
    undocumented = {f.name for f in dataclasses.fields(cls)} - read_option_docs(cls).keys()
    assert not undocumented, f"{cls.__name__}: a docstring below each option says what it means"


@pytest.mark.parametrize("path", VARIANTS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_file_says_what_differs_from_what_it_builds_on(path):
    group, own = path.parent.name, yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    if path.stem.startswith("_") or (group, path.stem) in NOTHING:
        return
    bases = [item for item in own.pop("defaults") if item != "_self_"]
    inherited: dict[str, Any] = {}
    for item in bases:
        parent = item.partition("@")[0].removeprefix("/")
        parent_group, _, parent_name = parent.rpartition("/")
        inherited |= read_node(parent_group or group, parent_name)
    changed = own if "package _global_" not in path.read_text(encoding="utf-8") else own.get(group, {})
    repeated = {key for key, value in changed.items() if key in inherited and inherited[key] == value}
    assert not repeated, f"{path.name} repeats what it builds on"
    assert set(changed) <= inherited.keys() if inherited else True


def test_no_file_copies_a_class():
    copies = [path for path in VARIANTS if find_class(path.parent.name, f"_{path.stem}") == path.stem]
    assert [path.stem for path in copies] == ["docs", "texts", "unconditional"], "these set options of the run too"
    assert not {*SETS} & {*list_members("metric")}


@pytest.mark.parametrize(("group", "name"), [("metric", "mauve"), ("decoder", "beam_no_repeat"), ("task", "docs")])
def test_options_as_yaml_are_the_node_with_a_comment_for_each(group, name):
    text = format_options(group, name)
    assert yaml.safe_load(text) == read_node(group, name)
    assert text.count("#") >= len(yaml.safe_load(text)[name] if group == "metric" else yaml.safe_load(text)) - 1
    assert max(map(len, text.splitlines())) <= 122


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(CONF)))
def test_a_yaml_says_first_what_it_is(path):
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("name", SETS)
def test_a_set_of_metrics_names_metrics(name):
    assert set(yaml.safe_load((CONF / "metric" / f"{name}.yaml").read_text(encoding="utf-8"))) == {"defaults"}
    assert read_set(name)
    assert set(resolve_metric_names([name])) <= load_members("metric").keys()


def test_the_set_of_all_metrics_asks_no_people_and_no_grid():
    classes = load_members("metric")
    assert not [n for n in resolve_metric_names(["all"]) if classes[n].family == "human" or classes[n]().reads_grid]


def pinned(group: str, name: str) -> tuple[Any, ...]:
    node = read_node(group, name)
    return node["path"], node["label"], node["revision"], node["dtype"]


@pytest.mark.parametrize("name", ["gpt2", "gpt2-large"])
def test_one_model_has_one_id_and_commit_in_every_role(name):
    roles = [group for group in ("model", "scorer", "embedder") if name in list_bundled_choices(group)]
    assert len(roles) >= 2
    assert {pinned(group, name) for group in roles} == {pinned("model", name)}
    assert len(pinned("model", name)[2]) == 40
