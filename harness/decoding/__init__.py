"""Decoders: a token distribution Q and a way to choose from it."""
