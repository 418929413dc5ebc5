"""Hydra integration: jobs, grids, sweepers and launchers."""
