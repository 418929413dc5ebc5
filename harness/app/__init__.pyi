from .cli import main as main
from .hydra.experiments import ExperimentSections as ExperimentSections, PluginPackages as PluginPackages
