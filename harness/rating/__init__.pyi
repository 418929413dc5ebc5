from .protocol import load_protocol as load_protocol
from .trial_study import run_simulated_study as run_simulated_study
