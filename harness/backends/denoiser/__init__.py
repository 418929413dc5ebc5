"""Denoisers: models that fill positions in any order, their samplers, and the loop that runs them."""
