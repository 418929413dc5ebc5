"""The YAMLs of every group write out every option of their spec, with its default unless they are named variants."""

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from openended.harness.core import canonicalize, load_members
from openended.harness.core.registry import list_bundled_choices, read_full_yaml, resolve_metric_names
from openended.harness.results.layout import Layout

CONF = Path(__file__).parents[2] / "conf"
GROUPS = ("task", "model", "decoder", "prompting", "scorer", "embedder", "metric", "report", "runtime", "tracker")
CLASSES = {  # the groups whose YAML names no class
    "prompting": "openended.harness.generation.prompting.PromptForm",
    "runtime": "openended.harness.core.runtime.Runtime",
    "tracker": "openended.harness.report.tracking.TrackerOptions",
}
NOTHING = {("scorer", "none"), ("embedder", "none")}
SETS = ("all", "distributional", "diversity", "paper", "stress", "text", "two_sample")  # of metrics
FILES = [
    (group, name)
    for group in GROUPS
    for name in list_bundled_choices(group)
    if (group, name) not in NOTHING and (group != "metric" or name not in SETS)
]


def read(group: str, name: str) -> tuple[type, dict[str, Any]]:
    """The class of an option and what its YAML says."""
    node = yaml.safe_load(read_full_yaml(group, name))
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
def test_every_option_is_written_out_with_its_default_unless_the_file_is_a_variant_of_its_own_name(group, name):
    cls, node = read(group, name)
    known = defaults(cls)
    assert set(node) == set(known), f"conf/{group}/{name}.yaml and the fields of {cls.__name__}"
    differ = {key for key in node if canonicalize(node[key]) != canonicalize(known[key])}
    if name == cls.name or group == "runtime" or (group, name) in (("tracker", "none"), ("prompting", "direct")):
        assert not differ
    else:
        assert differ, "a variant that varies nothing"


@pytest.mark.parametrize("path", sorted(CONF.rglob("*/*.yaml")), ids=lambda p: str(p.relative_to(CONF)))
def test_a_yaml_is_short_and_says_first_what_it_is(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert text.count("\n") <= (90 if path.parent.name == "experiment" else 45)


@pytest.mark.parametrize("name", SETS)
def test_a_set_of_metrics_names_metrics_and_is_itself_none(name):
    node = yaml.safe_load((CONF / "metric" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert set(node) == {"defaults"}
    assert name not in load_members("metric")
    assert set(resolve_metric_names([name])) <= load_members("metric").keys()


def test_the_set_of_all_metrics_lacks_those_that_ask_people_or_a_grid_alone():
    left_out = {name for name, cls in load_members("metric").items() if cls.family == "human" or cls().reads_grid}
    left_out |= set(resolve_metric_names(["stress"])) - set(resolve_metric_names(["all"]))
    left_out |= {"copying", "finetuned_discriminator"}  # needs training texts; trains models
    left_out |= set(resolve_metric_names(["distributional"]))  # a set of their own: one needs a backward pass a text
    wrong = (load_members("metric").keys() - left_out) ^ set(resolve_metric_names(["all"]))
    assert not wrong, f"add to a set that conf/metric/all.yaml names, such as text.yaml, or remove: {sorted(wrong)}"


@pytest.mark.parametrize("path", sorted(CONF.glob("*/_*.yaml")), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_what_a_shared_file_says_is_written_nowhere_else(path):
    shared = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name in list_bundled_choices(path.parent.name):
        own = yaml.safe_load((path.parent / f"{name}.yaml").read_text(encoding="utf-8")) or {}
        if path.stem in own.get("defaults", ()):
            lines = (path.parent / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
            plain = {line.partition(":")[0] for line in lines if " #" not in line}  # no reason of its own
            repeated = {key for key in own.keys() & shared.keys() & plain if own[key] == shared[key]}
            assert repeated <= {"defaults"}, f"{path.parent.name}/{name}.yaml repeats {path.name}"


@pytest.mark.parametrize("group", sorted({path.parent.name for path in CONF.glob("*/_*.yaml")}))
def test_a_shared_file_is_no_choice(group):
    assert list_bundled_choices(group)
    assert not [name for name in list_bundled_choices(group) if name.startswith("_")]


def test_a_layout_of_its_own_has_the_defaults_of_the_shared_file():
    shared = yaml.safe_load((CONF / "report" / "_base.yaml").read_text(encoding="utf-8"))
    shared.pop("_target_")
    assert canonicalize(shared) == canonicalize(defaults(Layout))


def pinned(group: str, name: str) -> tuple[Any, ...]:
    _, node = read(group, name)
    return node["path"], node["label"], node["revision"], node["dtype"]


@pytest.mark.parametrize("name", ["gpt2", "gpt2-large"])
def test_one_model_has_one_id_and_commit_in_every_role(name):
    roles = [group for group in ("model", "scorer", "embedder") if (CONF / group / f"{name}.yaml").is_file()]
    assert len(roles) >= 2
    assert {pinned(group, name) for group in roles} == {pinned("model", name)}
    assert len(pinned("model", name)[2]) == 40
