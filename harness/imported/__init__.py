"""Generations that others made: formats, files and how they are paired with examples."""
