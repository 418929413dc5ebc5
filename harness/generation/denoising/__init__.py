"""Samplers of masked and uniform-state diffusion models: options, update rules and steps."""
