"""The registry finds classes by name without importing others."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

from openended.harness.core import SpecError, find_member, list_members, load_member, registry
from tests.helpers import ROOT


@pytest.mark.parametrize("group", registry._FOLDERS)
def test_the_index_names_every_registered_class(group):
    for folder in registry._FOLDERS[group]:
        package = importlib.import_module(f"openended.{folder.replace('/', '.')}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.rpartition(".")[2].startswith("_"):  # may need packages that are not installed
                importlib.import_module(module.name)
    classes = {n: registry._get_class_path(c) for n, c in registry._members[group].items() if registry.is_bundled(c)}
    assert registry.list_bundled_members(group) == classes


def test_a_member_is_loaded_alone():
    code = (
        "import sys; from openended.harness.core import find_member; find_member('metric', 'zipf');"
        "print(*(name for name in sys.modules if name.startswith('openended.metrics.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = set(done.stdout.split())
    assert "openended.metrics.zipf" in loaded
    assert not {f"openended.metrics.{name}" for name in list_members("metric")} & loaded - {"openended.metrics.zipf"}


def test_an_unknown_name_is_refused_with_the_nearest():
    assert find_member("metric", "zipff") is None
    with pytest.raises(SpecError, match="no metric 'zipff'; did you mean 'zipf'"):
        load_member("metric", "zipff")
