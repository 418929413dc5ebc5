from .cli import main as main
from .hydra.launchers import Joblib as Joblib, Submitit as Submitit
from .hydra.plugins import PluginPackages as PluginPackages
from .hydra.ray_launcher import Ray as Ray
from .hydra.search.optuna_sweeper import OptunaSweeper as OptunaSweeper
from .hydra.sweeper import Union as Union
from .hydra.using import ExperimentSections as ExperimentSections
