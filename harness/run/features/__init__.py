"""Features of the texts that the metrics need: each model runs once over each source."""

from openended.harness.run.features.features import FOR_DECODER, Featurizer

__all__ = ["FOR_DECODER", "Featurizer"]
