from .commands import COMMANDS as COMMANDS
from .trial_study import run_simulated_study as run_simulated_study
