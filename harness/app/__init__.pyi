from .api import evaluate as evaluate, make_metric as make_metric
from .cli import main as main
from .hydra.compose import Composer as Composer, to_plain as to_plain
from .hydra.experiments import ComputedConfigs as ComputedConfigs, PluginPackages as PluginPackages
from .hydra.run_command import run_hydra as run_hydra
from .hydra.search_space import Objective as Objective
