"""What runs a model: transformers in this process, a server, or Ray workers."""
