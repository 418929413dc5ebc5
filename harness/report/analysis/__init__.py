"""Analyses over several systems: best of N, sweeps, paired tests, intervals."""
