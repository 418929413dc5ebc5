"""Where Hydra looks for what this project adds to it: re-exports only."""

from openended.harness.app import ComputedConfigs, PluginPackages

__all__ = ["ComputedConfigs", "PluginPackages"]
