"""Figures: each a function of folded values."""
