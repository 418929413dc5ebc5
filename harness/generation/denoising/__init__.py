"""Samplers of masked and uniform-state diffusion models: options, update rules and the loop that runs them."""
