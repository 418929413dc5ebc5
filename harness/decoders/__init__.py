"""Decoders as options and rules on logits; nothing here loads or calls a model."""
