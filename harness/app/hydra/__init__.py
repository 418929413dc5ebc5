"""The only rooms that know Hydra: jobs, grids, sweepers, launchers."""
