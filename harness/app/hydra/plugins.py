"""Make the classes and configurations of installed plugin packages available to Hydra.

An entry point `openended.metrics` (`tasks`, `decoders`, `models`) names a class; its YAML is optional, for a class has
defaults. An entry point `openended.conf` names a package with YAML files in folders named after the config groups.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.plugins.search_path_plugin import SearchPathPlugin

from openended.harness.app.hydra.using import CHOICE, PLUGINS, ExperimentSections
from openended.harness.core import SpecError, defaults, load_plugins

GROUPS = ("metric", "task", "decoder", "model")


class PluginPackages(SearchPathPlugin):  # type: ignore[misc]
    """Add the YAMLs of plugin packages, and default nodes for classes without one."""

    __module__ = PLUGINS

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the YAML folders of plugins to the search path; classes without YAML get a node of their defaults.

        Raises:
            SpecError: If an entry point `openended.conf` names no package.
        """
        search_path.prepend("openended", f"{ExperimentSections.scheme()}://{CHOICE}")
        folders = []
        for point in entry_points(group="openended.conf"):
            if find_spec(point.value) is None:
                raise SpecError(f"entry point openended.conf: no package {point.value!r}")
            search_path.append("openended", f"pkg://{point.value}")
            folders.append(files(point.value))
        store = ConfigStore.instance()
        for group in GROUPS:
            for name, (package, cls) in load_plugins(group).items():
                if any((folder / group / f"{name}.yaml").is_file() for folder in folders):
                    continue  # Hydra would use the stored node as the schema of that YAML
                # A run can have several metrics, so each needs its own key.
                node = {name: defaults(cls)} if group == "metric" else defaults(cls)
                store.store(group=group, name=name, node=node, provider=package)
