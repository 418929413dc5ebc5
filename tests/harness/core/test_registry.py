"""The registry finds classes by name without importing others."""

import importlib
import pkgutil
import sys

import pytest

from openended.harness.core import CLASS_GROUPS, SpecError, find_member, list_members, load_entry, load_member, registry
from openended.harness.core.members import ENTRIES
from tests.helpers import check_error, run_process

FOLDERS = {
    "metric": ("metrics",),
    "task": ("tasks",),
    "decoder": ("harness.decoders", "harness.generation", "harness.backends"),
    "model": ("harness.models", "harness.backends"),
}  # where classes are registered


@pytest.mark.parametrize("group", FOLDERS)
def test_every_registered_class_is_listed(group):
    for folder in FOLDERS[group]:
        package = importlib.import_module(f"openended.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.rpartition(".")[2].startswith("_"):  # may need packages that are not installed
                importlib.import_module(module.name)
    own = {name: cls for name, cls in registry._members[group].items() if registry.is_bundled(cls)}
    classes = {name: f"{cls.__module__}:{cls.__qualname__}" for name, cls in own.items()}
    assert {name: f"openended.{path}" for name, path in ENTRIES[group].items()} == classes


@pytest.mark.parametrize("group", ENTRIES)
def test_what_is_listed_exists(group):
    assert registry.list_bundled_members(group).keys() == ENTRIES[group].keys()
    for name in ENTRIES[group]:
        member = load_member(group, name) if group in CLASS_GROUPS else load_entry(group, name)
        assert callable(member)
        assert isinstance(member, type) or group not in CLASS_GROUPS


def test_a_class_whose_file_was_taken_away_is_unknown(monkeypatch):
    registry.list_bundled_members.cache_clear()
    monkeypatch.setitem(registry.ENTRIES, "decoder", {"greedy": "harness.decoders.gone:Greedy"})
    try:
        assert not registry.list_bundled_members("decoder")
    finally:
        registry.list_bundled_members.cache_clear()


def test_a_member_is_loaded_alone():
    code = "import sys; from openended.harness.core import find_member; find_member('metric', 'zipf');"
    code += "print(*(name for name in sys.modules if name.startswith('openended.metrics.')))"
    loaded = set(run_process(sys.executable, "-c", code).stdout.split())
    assert "openended.metrics.zipf" in loaded
    assert not {f"openended.metrics.{name}" for name in list_members("metric")} & loaded - {"openended.metrics.zipf"}


def test_an_unknown_name_is_refused_with_the_nearest():
    assert find_member("metric", "zipff") is None
    check_error(SpecError, "no metric 'zipff'; did you mean 'zipf'", load_member, "metric", "zipff")
