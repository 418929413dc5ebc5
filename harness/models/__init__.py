"""Language models, tokenizers and embedders: where one comes from, and one in memory."""
