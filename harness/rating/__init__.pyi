from .cli.main import COMMANDS as COMMANDS
from .collect.simulate_study import run_simulated_study as run_simulated_study
