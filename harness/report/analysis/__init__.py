"""Analyses over several systems: best of n, sweeps, findings."""
