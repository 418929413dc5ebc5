"""`hydra/sweeper=optuna`: a search for the best settings."""
