"""Row blocks, moments and neighbors of embeddings."""
