"""Where Hydra looks for what this project adds to it: re-exports only."""

from openended.harness.app import ExperimentSections, Joblib, OptunaSweeper, PluginPackages, Ray, Submitit, Union

__all__ = ["ExperimentSections", "Joblib", "OptunaSweeper", "PluginPackages", "Ray", "Submitit", "Union"]
