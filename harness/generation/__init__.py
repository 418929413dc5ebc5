"""From a model and a decoder to texts: batches, the key/value cache, search and teacher forcing."""
