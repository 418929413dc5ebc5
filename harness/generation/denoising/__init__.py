"""Samplers of masked and uniform-state diffusion models: options and update rules."""
