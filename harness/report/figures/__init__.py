"""Figures of a report, each drawn from aggregated values."""
