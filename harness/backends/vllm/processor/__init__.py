"""The logits processor that chooses tokens inside vLLM: a core of tensors, and thin adapters to its interfaces."""
