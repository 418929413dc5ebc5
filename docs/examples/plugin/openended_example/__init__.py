"""A metric, a decoder and a task for openended."""
