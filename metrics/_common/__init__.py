"""Checked options and dict-like results for all metrics."""
