"""Where Hydra looks for what this project adds to it: re-exports only."""

from openended.harness.app.hydra.launchers import Joblib, Submitit
from openended.harness.app.hydra.plugins import OtherPackages
from openended.harness.app.hydra.ray_launcher import Ray
from openended.harness.app.hydra.search.sweeper import OptunaSweeper
from openended.harness.app.hydra.sweeper import Union
from openended.harness.app.hydra.using import ExperimentSections

__all__ = ["ExperimentSections", "Joblib", "OptunaSweeper", "OtherPackages", "Ray", "Submitit", "Union"]
