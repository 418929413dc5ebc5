"""A fair comparison of decoders: each gets the same number of settings, and none is scored on what chose it."""
