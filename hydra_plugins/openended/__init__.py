"""Where Hydra looks for what this project adds to it: re-exports only."""

from openended.harness.hydra_app.launchers import Joblib, Submitit
from openended.harness.hydra_app.plugins import OtherPackages
from openended.harness.hydra_app.ray_launcher import Ray
from openended.harness.hydra_app.search.sweeper import OptunaSweeper
from openended.harness.hydra_app.sweeper import Union

__all__ = ["Joblib", "OptunaSweeper", "OtherPackages", "Ray", "Submitit", "Union"]
