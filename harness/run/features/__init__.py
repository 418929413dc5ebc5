"""What the metrics read of the texts: each model passes once over each source."""

from openended.harness.run.features.features import FOR_DECODER, Featurizer

__all__ = ["FOR_DECODER", "Featurizer"]
