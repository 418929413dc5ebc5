"""Where Hydra looks for what this project adds to it: re-exports only."""

from openended.harness.app import ExperimentSections, PluginPackages

__all__ = ["ExperimentSections", "PluginPackages"]
